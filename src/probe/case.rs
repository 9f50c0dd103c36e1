//! A case: tensors, what an implementation is asked to do with them, and what that shows.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::diagnosis::matrix::Storage;

/// What an implementation may be able to do. Every case belongs to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// The scale 1/√d_k that nobody asked for.
    DefaultScale,
    /// A scale that was asked for.
    ExplicitScale,
    /// n ≠ m, d_v ≠ d_k, single rows and columns.
    NonSquare,
    /// Several batch entries and heads, each by itself.
    BatchAndHeads,
    /// Fewer key heads than query heads.
    GroupedQueries,
    /// A mask of true (may attend) and false.
    BooleanMask,
    /// A mask that is added, −∞ where hidden.
    AdditiveMask,
    /// No key after the query's position.
    Causal,
    /// Batch entries of different lengths.
    Padding,
    /// What is hidden does not matter, not even NaN.
    HiddenNan,
    /// Queries that see no key.
    EmptyRows,
    /// Keys near the query's position only.
    Window,
    /// c·tanh(logit/c).
    Softcap,
    /// A penalty linear in the distance.
    Alibi,
    /// Finite numbers added to the logits.
    Bias,
    /// No weight is dropped.
    DropoutOff,
    /// Logits whose exponential overflows, or all underflow.
    HugeLogits,
    /// Many keys: sums keep their digits.
    LongRows,
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// The upper half of binary32.
    Bf16,
    /// The same case twice gives the same bits.
    Determinism,
    /// A batch entry does not depend on the others.
    BatchIndependence,
    /// The order of keys does not matter, that of queries is kept.
    Permutation,
    /// ln Σ exp(logit).
    LogSumExp,
    /// dQ, dK, dV.
    Gradients,
}

impl Capability {
    /// Every capability, in the order of reports.
    pub const ALL: [Self; 27] = [
        Self::DefaultScale,
        Self::ExplicitScale,
        Self::NonSquare,
        Self::BatchAndHeads,
        Self::GroupedQueries,
        Self::BooleanMask,
        Self::AdditiveMask,
        Self::Causal,
        Self::Padding,
        Self::HiddenNan,
        Self::EmptyRows,
        Self::Window,
        Self::Softcap,
        Self::Alibi,
        Self::Bias,
        Self::DropoutOff,
        Self::HugeLogits,
        Self::LongRows,
        Self::F64,
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Determinism,
        Self::BatchIndependence,
        Self::Permutation,
        Self::LogSumExp,
        Self::Gradients,
    ];

    /// Its name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::DefaultScale => "default-scale",
            Self::ExplicitScale => "explicit-scale",
            Self::NonSquare => "non-square",
            Self::BatchAndHeads => "batch-and-heads",
            Self::GroupedQueries => "grouped-queries",
            Self::BooleanMask => "boolean-mask",
            Self::AdditiveMask => "additive-mask",
            Self::Causal => "causal",
            Self::Padding => "padding",
            Self::HiddenNan => "hidden-nan",
            Self::EmptyRows => "empty-rows",
            Self::Window => "window",
            Self::Softcap => "softcap",
            Self::Alibi => "alibi",
            Self::Bias => "bias",
            Self::DropoutOff => "dropout-off",
            Self::HugeLogits => "huge-logits",
            Self::LongRows => "long-rows",
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Determinism => "determinism",
            Self::BatchIndependence => "batch-independence",
            Self::Permutation => "permutation",
            Self::LogSumExp => "log-sum-exp",
            Self::Gradients => "gradients",
        }
    }

    /// The capability of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|capability| capability.name() == name)
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Where the queries of a causal attention stand when n ≠ m.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Causal {
    /// As the implementation has it; both conventions are right and the judgement names the one found.
    Either,
    /// Query i stands at key i.
    TopLeft,
    /// The last query stands at the last key.
    BottomRight,
}

/// How the tensor `mask` is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MaskForm {
    /// true: may attend.
    Boolean,
    /// Added to the scaled logits; −∞ hides.
    Additive,
}

/// How fewer key heads serve more query heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Groups {
    /// Query head h uses key head h / (heads / key heads).
    Repeat,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// What is asked for; what is absent is the default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The factor on QKᵀ; absent: the implementation's default, which should be 1/√d_k.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Keys after the query's position are hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causal: Option<Causal>,
    /// Keys from position − left to position + right are visible; −1 is without limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<[i64; 2]>,
    /// Logits become c·tanh(logit/c), after the scale and before bias and masks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softcap: Option<f64>,
    /// −slope·|i − j| is added to the scaled logits; `alibi_slopes` has a slope for each head.
    #[serde(default, skip_serializing_if = "is_false")]
    pub alibi: bool,
    /// How key heads are shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_groups: Option<Groups>,
    /// How `mask` is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<MaskForm>,
    /// Keys at or past `lengths` of the batch entry are hidden; `mask` says the same.
    #[serde(default, skip_serializing_if = "is_false")]
    pub padding: bool,
    /// Some queries see no key.
    #[serde(default, skip_serializing_if = "is_false")]
    pub empty_rows: bool,
    /// `do` is dL/dO; dQ, dK and dV are wanted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub gradients: bool,
}

/// Numbers of shape (batch, head, rows, columns) in C order.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// The length of each axis.
    pub shape: [usize; 4],
    /// As many as the product of the shape.
    pub numbers: Vec<f64>,
}

impl Block {
    /// Zeros.
    pub fn zeros(shape: [usize; 4]) -> Self {
        Self { shape, numbers: vec![0.0; shape.iter().product()] }
    }

    /// Where row `row` of (`batch`, `head`) begins; an axis of length 1 holds for every batch entry, head or row.
    fn start(&self, batch: usize, head: usize, row: usize) -> usize {
        let [batches, heads, rows, columns] = self.shape;
        let pick = |length: usize, index: usize| if length == 1 { 0 } else { index };
        ((pick(batches, batch) * heads + pick(heads, head)) * rows + pick(rows, row)) * columns
    }

    /// A row; an axis of length 1 holds for every batch entry, head or row.
    pub fn row(&self, batch: usize, head: usize, row: usize) -> &[f64] {
        let start = self.start(batch, head, row);
        &self.numbers[start..start + self.shape[3]]
    }

    /// A row, to be written.
    pub fn row_mut(&mut self, batch: usize, head: usize, row: usize) -> &mut [f64] {
        let start = self.start(batch, head, row);
        &mut self.numbers[start..start + self.shape[3]]
    }

    /// The same shape with every number changed.
    pub fn map(&self, change: impl Fn(f64) -> f64) -> Self {
        Self { shape: self.shape, numbers: self.numbers.iter().map(|&number| change(number)).collect() }
    }
}

/// The tensors of a case. b batch entries, h query heads, h_kv key heads, n queries, m keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Inputs {
    /// (b, h, n, d).
    pub queries: Block,
    /// (b, h_kv, m, d).
    pub keys: Block,
    /// (b, h_kv, m, d_v).
    pub values: Block,
    /// (b or 1, h or 1, n, m): 1 and 0 of a boolean mask, or what is added.
    pub mask: Option<Block>,
    /// Keys of each batch entry that are not padding.
    pub lengths: Option<Vec<usize>>,
    /// ALiBi's slope of each head.
    pub slopes: Option<Vec<f64>>,
    /// dL/dO, (b, h, n, d_v).
    pub output_gradient: Option<Block>,
}

/// The lengths of the axes of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Batch entries b.
    pub batches: usize,
    /// Query heads h.
    pub heads: usize,
    /// Key heads.
    pub key_heads: usize,
    /// Queries n.
    pub queries: usize,
    /// Keys m.
    pub keys: usize,
    /// Width d of queries and keys.
    pub width: usize,
    /// Width d_v of values.
    pub value_width: usize,
}

impl Inputs {
    /// The lengths of the axes.
    pub fn shape(&self) -> Shape {
        let [batches, heads, queries, width] = self.queries.shape;
        let [_, key_heads, keys, value_width] = self.values.shape;
        Shape { batches, heads, key_heads, queries, keys, width, value_width }
    }

    /// Whether V is the identity in every batch entry and head, so that the output is the weights.
    pub fn output_is_weights(&self) -> bool {
        let Shape { batches, key_heads, keys, value_width, .. } = self.shape();
        let is_identity = |row: usize, entries: &[f64]| {
            entries.iter().enumerate().all(|(column, &entry)| entry == f64::from(u8::from(row == column)))
        };
        keys == value_width
            && (0..batches * key_heads * keys).all(|row| {
                is_identity(row % keys, self.values.row(row / keys / key_heads, row / keys % key_heads, row % keys))
            })
    }
}

/// A case.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Its name, which is that of its file.
    pub name: String,
    /// What it is about.
    pub capability: Capability,
    /// What it shows, in one sentence.
    pub purpose: String,
    /// The type of Q, K and V.
    pub storage: Storage,
    /// What is asked for.
    pub options: Options,
    /// The case whose tensors are the same, which must give the same bits.
    pub same_as: Option<String>,
    /// The tensors.
    pub inputs: Inputs,
}

/// The type of a name (`f64`, `f32`, `f16`, `bf16`).
pub fn storage_of_name(name: &str) -> Option<Storage> {
    [Storage::F64, Storage::F32, Storage::F16, Storage::Bf16].into_iter().find(|storage| storage.name() == name)
}
