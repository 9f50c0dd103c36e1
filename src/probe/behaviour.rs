//! What an implementation may do with a case: what was asked for, or one of its faulty relatives.

use super::case::{Case, Causal, Groups};
use crate::attention::Alignment;
use crate::diagnosis::matrix::Storage;

/// Which keys a causal mask shows a query at position i.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CausalUse {
    /// All.
    Off,
    /// Keys up to i.
    Past,
    /// Keys from i on: the mask transposed.
    Future,
    /// Keys before i.
    Strict,
    /// Keys up to i + 1.
    Next,
}

/// What becomes of the mask in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaskUse {
    /// As asked.
    Applied,
    /// Not looked at.
    Ignored,
    /// Hidden cells are shown and shown ones hidden.
    Inverted,
    /// Logits are multiplied by it.
    Multiplied,
    /// Softmax over all keys, then hidden cells become 0; sums are below 1.
    AfterSoftmax,
    /// Logits plus its numbers, true being 1.
    AddedAsNumbers,
    /// The mask of batch entry 0 for all.
    FirstEntry,
    /// The mask of head 0 for all.
    FirstHead,
    /// Filled with a finite number that leaves hidden keys some weight.
    Filled(i64),
    /// A constant that overflows times 0 makes NaN of visible cells.
    ConstantOverflows,
    /// Mask and lengths hide each other's rest: nothing is seen.
    Everything,
}

/// How the soft cap enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapUse {
    /// c·tanh(logit/c) before masks.
    Applied,
    /// Not at all.
    Ignored,
    /// After masks: hidden logits become −c.
    AfterMask,
    /// Before the scale.
    BeforeScale,
    /// logit·tanh(logit/c).
    TimesTanh,
    /// A hard limit at ±c.
    Clipped,
}

/// How ALiBi enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlibiUse {
    /// −slope·|i − j|.
    Applied,
    /// Not at all.
    Ignored,
    /// +slope·|i − j|.
    Reversed,
    /// −slope·(i − j).
    Signed,
    /// Slopes of the heads in reverse order.
    HeadsReversed,
    /// Multiplied by the scale.
    Scaled,
}

/// Over what the softmax runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Keys: right.
    Keys,
    /// Queries.
    Queries,
    /// Heads.
    Heads,
    /// Batch entries.
    Batches,
}

/// Whose keys and values a head uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Its own, h / (heads / key heads).
    Own,
    /// h mod key heads.
    Tiled,
    /// Those of batch entry 0.
    FirstEntry,
    /// Keys of batch entry 0, own values.
    FirstEntryKeys,
    /// Own keys, values of batch entry 0.
    FirstEntryValues,
    /// Those of the next batch entry.
    NextEntry,
    /// Those of head 0.
    FirstHead,
}

/// How heads become the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// Each head in its place.
    Right,
    /// (head, token, width) read as (token, head, width).
    ReadAsTokens,
    /// (token, head, width) read as (head, token, width).
    ReadAsHeads,
}

/// What is taken off before the exponential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maximum {
    /// The row's maximum.
    Subtracted,
    /// Nothing.
    Kept,
    /// Nothing, and a sum of 0 gives zeros.
    KeptGuarded,
}

/// How the logarithm of the sum is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LseUse {
    /// ln Σ exp(logit).
    Natural,
    /// log₂ Σ exp(logit).
    BaseTwo,
    /// Of logits whose mean over the keys was taken off.
    Centred,
    /// Without the maximum that was taken off.
    WithoutMaximum,
    /// The maximum alone.
    MaximumOnly,
    /// The sum itself.
    Sum,
    /// Its negative.
    Negative,
}

/// What becomes of hidden keys' values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HiddenValues {
    /// They are left out.
    LeftOut,
    /// They are multiplied by their weight 0, which makes NaN of NaN.
    TimesZero,
}

/// How gradients go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GradientUse {
    /// Closed form.
    Right,
    /// dQ and dK lack the scale.
    WithoutScale,
    /// The scale is in dQ and dK twice.
    ScaleTwice,
    /// dS = P∘dP, without the row's mean.
    WithoutMean,
    /// dK and dV of the first query head of a group alone.
    FirstOfGroup,
    /// dK and dV of the last query head of a group alone.
    LastOfGroup,
    /// dK and dV are means over the group.
    MeanOfGroup,
}

/// All choices together.
#[derive(Debug, Clone, PartialEq)]
pub struct Behaviour {
    /// The factor on QKᵀ.
    pub scale: f64,
    /// Where queries stand for causal masks and windows.
    pub alignment: Alignment,
    /// The causal mask.
    pub causal: CausalUse,
    /// The window, −1 without limit.
    pub window: Option<[i64; 2]>,
    /// The mask in the file.
    pub mask: MaskUse,
    /// Factor on the finite numbers of an additive mask.
    pub bias: f64,
    /// The soft cap.
    pub cap: CapUse,
    /// ALiBi.
    pub alibi: AlibiUse,
    /// The softmax.
    pub axis: Axis,
    /// Keys and values.
    pub source: Source,
    /// The output.
    pub merge: Merge,
    /// The shift of the softmax.
    pub maximum: Maximum,
    /// The logarithm of the sum.
    pub lse: LseUse,
    /// Values of hidden keys.
    pub hidden_values: HiddenValues,
    /// Gradients.
    pub gradient: GradientUse,
    /// The narrower type that the weights are rounded to before they multiply V, if any.
    pub weights: Option<Storage>,
}

/// The right behaviours of a case: one, or two where the convention is open.
pub fn right(case: &Case) -> Vec<Behaviour> {
    let shape = case.inputs.shape();
    let square = shape.queries == shape.keys;
    let of = |alignment: Alignment| Behaviour {
        scale: case.options.scale.unwrap_or(1.0 / (shape.width as f64).sqrt()),
        alignment,
        causal: if case.options.causal.is_some() { CausalUse::Past } else { CausalUse::Off },
        window: case.options.window,
        mask: MaskUse::Applied,
        bias: 1.0,
        cap: CapUse::Applied,
        alibi: AlibiUse::Applied,
        axis: Axis::Keys,
        source: Source::Own,
        merge: Merge::Right,
        maximum: Maximum::Subtracted,
        lse: LseUse::Natural,
        hidden_values: HiddenValues::LeftOut,
        gradient: GradientUse::Right,
        weights: None,
    };
    debug_assert!(matches!(case.options.kv_groups, None | Some(Groups::Repeat)));
    match case.options.causal {
        Some(Causal::Either) if !square => vec![of(Alignment::TopLeft), of(Alignment::BottomRight)],
        Some(Causal::BottomRight) => vec![of(Alignment::BottomRight)],
        _ => vec![of(Alignment::TopLeft)],
    }
}

impl Behaviour {
    /// Whether causal mask and window show `key` to `query`.
    pub fn shows(&self, query: usize, key: usize, queries: usize, keys: usize) -> bool {
        let offset = match self.alignment {
            Alignment::TopLeft => 0,
            Alignment::BottomRight => keys as i64 - queries as i64,
        };
        let ahead = key as i64 - (query as i64 + offset);
        let by_causal = match self.causal {
            CausalUse::Off => true,
            CausalUse::Past => ahead <= 0,
            CausalUse::Future => ahead >= 0,
            CausalUse::Strict => ahead < 0,
            CausalUse::Next => ahead <= 1,
        };
        let by_window =
            self.window.is_none_or(|[left, right]| (left < 0 || ahead >= -left) && (right < 0 || ahead <= right));
        by_causal && by_window
    }
}

/// The type every operation is rounded to, and the type that stored arrays are rounded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arithmetic {
    /// Products, sums, exponentials.
    pub step: Storage,
    /// Logits, weights, outputs.
    pub stored: Storage,
}

impl Arithmetic {
    /// f64 throughout.
    pub const EXACT: Self = Self { step: Storage::F64, stored: Storage::F64 };

    /// How the plain eager implementation computes in `storage`: f64 and f32 throughout; half types store logits, weights
    /// and output and compute in f32.
    pub fn of(storage: Storage) -> Self {
        let step = if storage == Storage::F64 { Storage::F64 } else { Storage::F32 };
        Self { step, stored: storage }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::case::Capability;
    use crate::probe::catalogue::cases;

    /// Which of the 5 keys each of the 3 queries sees, by hand.
    fn picture(causal: CausalUse, alignment: Alignment, window: Option<[i64; 2]>) -> String {
        let case = cases(0, &[Capability::DefaultScale]).swap_remove(0);
        let behaviour = Behaviour { causal, alignment, window, ..right(&case).swap_remove(0) };
        let row = |query: usize| (0..5).map(move |key| (query, key));
        let cell = |(query, key): (usize, usize)| if behaviour.shows(query, key, 3, 5) { '1' } else { '0' };
        (0..3).map(|query| row(query).map(cell).collect::<String>()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn causal_masks_and_windows_show_the_cells_drawn_by_hand() {
        use Alignment::{BottomRight, TopLeft};
        assert_eq!(picture(CausalUse::Past, TopLeft, None), "10000 11000 11100");
        assert_eq!(picture(CausalUse::Past, BottomRight, None), "11100 11110 11111");
        assert_eq!(picture(CausalUse::Past, BottomRight, Some([1, 0])), "01100 00110 00011");
        assert_eq!(picture(CausalUse::Off, TopLeft, Some([1, 2])), "11100 11110 01111");
        assert_eq!(picture(CausalUse::Off, TopLeft, Some([-1, 0])), "10000 11000 11100");
        assert_eq!(picture(CausalUse::Future, TopLeft, None), "11111 01111 00111");
        assert_eq!(picture(CausalUse::Strict, BottomRight, None), "11000 11100 11110");
        assert_eq!(picture(CausalUse::Next, TopLeft, None), "11000 11100 11110");
    }

    #[test]
    fn an_open_convention_has_two_right_behaviours_where_it_shows() {
        let all = cases(0, &[Capability::Causal]);
        let count = |name: &str| right(all.iter().find(|case| case.name == name).expect("listed")).len();
        assert_eq!((count("causal-square"), count("causal-more-keys"), count("causal-top-left")), (1, 2, 1));
    }
}
