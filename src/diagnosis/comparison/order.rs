//! Which array, batch entry and head of one dump is which of the other: shapes, and heads in another order.

use std::collections::BTreeMap;

use super::Dump;
use super::grid::{Grid, coarser, is_explained, root_mean_square};
use crate::diagnosis::arrays::Role;
use crate::diagnosis::finding::{Check, Finding, Verdict};

/// Rows by which heads are recognised.
const ROWS: usize = 8;

/// Arrays of tokens and heads, whose order shows.
const BY_HEAD: [Role; 7] = [
    Role::Queries,
    Role::Keys,
    Role::Values,
    Role::Weights,
    Role::Output,
    Role::QueriesBeforeRotation,
    Role::KeysBeforeRotation,
];

fn shown(shape: [usize; 4]) -> String {
    format!("({})", shape.map(|axis| axis.to_string()).join(", "))
}

/// Shapes that do not fit; arrays that cannot be compared are taken out of `shared`.
///
/// # Errors
/// What the arrays cannot read.
pub(super) fn shapes(own: &Dump, reference: &Dump, shared: &mut Vec<Role>) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    let mut kept = Vec::new();
    for &role in shared.iter() {
        let (a, b) = (own.arrays[&role].shape, reference.arrays[&role].shape);
        // The number of tokens may differ: a step, or padding.
        let tokens_axes: &[usize] = match role {
            Role::Weights | Role::Logits | Role::Mask | Role::Bias => &[2, 3],
            Role::LogSumExp | Role::Padding => &[3],
            _ => &[2],
        };
        let differs: Vec<usize> = (1..4).filter(|&axis| a[axis] != b[axis]).collect();
        let exchanged = differs.len() == 2 && a[differs[0]] == b[differs[1]] && a[differs[1]] == b[differs[0]];
        let is_exchanged = exchanged && axes_exchanged(own, reference, role, (differs[0], differs[1]))?;
        if !is_exchanged && differs.iter().all(|axis| tokens_axes.contains(axis)) {
            kept.push(role);
            continue;
        }
        let (key, words, cause) = if is_exchanged {
            let (first, second) = (differs[0], differs[1]);
            let names = ["batch", "head", "row", "column"];
            let cause = match (first, second) {
                (1, 2) => "(batch, head, token, channel) in one dump and (batch, token, head, channel) in the other",
                _ => "a transposed dump: x.T, or Fortran order read as C order",
            };
            (
                "axes",
                format!("axes {} and {} are exchanged, the numbers are the same", names[first], names[second]),
                cause,
            )
        } else {
            (
                "shape",
                "the shapes do not belong together".to_string(),
                "dumps of different models, layers or layouts; see --layout",
            )
        };
        let words = format!("shape {} in the file, {} in the reference: {words}", shown(a), shown(b));
        findings.push(
            Finding::new(Check::Agreement(role), Verdict::Fail, key, words)
                .with_cause(cause, "print both shapes where the arrays are dumped"),
        );
    }
    *shared = kept;
    Ok(findings)
}

/// Whether the first cells are the same with two axes exchanged.
fn axes_exchanged(own: &Dump, reference: &Dump, role: Role, axes: (usize, usize)) -> Result<bool, String> {
    let (a, b) = (&own.arrays[&role], &reference.arrays[&role]);
    let limits = a.shape.map(|axis| axis.min(ROWS));
    let (mut squares, mut size) = (0.0, 0.0);
    let mut storage = a.at(0, 0)?.computed_in();
    for head in 0..limits[1] {
        let matrix = a.at(0, head)?;
        for row in 0..limits[2] {
            for column in 0..limits[3] {
                let mut at = [0, head, row, column];
                at.swap(axes.0, axes.1);
                let other = b.at(at[0], at[1])?;
                storage = if other.computed_in().unit_roundoff() > storage.unit_roundoff() {
                    other.computed_in()
                } else {
                    storage
                };
                let (x, y) = (matrix.at(row, column), other.at(at[2], at[3]));
                (squares, size) = (squares + (x - y).powi(2), size + y * y);
            }
        }
    }
    Ok(size > 0.0 && (squares / size).sqrt() <= super::grid::EXPLAINED * storage.unit_roundoff())
}

/// (batch entry of the file, of the reference). A single entry beside several is paired with the nearest.
///
/// # Errors
/// Numbers of batch entries that cannot be paired.
pub(super) fn batch_pairs(
    own: &Dump,
    reference: &Dump,
    shared: &[Role],
    batches: usize,
    reference_batches: usize,
) -> Result<Vec<(usize, usize)>, String> {
    if batches == reference_batches {
        return Ok((0..batches).map(|batch| (batch, batch)).collect());
    }
    if batches.min(reference_batches) != 1 {
        return Err(format!("{batches} batch entries in the file, {reference_batches} in the reference"));
    }
    let role = BY_HEAD.into_iter().find(|role| shared.contains(role)).unwrap_or(shared[0]);
    let one = batches == 1;
    let (single, several) = if one { (own, reference) } else { (reference, own) };
    let norms = |dump: &Dump, batch: usize| -> Result<Vec<f64>, String> {
        let matrix = dump.arrays[&role].at(batch, 0)?;
        let mut row = vec![0.0; matrix.columns];
        Ok((0..matrix.rows)
            .map(|index| {
                matrix.row(index, &mut row);
                root_mean_square(&row)
            })
            .collect())
    };
    let wanted = norms(single, 0)?;
    let mut best = (f64::INFINITY, 0);
    for batch in 0..batches.max(reference_batches) {
        let found = norms(several, batch)?;
        // From the left or from the right.
        let length = wanted.len().min(found.len());
        let apart = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        let left = apart(&wanted[..length], &found[..length]);
        let right = apart(&wanted[wanted.len() - length..], &found[found.len() - length..]);
        if left.min(right) < best.0 {
            best = (left.min(right), batch);
        }
    }
    Ok(vec![if one { (0, best.1) } else { (best.1, 0) }])
}

/// Head h of the file is head `[h]` of the reference, by role.
pub(super) type Orders = BTreeMap<Role, Vec<usize>>;

/// Arrays whose heads are in another order, and what that means.
///
/// # Errors
/// What the arrays cannot read.
pub(super) fn head_orders(
    own: &Dump,
    reference: &Dump,
    shared: &[Role],
    (batch, reference_batch): (usize, usize),
) -> Result<(Orders, Vec<Finding>), String> {
    let mut orders = Orders::new();
    let mut judged = 0;
    for role in BY_HEAD.into_iter().filter(|role| shared.contains(role)) {
        let (a, b) = (&own.arrays[&role], &reference.arrays[&role]);
        let heads = a.shape[1];
        // Weights of other lengths have other numbers.
        if heads < 2 || a.shape[1..] != b.shape[1..] {
            continue;
        }
        judged += 1;
        let first = |array: &crate::diagnosis::arrays::Array, batch: usize, head: usize| -> Result<Grid, String> {
            let matrix = array.at(batch, head)?;
            Ok(Grid::cut(&matrix, (0, 0), matrix.rows.min(ROWS), matrix.columns))
        };
        let of_reference: Vec<Grid> =
            (0..heads).map(|head| first(b, reference_batch, head)).collect::<Result<_, _>>()?;
        let mut order = Vec::with_capacity(heads);
        for head in 0..heads {
            let grid = first(a, batch, head)?;
            let same = |other: &usize| {
                let other = &of_reference[*other];
                is_explained(&grid, other, coarser(&grid, other).unit_roundoff())
            };
            let found = std::iter::once(head).chain(0..heads).find(same);
            if let Some(found) = found.filter(|found| !order.contains(found)) {
                order.push(found);
            }
        }
        if order.len() == heads && order.iter().enumerate().any(|(head, &other)| head != other) {
            orders.insert(role, order);
        }
    }
    let mut findings = Vec::new();
    let mut distinct: Vec<&Vec<usize>> = orders.values().collect();
    distinct.dedup();
    let all_alike = orders.len() == judged && distinct.len() == 1;
    for order in distinct {
        let roles: Vec<String> =
            orders.iter().filter(|(_, own)| *own == order).map(|(role, _)| role.to_string()).collect();
        let list: Vec<String> = order.iter().map(usize::to_string).collect();
        let (verdict, rest) = if all_alike {
            (
                Verdict::Warn,
                "every array alike, so each head belongs to its own Q and K; what joins the heads must know the order",
            )
        } else {
            (Verdict::Fail, "the other arrays are not in this order")
        };
        let words = format!("heads of {} are heads [{}] of the reference: {rest}", roles.join(", "), list.join(", "));
        findings.push(Finding::new(Check::Heads, verdict, format!("order {list:?}"), words).with_cause(
            "a reshape without changing axes, grouped keys repeated in another order, or permuted projections",
            "compare head by head",
        ));
    }
    Ok((orders, findings))
}
