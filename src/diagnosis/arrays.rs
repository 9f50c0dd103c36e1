//! Arrays of shape (batch, head, rows, columns) by role, as one [`Source`] of heads.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::audit::Source;
use super::checks::{Reshape, key_head};
use super::contract::{Contract, PaddingKind};
use super::given_mask::MaskKind;
use super::matrix::{GivenMask, Head, Matrix, Numbers, Storage};
use super::naming::Sizes;

/// What an array is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Q.
    Queries,
    /// K.
    Keys,
    /// V.
    Values,
    /// After the softmax.
    Weights,
    /// O.
    Output,
    /// Scaled, before mask and softmax.
    Logits,
    /// Additive or boolean, (…, n or 1, m).
    Mask,
    /// (batch, 1, 1, m), not 0 = real.
    Padding,
    /// Added to the logits, (…, n or 1, m).
    Bias,
    /// (batch, head, 1, n).
    LogSumExp,
    /// Q before the rotation.
    QueriesBeforeRotation,
    /// K before the rotation.
    KeysBeforeRotation,
    /// (1, 1, positions, width).
    PositionTable,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 13] = [
        Self::Queries,
        Self::Keys,
        Self::Values,
        Self::Weights,
        Self::Output,
        Self::Logits,
        Self::Mask,
        Self::Padding,
        Self::Bias,
        Self::LogSumExp,
        Self::QueriesBeforeRotation,
        Self::KeysBeforeRotation,
        Self::PositionTable,
    ];
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Queries => "queries",
            Self::Keys => "keys",
            Self::Values => "values",
            Self::Weights => "weights",
            Self::Output => "output",
            Self::Logits => "logits",
            Self::Mask => "mask",
            Self::Padding => "padding",
            Self::Bias => "bias",
            Self::LogSumExp => "lse",
            Self::QueriesBeforeRotation => "q_pre",
            Self::KeysBeforeRotation => "k_pre",
            Self::PositionTable => "pe",
        })
    }
}

/// The matrix at (batch, head).
pub type Read = Box<dyn Fn(usize, usize) -> Result<Matrix, String> + Sync + Send>;

/// An array that is read matrix by matrix. An axis of length 1 holds for every batch entry or head.
pub struct Array {
    /// (batch, head, rows, columns).
    pub shape: [usize; 4],
    /// Reads one matrix; never asked for what the shape does not hold.
    pub read: Read,
}

impl fmt::Debug for Array {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Array {:?}", self.shape)
    }
}

impl Array {
    /// An array in memory, in C order, its numbers rounded to `storage`.
    ///
    /// # Panics
    /// If there are not as many numbers as the shape says.
    pub fn of(shape: [usize; 4], storage: Storage, numbers: Vec<f64>) -> Self {
        assert_eq!(numbers.len(), shape.iter().product::<usize>(), "an array has as many numbers as its shape says");
        let [_, heads, rows, columns] = shape;
        let read = move |batch: usize, head: usize| {
            let start = (batch * heads + head) * rows * columns;
            let own = &numbers[start..start + rows * columns];
            let numbers = match storage {
                Storage::F64 => Numbers::F64(own.to_vec()),
                narrow => Numbers::F32(own.iter().map(|&number| narrow.round(number) as f32).collect()),
            };
            Ok(Matrix::new(rows, columns, storage, numbers))
        };
        Self { shape, read: Box::new(read) }
    }

    /// Root mean square of all entries.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn size(&self) -> Result<f64, String> {
        let (mut squares, mut count) = (0.0, 0usize);
        for batch in 0..self.shape[0] {
            for head in 0..self.shape[1] {
                let numbers = self.at(batch, head)?.to_f64();
                squares += numbers.iter().map(|number| number * number).sum::<f64>();
                count += numbers.len();
            }
        }
        Ok((squares / count.max(1) as f64).sqrt())
    }

    /// The matrix at (batch, head); an axis of length 1 holds for all.
    pub(super) fn at(&self, batch: usize, head: usize) -> Result<Matrix, String> {
        let pick = |axis: usize, index: usize| if self.shape[axis] == 1 { 0 } else { index };
        (self.read)(pick(0, batch), pick(1, head))
    }
}

/// Arrays that fit together.
#[derive(Debug)]
pub struct ArraySource {
    arrays: BTreeMap<Role, Array>,
    contract: Contract,
    mask_kind: Option<MaskKind>,
    batches: usize,
    sizes: Sizes,
    /// The last mask that was read, and of which batch entry and head: most files have one for all.
    last_mask: Mutex<Option<((usize, usize), GivenMask)>>,
}

impl ArraySource {
    /// Puts arrays together under a contract; `mask_kind` is guessed if `None`.
    ///
    /// # Errors
    /// Q or K missing, or shapes that do not fit, in one line.
    pub fn new(
        arrays: BTreeMap<Role, Array>,
        contract: &Contract,
        mask_kind: Option<MaskKind>,
    ) -> Result<Self, String> {
        let shape = |role: Role| arrays.get(&role).map(|array| array.shape);
        let queries = shape(Role::Queries).ok_or("there are no queries (q, query, queries; or name them with --q)")?;
        let keys = shape(Role::Keys).ok_or("there are no keys (k, key, keys; or name them with --k)")?;
        let [batches, heads, n, width] = queries;
        let [key_batches, key_heads, m, key_width] = keys;
        if width != key_width {
            let transposed = if m == width { ": K looks transposed".to_string() } else { String::new() };
            return Err(format!("K is ({m}, {key_width}); Q has d = {width}{transposed}; see --layout"));
        }
        if queries.contains(&0) || keys.contains(&0) {
            return Err(format!("queries {queries:?} and keys {keys:?}: an axis of length 0 holds nothing to audit"));
        }
        if key_heads > heads || heads % key_heads != 0 {
            return Err(format!("{heads} query heads cannot share {key_heads} key heads"));
        }
        if key_batches != batches && key_batches != 1 {
            return Err(format!("queries have {batches} batch entries, keys {key_batches}"));
        }
        let value_width = shape(Role::Values).map(|shape| shape[3]);
        for (&role, array) in &arrays {
            let [_, _, rows, columns] = array.shape;
            let wanted: &[(usize, usize)] = match role {
                Role::Queries | Role::Keys | Role::PositionTable => continue,
                Role::Values => &[(m, columns)],
                Role::Weights | Role::Logits => &[(n, m)],
                Role::Output => &[(n, value_width.unwrap_or(columns))],
                Role::Mask | Role::Bias => &[(n, m), (1, m)],
                Role::Padding => &[(1, m)],
                Role::LogSumExp => &[(1, n)],
                Role::QueriesBeforeRotation => &[(n, width)],
                Role::KeysBeforeRotation => &[(m, width)],
            };
            if !wanted.contains(&(rows, columns)) {
                let (wanted_rows, wanted_columns) = wanted[0];
                return Err(format!(
                    "{role}: {rows}x{columns} a head, expected {wanted_rows}x{wanted_columns} ({n} queries, {m} keys); see --layout"
                ));
            }
            let heads_fit = [1, heads].contains(&array.shape[1])
                || (matches!(role, Role::Values | Role::KeysBeforeRotation) && array.shape[1] == key_heads);
            if !heads_fit || ![1, batches].contains(&array.shape[0]) {
                return Err(format!(
                    "{role}: {} batch entries and {} heads, queries have {batches} and {heads}",
                    array.shape[0], array.shape[1]
                ));
            }
        }
        let sizes = Sizes {
            width,
            value_width,
            heads,
            key_heads,
            queries: n,
            keys: m,
            model_width: contract.model_width,
            layer: contract.layer,
        };
        Ok(Self { arrays, contract: contract.clone(), mask_kind, batches, sizes, last_mask: Mutex::new(None) })
    }

    fn matrix(&self, role: Role, batch: usize, head: usize) -> Result<Option<Matrix>, String> {
        self.arrays.get(&role).map(|array| array.at(batch, head)).transpose()
    }

    fn given_mask(&self, batch: usize, head: usize) -> Result<Option<GivenMask>, String> {
        let Some(array) = self.arrays.get(&Role::Mask) else { return Ok(None) };
        let place = (batch.min(array.shape[0] - 1), head.min(array.shape[1] - 1));
        let mut last = self.last_mask.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, mask)) = last.as_ref().filter(|(of, _)| *of == place) {
            return Ok(Some(mask.clone()));
        }
        let mask = array.at(batch, head)?;
        let kind = self.mask_kind.unwrap_or_else(|| MaskKind::guess(&mask));
        let read = GivenMask::read(&mask, kind, self.sizes.queries);
        let read = GivenMask { kind_is_declared: self.mask_kind.is_some(), ..read };
        *last = Some((place, read.clone()));
        Ok(Some(read))
    }

    /// The head of `role` that query head `head` uses.
    fn shared(&self, role: Role, head: usize) -> usize {
        let heads = self.arrays.get(&role).map_or(1, |array| array.shape[1]);
        if heads == self.sizes.heads {
            head
        } else {
            key_head(head, self.sizes.heads, heads, *self.contract.groups.value())
        }
    }
}

impl Source for ArraySource {
    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn batches(&self) -> usize {
        self.batches
    }

    fn head(&self, batch: usize, head: usize) -> Result<Head, String> {
        let own = |role: Role| self.matrix(role, batch, self.shared(role, head));
        let mask = self.given_mask(batch, self.shared(Role::Mask, head))?;
        let keep = *self.contract.padding.value() == PaddingKind::Keep;
        let padding =
            own(Role::Padding)?.map(|padding| padding.to_f64().iter().map(|&entry| (entry != 0.0) == keep).collect());
        Ok(Head {
            batch,
            head,
            queries: self.queries(batch, head)?,
            keys: own(Role::Keys)?.ok_or("there are no keys")?,
            values: own(Role::Values)?,
            weights: own(Role::Weights)?,
            output: own(Role::Output)?,
            logits: own(Role::Logits)?,
            mask,
            padding,
            bias: own(Role::Bias)?,
            log_sum_exp: own(Role::LogSumExp)?,
            queries_before_rotation: own(Role::QueriesBeforeRotation)?,
            keys_before_rotation: own(Role::KeysBeforeRotation)?,
        })
    }

    fn queries(&self, batch: usize, head: usize) -> Result<Matrix, String> {
        Ok(self.matrix(Role::Queries, batch, head)?.ok_or("there are no queries")?)
    }

    fn keys(&self, batch: usize, key_head: usize) -> Result<Matrix, String> {
        Ok(self.matrix(Role::Keys, batch, key_head)?.ok_or("there are no keys")?)
    }

    fn values(&self, batch: usize, key_head: usize) -> Result<Option<Matrix>, String> {
        // Values may be one per query head where keys are shared.
        let heads = self.arrays.get(&Role::Values).map_or(1, |array| array.shape[1]);
        self.matrix(Role::Values, batch, key_head.min(heads - 1))
    }

    fn output_reshaped(&self, batch: usize, head: usize, order: Reshape) -> Result<Option<Matrix>, String> {
        let Some(array) = self.arrays.get(&Role::Output).filter(|array| array.shape[1] == self.sizes.heads) else {
            return Ok(None);
        };
        let (heads, n) = (self.sizes.heads, self.sizes.queries);
        let width = array.shape[3];
        let all: Vec<Matrix> = (0..heads).map(|other| array.at(batch, other)).collect::<Result<_, _>>()?;
        // Where token `token` of the head lies: the head and the token that are read there.
        let place = |token: usize| match order {
            Reshape::HeadsToTokens => ((head * n + token) % heads, (head * n + token) / heads),
            Reshape::TokensToHeads => ((token * heads + head) / n, (token * heads + head) % n),
        };
        let cells = (0..n).map(place).flat_map(|(of, at)| (0..width).map(move |channel| (of, at, channel)));
        let numbers = cells.map(|(of, at, channel)| all[of].at(at, channel)).collect();
        Ok(Some(Matrix::new(n, width, all[head].storage, Numbers::F64(numbers))))
    }

    fn position_table(&self) -> Result<Option<Matrix>, String> {
        self.matrix(Role::PositionTable, 0, 0)
    }
}
