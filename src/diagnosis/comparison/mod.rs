//! Two dumps of one attention: what differs, by how much of what rounding explains, and what turns one into the other.
//!
//! Arrays are paired by role. Of each pair first NaN and infinities are counted, then the difference is held against a bound from the
//! coarser of both types; what rounding does not explain is searched for structure, in this order:
//!
//! | arrays | structures |
//! |---|---|
//! | all | heads in another order, axes exchanged, rows for columns |
//! | Q, K, V, O, before the rotation too | one factor, a rotation by positions, a permutation of channels or of rows |
//! | weights | dropout, other visible keys, a power of the reference (another scale) |
//! | log-sum-exp | constant ratio, constant offset, an offset linear in q |
//!
//! Causes come before symptoms: weights and output are held against what the differences of Q, K (and V) make of them, and only what
//! is left is a finding of their own. What changes Q and K and leaves QKᵀ as it is (one permutation or rotation of both, a factor
//! split between them) is no fault.
//!
//! Dumps may differ in the number of tokens: a decode step beside a full pass, a padded sequence beside the same alone. Rows are then
//! paired where their norms agree (norms do not change with positions).

mod alignment;
mod grid;
mod head;
mod inputs;
mod lse;
mod made;
mod order;
mod output;
mod relation;
mod weights;

use std::collections::BTreeMap;

use super::arrays::{Array, Role};
use super::checks::key_head;
use super::contract::Contract;
use super::finding::{Check, Finding, Verdict, joined};
use super::naming::Sizes;
use alignment::tokens;
use head::HeadPair;

/// Shown by `--explain agreement`.
pub const EXPLANATION: &str = "\
Is the array that of the reference (--against)?
Formula: |A − B| of each cell against 8u(|B| + root mean square of its row), u the unit roundoff of the coarser type; weights against P·(exp(e + Σ P e) − 1) \
with e the rounding of a logit, |c|·‖q‖‖k‖·4(u + 2√d u_f32); output against Σ|ΔP||V| + Σ P|ΔV| + its own rounding. `measured` is the largest difference over its \
bound. In half types the root mean square of the difference is also told in units of that of a plain computation in the type (the yardstick).
Beyond the bound, structures are tried: order of heads, one factor, rotation by -8 to 8 positions or back to position 0, permutation of channels or rows, \
transposition; for weights dropout, visible keys, another scale; for lse a ratio, an offset, q·mean(K). The one that leaves nothing but rounding is named.
Verdict: FAIL for any of them, also for NaN in either dump; PASS for what leaves QKᵀ as it is (the same change of Q and K) or is undone later (a factor, weights \
being equal); WARN for differences without structure up to 32u of the array's size, as rounding through many layers makes. CANNOT TELL where the array differs as \
much as the arrays before it explain.
Blind spots: a fault in both dumps; a permutation together with a factor; equal heads or tokens; which of the dumps is right.";

/// Shown by `--explain cache`.
pub const CACHE: &str = "\
Do decode steps stand at the positions that the full pass gives them (--against)?
Formula: rows of Q and K of a step are paired with those of the full pass by their norms; rows that differ are turned by r positions, |own − R(r)·reference| over \
|reference| for r from -8 to 8 and back to position 0, both pairings and base 10000 unless --rotary and --base say more. The r that leaves nothing but rounding is named.
Verdict: FAIL for a rotation, also of rows of two dumps of equal length; PASS if the step's rows are those of the full pass.
Blind spots: Q and K turned alike, which changes nothing (positions enter as differences); rows of equal norm; a wrong base.";

/// Arrays of one dump and what its implementation promises.
#[derive(Debug)]
pub struct Dump {
    /// By role.
    pub arrays: BTreeMap<Role, Array>,
    /// The scale, the rotation, dropout and the tolerance are used.
    pub contract: Contract,
}

/// What a comparison found.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Findings joined over heads, worst first.
    pub findings: Vec<Finding>,
    /// Batch entries compared.
    pub batches: usize,
    /// Heads compared.
    pub heads: usize,
}

/// Compares `own` with `reference`; `progress` hears after each head how many are done, of how many.
///
/// # Errors
/// No array in common, batch entries or heads that cannot be paired, what cannot be read; one line each.
pub fn compare(own: &Dump, reference: &Dump, progress: &dyn Fn(usize, usize)) -> Result<Comparison, String> {
    let mut shared: Vec<Role> = own.arrays.keys().filter(|role| reference.arrays.contains_key(role)).copied().collect();
    if shared.is_empty() {
        let named = |dump: &Dump| dump.arrays.keys().map(Role::to_string).collect::<Vec<_>>().join(", ");
        return Err(format!("no array in common: the file has {}, the reference {}", named(own), named(reference)));
    }
    let mut findings: Vec<Finding> = missing(own, reference).into_iter().collect();
    findings.extend(order::shapes(own, reference, &mut shared)?);
    if shared.is_empty() {
        return Ok(Comparison { findings: joined(findings), batches: 1, heads: 1 });
    }
    let count = |dump: &Dump, axis: usize| shared.iter().map(|role| dump.arrays[role].shape[axis]).max().unwrap_or(1);
    let (batches, heads) = (count(own, 0), count(own, 1));
    let pairs = order::batch_pairs(own, reference, &shared, batches, count(reference, 0))?;
    let (orders, of_orders) = order::head_orders(own, reference, &shared, pairs[0])?;
    findings.extend(of_orders);
    let sizes = sizes(own, &shared, heads);
    let scales = (scale(own, &sizes)?, scale(reference, &sizes)?);
    for (done, &(batch, reference_batch)) in pairs.iter().enumerate() {
        let tokens = tokens(own, reference, &shared, (batch, reference_batch))?;
        for head in 0..heads {
            let at = head::Place { batch, reference_batch, head };
            let pair = HeadPair::read(own, reference, &shared, at, tokens, &orders, sizes, scales)?;
            findings.extend(pair.findings());
            progress(done * heads + head + 1, pairs.len() * heads);
        }
    }
    Ok(Comparison { findings: joined(findings), batches: pairs.len(), heads })
}

/// Repeats keys and values of grouped heads where the other dump has them repeated already: the same attention, dumped before and
/// after that.
pub fn repeat_grouped_heads(own: &mut Dump, reference: &mut Dump) {
    for role in [Role::Keys, Role::Values, Role::KeysBeforeRotation] {
        let heads = |dump: &Dump| dump.arrays.get(&role).map(|array| array.shape[1]);
        let (Some(a), Some(b)) = (heads(own), heads(reference)) else { continue };
        let (fewer, more) = (a.min(b), a.max(b));
        if fewer == more || fewer == 0 || more % fewer != 0 {
            continue;
        }
        let dump = if a < b { &mut *own } else { &mut *reference };
        let order = *dump.contract.groups.value();
        if let Some(Array { shape: [batches, _, rows, columns], read }) = dump.arrays.remove(&role) {
            let repeated = move |batch: usize, head: usize| read(batch, key_head(head, more, fewer, order));
            dump.arrays.insert(role, Array { shape: [batches, more, rows, columns], read: Box::new(repeated) });
        }
    }
}

/// Arrays that one dump alone has.
fn missing(own: &Dump, reference: &Dump) -> Option<Finding> {
    let only = |a: &Dump, b: &Dump| {
        let roles = a.arrays.keys().filter(|role| !b.arrays.contains_key(role)).map(Role::to_string);
        roles.collect::<Vec<_>>().join(", ")
    };
    let parts: Vec<String> = [("file", only(own, reference)), ("reference", only(reference, own))]
        .into_iter()
        .filter(|(_, roles)| !roles.is_empty())
        .map(|(name, roles)| format!("only the {name} has {roles}"))
        .collect();
    let role = own
        .arrays
        .keys()
        .chain(reference.arrays.keys())
        .find(|role| own.arrays.contains_key(role) != reference.arrays.contains_key(role))?;
    Some(Finding::new(Check::Agreement(*role), Verdict::CannotTell, "missing", parts.join("; ")))
}

fn sizes(own: &Dump, shared: &[Role], heads: usize) -> Sizes {
    let shape = |role: Role| own.arrays.get(&role).map(|array| array.shape);
    let width = [Role::Queries, Role::Keys, Role::QueriesBeforeRotation].into_iter().find_map(shape);
    let rows = |roles: &[Role], axis: usize| roles.iter().copied().find_map(shape).map_or(1, |shape| shape[axis]);
    Sizes {
        width: width.map_or(1, |shape| shape[3]),
        value_width: shape(Role::Values).map(|shape| shape[3]),
        heads,
        key_heads: shared.contains(&Role::Keys).then(|| shape(Role::Keys)).flatten().map_or(heads, |shape| shape[1]),
        queries: rows(&[Role::Queries, Role::Weights, Role::Output], 2),
        keys: shape(Role::Weights).map_or_else(|| rows(&[Role::Keys, Role::Values], 2), |shape| shape[3]),
        model_width: own.contract.model_width,
        layer: own.contract.layer,
    }
}

fn scale(dump: &Dump, sizes: &Sizes) -> Result<f64, String> {
    super::audit::contract_model(&dump.contract, sizes, 0, false).map(|model| model.scale)
}
