//! Attention by its definition, under any behaviour and any arithmetic, everything in memory.
//!
//! Sums run over their terms in order and each operation is rounded to the arithmetic's type (an f64 operation rounded to f32 is
//! the f32 operation: Figueroa 1995, for +, −, ×, ÷ and 53 ≥ 2·24 + 2). So the result depends on no library.

use super::behaviour::{
    AlibiUse, Arithmetic, Axis, Behaviour, CapUse, GradientUse, HiddenValues, LseUse, MaskUse, Maximum, Merge, Source,
};
use super::case::{Block, Case, MaskForm, Shape};

/// What attention gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// (b, h, n, d_v).
    pub output: Block,
    /// (b, h, n, m).
    pub weights: Block,
    /// (b, h, 1, n).
    pub log_sum_exp: Block,
    /// dQ, dK, dV, if asked for.
    pub gradients: Option<[Block; 3]>,
}

impl Outcome {
    /// The array of an answer's name.
    pub fn array(&self, name: &str) -> Option<&Block> {
        match name {
            "o" => Some(&self.output),
            "weights" => Some(&self.weights),
            "lse" => Some(&self.log_sum_exp),
            "dq" => self.gradients.as_ref().map(|gradients| &gradients[0]),
            "dk" => self.gradients.as_ref().map(|gradients| &gradients[1]),
            "dv" => self.gradients.as_ref().map(|gradients| &gradients[2]),
            _ => None,
        }
    }
}

impl Arithmetic {
    fn step(self, value: f64) -> f64 {
        self.step.round(value)
    }

    fn store(self, value: f64) -> f64 {
        self.stored.round(self.step(value))
    }

    /// Σ a·b in order.
    fn dot(self, a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).fold(0.0, |sum, (&a, &b)| self.step(sum + self.step(a * b)))
    }
}

/// Which key head of which batch entry a query head uses.
pub fn source(behaviour: &Behaviour, shape: &Shape, batch: usize, head: usize) -> (usize, usize) {
    let own = head / (shape.heads / shape.key_heads);
    match behaviour.source {
        Source::Own => (batch, own),
        Source::Tiled => (batch, head % shape.key_heads),
        Source::FirstEntry => (0, own),
        // Keys or values alone: see `value_source`.
        Source::FirstEntryKeys => (0, own),
        Source::FirstEntryValues => (batch, own),
        Source::NextEntry => ((batch + 1) % shape.batches, own),
        Source::FirstHead => (batch, 0),
    }
}

/// As [`source`], for the values.
fn value_source(behaviour: &Behaviour, shape: &Shape, batch: usize, head: usize) -> (usize, usize) {
    let own = head / (shape.heads / shape.key_heads);
    match behaviour.source {
        Source::FirstEntryKeys => (batch, own),
        Source::FirstEntryValues => (0, own),
        _ => source(behaviour, shape, batch, head),
    }
}

/// Attention of `case`.
pub fn attend(case: &Case, behaviour: &Behaviour, arithmetic: Arithmetic) -> Outcome {
    let shape = case.inputs.shape();
    let rounded = |block: &Block| block.map(|number| arithmetic.stored.round(number));
    let (queries, keys, values) =
        (rounded(&case.inputs.queries), rounded(&case.inputs.keys), rounded(&case.inputs.values));
    let attention = Attention { case, behaviour, arithmetic, shape, queries, keys, values };
    let logits = attention.logits();
    let (weights, log_sum_exp) = attention.softmax(&logits);
    let output = attention.output(&weights);
    let gradients = case.inputs.output_gradient.as_ref().map(|gradient| attention.gradients(&weights, gradient));
    Outcome { output: attention.merged(output), weights, log_sum_exp, gradients }
}

struct Attention<'a> {
    case: &'a Case,
    behaviour: &'a Behaviour,
    arithmetic: Arithmetic,
    shape: Shape,
    queries: Block,
    keys: Block,
    values: Block,
}

/// Every (batch, head) of a shape.
fn places(shape: &Shape) -> impl Iterator<Item = (usize, usize)> + use<> {
    let (batches, heads) = (shape.batches, shape.heads);
    (0..batches).flat_map(move |batch| (0..heads).map(move |head| (batch, head)))
}

impl Attention<'_> {
    /// The scaled, capped logit with its bias, before anything is hidden.
    fn logit(&self, query: &[f64], key: &[f64]) -> f64 {
        let a = self.arithmetic;
        let raw = a.store(a.dot(query, key));
        let scale = a.step(self.behaviour.scale);
        let capped = |logit: f64, cap: f64| a.store(cap * a.step(a.step(logit / cap).tanh()));
        match (self.case.options.softcap, self.behaviour.cap) {
            (Some(cap), CapUse::Applied) => capped(a.store(raw * scale), cap),
            (Some(cap), CapUse::BeforeScale) => a.store(capped(raw, cap) * scale),
            (Some(cap), CapUse::TimesTanh) => {
                let logit = a.store(raw * scale);
                a.store(logit * a.step((logit / cap).tanh()))
            }
            (Some(cap), CapUse::Clipped) => a.store(raw * scale).clamp(-cap, cap),
            _ => a.store(raw * scale),
        }
    }

    /// Logits that enter the softmax, −∞ where hidden.
    fn logits(&self) -> Block {
        let Shape { batches, heads, queries: n, keys: m, .. } = self.shape;
        let (a, behaviour) = (self.arithmetic, self.behaviour);
        let mut logits = Block::zeros([batches, heads, n, m]);
        for (batch, head) in places(&self.shape) {
            let (key_batch, key_head) = source(behaviour, &self.shape, batch, head);
            let slope = self.slope(head);
            for query in 0..n {
                let entries = self.queries.row(batch, head, query).to_vec();
                for key in 0..m {
                    let mut logit = self.logit(&entries, self.keys.row(key_batch, key_head, key));
                    if slope != 0.0 {
                        let ahead = key as f64 - query as f64;
                        let distance = if behaviour.alibi == AlibiUse::Signed { -ahead } else { ahead.abs() };
                        logit = a.store(logit - a.step(slope * distance));
                    }
                    logit = self.masked(logit, batch, head, query, key);
                    if !behaviour.shows(query, key, n, m) {
                        logit = f64::NEG_INFINITY;
                    }
                    if let (Some(cap), CapUse::AfterMask) = (self.case.options.softcap, behaviour.cap) {
                        logit = a.store(cap * a.step((logit / cap).tanh()));
                    }
                    logits.row_mut(batch, head, query)[key] = logit;
                }
            }
        }
        logits
    }

    fn slope(&self, head: usize) -> f64 {
        let Some(slopes) = &self.case.inputs.slopes else { return 0.0 };
        match self.behaviour.alibi {
            AlibiUse::Applied | AlibiUse::Signed => slopes[head],
            AlibiUse::Ignored => 0.0,
            AlibiUse::Reversed => -slopes[head],
            AlibiUse::HeadsReversed => slopes[slopes.len() - 1 - head],
            AlibiUse::Scaled => slopes[head] * self.behaviour.scale,
        }
    }

    /// The logit with the mask of the file.
    fn masked(&self, logit: f64, batch: usize, head: usize, query: usize, key: usize) -> f64 {
        let Some(mask) = &self.case.inputs.mask else { return logit };
        let (batch, head) = match self.behaviour.mask {
            MaskUse::FirstEntry => (0, head),
            MaskUse::FirstHead => (batch, 0),
            _ => (batch, head),
        };
        let cell = mask.row(batch, head, query)[key];
        let a = self.arithmetic;
        let additive = self.case.options.mask == Some(MaskForm::Additive);
        let hidden = if additive { cell == f64::NEG_INFINITY } else { cell == 0.0 };
        let shown = if additive && !hidden { a.store(logit + a.step(self.behaviour.bias * cell)) } else { logit };
        match self.behaviour.mask {
            MaskUse::Applied | MaskUse::FirstEntry | MaskUse::FirstHead if hidden => f64::NEG_INFINITY,
            MaskUse::Applied | MaskUse::FirstEntry | MaskUse::FirstHead => shown,
            MaskUse::Ignored => logit,
            MaskUse::ConstantOverflows if hidden => f64::NEG_INFINITY,
            MaskUse::ConstantOverflows => f64::NAN,
            MaskUse::Everything => f64::NEG_INFINITY,
            MaskUse::AfterSoftmax => shown,
            MaskUse::Inverted if hidden => logit,
            MaskUse::Inverted => f64::NEG_INFINITY,
            MaskUse::Multiplied => logit * cell,
            MaskUse::AddedAsNumbers => a.store(logit + cell),
            MaskUse::Filled(fill) if hidden => fill as f64,
            MaskUse::Filled(_) => shown,
        }
    }

    /// Whether the mask of the file hides a cell.
    fn is_hidden(&self, batch: usize, head: usize, query: usize, key: usize) -> bool {
        let hides = if self.case.options.mask == Some(MaskForm::Additive) { f64::NEG_INFINITY } else { 0.0 };
        self.case.inputs.mask.as_ref().is_some_and(|mask| mask.row(batch, head, query)[key] == hides)
    }

    fn softmax(&self, logits: &Block) -> (Block, Block) {
        let Shape { batches, heads, queries: n, keys: m, .. } = self.shape;
        let mut weights = Block::zeros(logits.shape);
        let mut sums = Block::zeros([batches, heads, 1, n]);
        let whole = logits.numbers.len();
        // First element, distance and number of the elements that a sum runs over.
        let (step, count) = match self.behaviour.axis {
            Axis::Keys => (1, m),
            Axis::Queries => (m, n),
            Axis::Heads => (n * m, heads),
            Axis::Batches => (heads * n * m, batches),
        };
        let mut line = vec![0.0; count];
        for first in (0..whole).filter(|index| (index / step) % count == 0) {
            for (place, logit) in line.iter_mut().enumerate() {
                *logit = logits.numbers[first + place * step];
            }
            let sum = self.softmax_line(&mut line);
            for (place, weight) in line.iter().enumerate() {
                weights.numbers[first + place * step] = *weight;
            }
            if self.behaviour.axis == Axis::Keys {
                sums.numbers[first / m] = sum;
            }
        }
        if self.behaviour.mask == MaskUse::AfterSoftmax {
            for (batch, head) in places(&self.shape) {
                for query in 0..n {
                    for key in 0..m {
                        if self.is_hidden(batch, head, query, key) {
                            weights.row_mut(batch, head, query)[key] = 0.0;
                        }
                    }
                }
            }
        }
        (weights, sums)
    }

    /// Turns logits into weights and returns the logarithm of the sum as the behaviour gives it. Nothing visible: zeros and −∞.
    fn softmax_line(&self, line: &mut [f64]) -> f64 {
        let a = self.arithmetic;
        let maximum = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if maximum == f64::NEG_INFINITY && !line.iter().any(|logit| logit.is_nan()) {
            line.fill(0.0);
            return f64::NEG_INFINITY;
        }
        let shift = if self.behaviour.maximum == Maximum::Subtracted { maximum } else { 0.0 };
        let finite = line.iter().copied().filter(|logit| logit.is_finite());
        let mean = finite.clone().sum::<f64>() / finite.count() as f64;
        let mut sum = 0.0;
        for logit in line.iter_mut() {
            *logit = a.step(a.step(*logit - shift).exp());
            sum = a.step(sum + *logit);
        }
        let divisor = if sum == 0.0 && self.behaviour.maximum == Maximum::KeptGuarded { 1.0 } else { sum };
        let kept = |weight: f64| self.behaviour.weights.map_or(weight, |storage| storage.round(weight));
        line.iter_mut().for_each(|weight| *weight = kept(a.store(*weight / divisor)));
        let log = a.step(sum.ln());
        let natural = a.step(shift + log);
        match self.behaviour.lse {
            LseUse::Natural => natural,
            LseUse::BaseTwo => natural * std::f64::consts::LOG2_E,
            LseUse::Centred => natural - mean,
            LseUse::WithoutMaximum => log,
            LseUse::MaximumOnly => maximum,
            LseUse::Sum => natural.exp(),
            LseUse::Negative => -natural,
        }
    }

    fn output(&self, weights: &Block) -> Block {
        let Shape { batches, heads, queries: n, value_width, .. } = self.shape;
        let a = self.arithmetic;
        let mut output = Block::zeros([batches, heads, n, value_width]);
        for (batch, head) in places(&self.shape) {
            let (key_batch, key_head) = value_source(self.behaviour, &self.shape, batch, head);
            for query in 0..n {
                let own = weights.row(batch, head, query);
                let sums = output.row_mut(batch, head, query);
                for (key, &weight) in own.iter().enumerate() {
                    if weight == 0.0 && self.behaviour.hidden_values == HiddenValues::LeftOut {
                        continue;
                    }
                    for (sum, &value) in sums.iter_mut().zip(self.values.row(key_batch, key_head, key)) {
                        *sum = a.step(*sum + a.step(weight * value));
                    }
                }
                sums.iter_mut().for_each(|sum| *sum = a.store(*sum));
            }
        }
        output
    }

    fn merged(&self, output: Block) -> Block {
        let [batches, heads, n, width] = output.shape;
        let mut merged = Block::zeros(output.shape);
        for (batch, head) in places(&self.shape) {
            for token in 0..n {
                // Where the number that lands at (head, token) really belongs.
                let (from_head, from_token) = match self.behaviour.merge {
                    Merge::Right => (head, token),
                    Merge::ReadAsTokens => ((token * heads + head) / n, (token * heads + head) % n),
                    Merge::ReadAsHeads => ((head * n + token) % heads, (head * n + token) / heads),
                };
                merged.row_mut(batch, head, token).copy_from_slice(output.row(batch, from_head, from_token));
            }
        }
        debug_assert_eq!(merged.numbers.len(), batches * heads * n * width);
        merged
    }

    /// dV = PᵀdO, dP = dO Vᵀ, dS = P∘(dP − rowsum(P∘dP)), dQ = c dS K, dK = c dSᵀ Q (Dao et al. 2022, appendix B.2); through a soft
    /// cap dS is multiplied by 1 − tanh².
    fn gradients(&self, weights: &Block, output_gradient: &Block) -> [Block; 3] {
        let Shape { heads, key_heads, queries: n, keys: m, .. } = self.shape;
        let (a, behaviour) = (self.arithmetic, self.behaviour);
        let scale = match behaviour.gradient {
            GradientUse::WithoutScale => 1.0,
            GradientUse::ScaleTwice => behaviour.scale * behaviour.scale,
            _ => behaviour.scale,
        };
        let group = heads / key_heads;
        let mut gradients =
            [Block::zeros(self.queries.shape), Block::zeros(self.keys.shape), Block::zeros(self.values.shape)];
        let add = |sums: &mut [f64], factor: f64, entries: &[f64]| {
            for (sum, &entry) in sums.iter_mut().zip(entries) {
                *sum = a.step(*sum + a.step(factor * entry));
            }
        };
        for (batch, head) in places(&self.shape) {
            let (key_batch, key_head) = source(behaviour, &self.shape, batch, head);
            let counts = match behaviour.gradient {
                GradientUse::FirstOfGroup => head % group == 0,
                GradientUse::LastOfGroup => head % group == group - 1,
                _ => true,
            };
            for query in 0..n {
                let upstream: Vec<f64> =
                    output_gradient.row(batch, head, query).iter().map(|&entry| a.stored.round(entry)).collect();
                let own = weights.row(batch, head, query);
                let by_weight: Vec<f64> =
                    (0..m).map(|key| a.store(a.dot(&upstream, self.values.row(key_batch, key_head, key)))).collect();
                let mean = if behaviour.gradient == GradientUse::WithoutMean { 0.0 } else { a.dot(own, &by_weight) };
                let entries = self.queries.row(batch, head, query).to_vec();
                for key in 0..m {
                    let through = self.cap_slope(&entries, self.keys.row(key_batch, key_head, key));
                    let slope = a.store(own[key] * a.step(by_weight[key] - mean) * through);
                    let keys = self.keys.row(key_batch, key_head, key).to_vec();
                    add(gradients[0].row_mut(batch, head, query), slope, &keys);
                    if counts {
                        add(gradients[1].row_mut(key_batch, key_head, key), slope, &entries);
                        add(gradients[2].row_mut(key_batch, key_head, key), own[key], &upstream);
                    }
                }
            }
        }
        let shared = if behaviour.gradient == GradientUse::MeanOfGroup { 1.0 / group as f64 } else { 1.0 };
        for (block, factor) in gradients.iter_mut().zip([scale, scale * shared, shared]) {
            block.numbers.iter_mut().for_each(|number| *number = a.store(*number * a.step(factor)));
        }
        gradients
    }

    /// The derivative of the soft cap.
    fn cap_slope(&self, query: &[f64], key: &[f64]) -> f64 {
        match self.case.options.softcap {
            Some(cap) => 1.0 - (self.logit(query, key) / cap).powi(2),
            None => 1.0,
        }
    }
}

#[cfg(test)]
#[path = "attend_tests.rs"]
mod tests;
