//! Suspects: the behaviours that are tried as causes of a wrong answer.

use super::behaviour::{
    AlibiUse, Arithmetic, Axis, Behaviour, CapUse, CausalUse, GradientUse, HiddenValues, LseUse, MaskUse, Maximum,
    Merge, Source,
};
use super::case::{Case, MaskForm};
use crate::attention::Alignment;
use crate::diagnosis::matrix::Storage;

/// How the words of weights in too narrow a type begin.
pub(super) const WEIGHTS_ROUNDED: &str = "the weights are rounded to";

/// What is wrong with an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// Its name: equal causes of several cases are one.
    pub name: String,
    /// In words.
    pub words: String,
}

impl Cause {
    /// A cause of a name and words.
    pub fn new(name: &str, words: impl Into<String>) -> Self {
        Self { name: name.to_string(), words: words.into() }
    }
}

/// A behaviour that may be the cause.
#[derive(Debug, Clone)]
pub struct Suspect {
    /// What would be wrong.
    pub cause: Cause,
    /// What it does.
    pub behaviour: Behaviour,
    /// In which arithmetic it shows: exact, or one that overflows.
    pub arithmetic: Arithmetic,
}

/// Every suspect for a case whose right behaviour is `right`.
pub fn suspects(case: &Case, right: &Behaviour) -> Vec<Suspect> {
    let mut list = List { right, suspects: Vec::new() };
    if case.storage == Storage::F16 {
        // The definition itself, where its products do not fit.
        list.suspects.push(Suspect {
            cause: Cause::new("overflow", "QKᵀ is kept in f16 and overflows before the scale"),
            behaviour: right.clone(),
            arithmetic: Arithmetic::of(Storage::F16),
        });
    }
    // Before the masks: where hidden values are NaN, both look alike.
    list.add("hidden-nan", "values of hidden keys are multiplied by 0, not left out: NaN stays NaN", |behaviour| {
        behaviour.hidden_values = HiddenValues::TimesZero;
    });
    scales(case, &mut list);
    masks(case, &mut list);
    positions(case, &mut list);
    forms(case, &mut list);
    structure(case, &mut list);
    for storage in [Storage::F32, Storage::F16, Storage::Bf16] {
        if storage.unit_roundoff() > case.storage.unit_roundoff() {
            let words = format!("{WEIGHTS_ROUNDED} {} before they multiply V", storage.name());
            list.add("precision", words, |behaviour| behaviour.weights = Some(storage));
        }
    }
    list.suspects
}

struct List<'a> {
    right: &'a Behaviour,
    suspects: Vec<Suspect>,
}

impl List<'_> {
    fn add(&mut self, name: &str, words: impl Into<String>, change: impl FnOnce(&mut Behaviour)) {
        let mut behaviour = self.right.clone();
        change(&mut behaviour);
        if behaviour != *self.right {
            let cause = Cause::new(name, words);
            self.suspects.push(Suspect { cause, behaviour, arithmetic: Arithmetic::EXACT });
        }
    }
}

fn scales(case: &Case, list: &mut List<'_>) {
    let shape = case.inputs.shape();
    let (d, h) = (shape.width as f64, shape.heads as f64);
    let asked = list.right.scale;
    let mut seen = vec![asked];
    let candidates = [
        (1.0, "scale 1: QKᵀ is not scaled"),
        (1.0 / d.sqrt(), "scale 1/√d_k: the scale that was asked for is ignored"),
        (1.0 / d, "scale 1/d_k: the square root is missing"),
        (1.0 / (d * h).sqrt(), "scale 1/√d_model: the width of all heads together in place of one head's"),
        (asked / d.sqrt(), "the scale that was asked for and 1/√d_k on top"),
        (asked * asked, "the scale is applied twice"),
        (asked.abs().sqrt(), "the root of the scale: applied to Q or K alone where half belongs to each"),
        (d.sqrt(), "scale √d_k: multiplied where it should be divided"),
        (1.0 / (d * h), "scale 1/d_model"),
        (1.0 / h.sqrt(), "scale 1/√heads"),
        (1.0 / (shape.value_width as f64).sqrt(), "scale 1/√d_v: the width of the values"),
        (1.0 / (shape.keys as f64).sqrt(), "scale 1/√m: the number of keys"),
        (1.0 / (shape.queries as f64).sqrt(), "scale 1/√n: the number of queries"),
        (asked * std::f64::consts::LOG2_E, "logits times log₂e: exp where exp2 was meant"),
        (asked * std::f64::consts::LN_2, "logits times ln 2: exp2 where exp was meant"),
        (-asked, "the scale has the wrong sign"),
    ];
    for (scale, words) in candidates {
        if seen.iter().all(|known| (known - scale).abs() > 1e-9 * scale.abs()) {
            seen.push(scale);
            list.add("scale", words, |behaviour| behaviour.scale = scale);
        }
    }
}

fn masks(case: &Case, list: &mut List<'_>) {
    let Some(form) = case.options.mask else { return };
    let mut mask = |name: &str, words: &str, mask: MaskUse| list.add(name, words, |behaviour| behaviour.mask = mask);
    let name = if case.options.padding { "padding" } else { "mask" };
    mask(name, "the mask is not applied", MaskUse::Ignored);
    mask("mask-polarity", "the mask is read the other way round: what should be hidden is shown", MaskUse::Inverted);
    if case.options.padding {
        mask(
            "mask-polarity",
            "mask or lengths are read the other way round: together they hide everything",
            MaskUse::Everything,
        );
    }
    mask("mask-multiplied", "logits are multiplied by the mask", MaskUse::Multiplied);
    mask("mask-after-softmax", "the mask is applied after the softmax: rows sum to less than 1", MaskUse::AfterSoftmax);
    if form == MaskForm::Boolean {
        mask("mask-added", "true and false are added to the logits as 1 and 0", MaskUse::AddedAsNumbers);
    }
    mask(
        "mask-constant",
        "the constant that hides overflows to infinity, and 0 times it is NaN where keys are visible",
        MaskUse::ConstantOverflows,
    );
    mask("mask-batch", "the mask of batch entry 0 is used for all", MaskUse::FirstEntry);
    mask("mask-head", "the mask of head 0 is used for all", MaskUse::FirstHead);
    for fill in [0, -1, -10, -100] {
        mask("mask-fill", &format!("hidden logits are {fill}, which leaves them weight"), MaskUse::Filled(fill));
    }
    if form == MaskForm::Additive {
        let scale = list.right.scale;
        for (factor, words) in [
            (0.0, "the numbers are not added"),
            (scale, "the bias is scaled with the logits: it was added before the scale"),
            (-1.0, "the bias is subtracted"),
            (2.0, "the bias is added twice"),
        ] {
            list.add("bias", words, |behaviour| behaviour.bias = factor);
        }
    }
}

fn positions(case: &Case, list: &mut List<'_>) {
    let shape = case.inputs.shape();
    if case.options.causal.is_some() {
        let mut causal = |name: &str, words: &str, causal: CausalUse| {
            list.add(name, words, |behaviour| behaviour.causal = causal);
        };
        causal("causal", "the causal mask is not applied", CausalUse::Off);
        causal(
            "causal-transposed",
            "the causal mask is transposed: keys before the query are hidden, later ones shown",
            CausalUse::Future,
        );
        causal("causal-own", "a query does not see its own key: the mask starts one too early", CausalUse::Strict);
        causal("causal-next", "a query sees the key after its own: the mask starts one too late", CausalUse::Next);
    } else {
        for alignment in [Alignment::TopLeft, Alignment::BottomRight] {
            list.add("causal-unasked", "a causal mask is applied that nobody asked for", |behaviour| {
                (behaviour.causal, behaviour.alignment) = (CausalUse::Past, alignment);
            });
        }
    }
    if shape.queries != shape.keys && (case.options.causal.is_some() || case.options.window.is_some()) {
        let (other, words) = match list.right.alignment {
            Alignment::TopLeft => {
                (Alignment::BottomRight, "the last query stands at the last key, the first at the first was asked for")
            }
            Alignment::BottomRight => {
                (Alignment::TopLeft, "the first query stands at the first key, the last at the last was asked for")
            }
        };
        list.add("alignment", words, |behaviour| behaviour.alignment = other);
    }
    if let Some([left, right]) = case.options.window {
        list.add("window", "the window is not applied", |behaviour| behaviour.window = None);
        for (l, r) in [(-1, 0), (1, 0), (0, 1), (0, -1), (-1, -1), (1, 1), (1, -1), (-1, 1)] {
            let moved = [left + l, right + r];
            if moved.iter().all(|&side| side >= 0) {
                let words = format!(
                    "the window is off by one: {} keys before and {} after, asked for {left} and {right}",
                    moved[0], moved[1]
                );
                list.add("window", words, |behaviour| behaviour.window = Some(moved));
            }
        }
        for (other, words) in [
            ([right, left], "left and right of the window are exchanged"),
            ([-1, right], "the window has no end on the left"),
            ([left, -1], "the window has no end on the right"),
            ([left / 2, right / 2], "the window is half as wide"),
            ([2 * left, 2 * right], "the window is twice as wide"),
            ([left, left], "the window reaches as far to the right as to the left"),
        ] {
            list.add("window", words, |behaviour| behaviour.window = Some(other));
        }
    }
}

fn forms(case: &Case, list: &mut List<'_>) {
    if case.options.softcap.is_some() {
        let mut cap = |words: &str, cap: CapUse| list.add("softcap", words, |behaviour| behaviour.cap = cap);
        cap("the soft cap is not applied", CapUse::Ignored);
        cap("the soft cap comes after the mask: hidden keys get the logit −c and weight", CapUse::AfterMask);
        cap("the soft cap comes before the scale", CapUse::BeforeScale);
        cap("logit·tanh(logit/c) in place of c·tanh(logit/c)", CapUse::TimesTanh);
        cap("logits are cut off at ±c in place of c·tanh(logit/c)", CapUse::Clipped);
    }
    if case.options.alibi {
        let mut alibi = |words: &str, alibi: AlibiUse| list.add("alibi", words, |behaviour| behaviour.alibi = alibi);
        alibi("the distance penalty is not applied", AlibiUse::Ignored);
        alibi("the distance is rewarded, not penalised: the sign is wrong", AlibiUse::Reversed);
        alibi("−slope·(i − j): keys after the query are rewarded", AlibiUse::Signed);
        alibi("the slopes of the heads are in reverse order", AlibiUse::HeadsReversed);
        alibi("the penalty is scaled with the logits: it was added before the scale", AlibiUse::Scaled);
    }
    // exp overflows in the type it is computed in. Its own type first: where that gives no numbers, f16 gives none either.
    let own = Arithmetic::of(case.storage).step;
    for step in [own, Storage::F16] {
        for maximum in [Maximum::Kept, Maximum::KeptGuarded] {
            let words = format!("the row's maximum is not taken off before exp, which overflows in {}", step.name());
            list.add("maximum", words, |behaviour| behaviour.maximum = maximum);
            if let Some(last) = list.suspects.last_mut() {
                last.arithmetic = Arithmetic { step, stored: case.storage };
            }
        }
    }
    for (lse, name, words) in [
        (LseUse::BaseTwo, "lse-base", "the log-sum-exp is in base 2"),
        (
            LseUse::Centred,
            "lse-centred",
            "the log-sum-exp is that of logits whose mean was taken off, and not put back",
        ),
        (LseUse::WithoutMaximum, "lse-maximum", "the maximum that was taken off is missing from the log-sum-exp"),
        (LseUse::MaximumOnly, "lse-sum", "the maximum alone is given for the log-sum-exp"),
        (LseUse::Sum, "lse-log", "the sum is given, not its logarithm"),
        (LseUse::Negative, "lse-sign", "the log-sum-exp has the wrong sign"),
    ] {
        list.add(name, words, |behaviour| behaviour.lse = lse);
    }
    if case.options.gradients {
        let mut gradient = |words: &str, gradient: GradientUse| {
            list.add("gradient", words, |behaviour| behaviour.gradient = gradient);
        };
        gradient("dQ and dK lack the scale", GradientUse::WithoutScale);
        gradient("dQ and dK have the scale twice", GradientUse::ScaleTwice);
        gradient("dS lacks the row's mean: P∘dP in place of P∘(dP − rowsum(P∘dP))", GradientUse::WithoutMean);
        gradient("dK and dV are those of the first query head of a group, not the sum", GradientUse::FirstOfGroup);
        gradient("dK and dV are those of the last query head of a group, not the sum", GradientUse::LastOfGroup);
        gradient("dK and dV are means over the query heads of a group, not sums", GradientUse::MeanOfGroup);
    }
}

fn structure(case: &Case, list: &mut List<'_>) {
    let shape = case.inputs.shape();
    list.add("axis", "the softmax runs over the queries, not the keys", |behaviour| behaviour.axis = Axis::Queries);
    list.add("batch", "the softmax runs over the batch", |behaviour| behaviour.axis = Axis::Batches);
    if shape.heads > 1 {
        list.add("axis", "the softmax runs over the heads", |behaviour| behaviour.axis = Axis::Heads);
        for merge in [Merge::ReadAsTokens, Merge::ReadAsHeads] {
            list.add("merge", "heads and tokens are reshaped into each other without a transpose", |behaviour| {
                behaviour.merge = merge;
            });
        }
    }
    if shape.key_heads > 1 && shape.key_heads < shape.heads {
        list.add("groups", "key heads are tiled (h mod key heads), repeated was asked for", |behaviour| {
            behaviour.source = Source::Tiled;
        });
    }
    if shape.key_heads > 1 {
        list.add("heads", "all heads use the keys and values of head 0", |behaviour| {
            behaviour.source = Source::FirstHead
        });
    }
    if shape.batches > 1 {
        list.add("batch", "all batch entries use the keys and values of entry 0", |behaviour| {
            behaviour.source = Source::FirstEntry;
        });
        list.add("batch", "all batch entries use the keys of entry 0", |behaviour| {
            behaviour.source = Source::FirstEntryKeys;
        });
        list.add("batch", "all batch entries use the values of entry 0", |behaviour| {
            behaviour.source = Source::FirstEntryValues;
        });
        list.add("batch", "batch entries use the keys and values of the next one", |behaviour| {
            behaviour.source = Source::NextEntry;
        });
    }
}
