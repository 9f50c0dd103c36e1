//! An attention that shares nothing with the probe: online softmax over blocks of keys with exp2, as fused kernels do it, and the
//! faults that real implementations have had.

use attn::diagnosis::matrix::Storage;
use attn::probe::answer::{Answer, AnswerArray};
use attn::probe::case::{Block, Case, Causal, MaskForm};

/// What is done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// 1/d.
    ScaleWidth,
    /// 1.
    NoScale,
    /// 1/√(d·heads).
    ScaleModelWidth,
    /// Keys after the query are shown, those before hidden.
    CausalTransposed,
    /// No causal mask.
    CausalOff,
    /// The other end.
    OtherAlignment,
    /// true hides.
    MaskPolarity,
    /// Logits times the mask.
    MaskMultiplied,
    /// One key too many on the left.
    WindowWide,
    /// No soft cap.
    SoftcapIgnored,
    /// After the mask.
    SoftcapAfterMask,
    /// Over the queries.
    SoftmaxAxis,
    /// exp of the logits as they are.
    NoMaximum,
    /// Key heads tiled.
    GroupsTiled,
    /// (head, token) read as (token, head).
    MergeWithoutTranspose,
    /// log₂.
    LseBaseTwo,
    /// dQ and dK without the scale.
    GradientWithoutScale,
    /// Keys and values of entry 0 for all.
    BatchLeak,
    /// Sums in f16.
    HalfSums,
    /// A tenth of the weights dropped.
    Dropout,
    /// The order of sums changes from call to call.
    Nondeterminism,
    /// The bias is added before the scale.
    BiasScaled,
    /// No distance penalty.
    AlibiIgnored,
    /// The scale that is asked for is not used.
    ScaleIgnored,
    /// Weights go through bf16.
    BfloatWeights,
    /// Noise of 3e-8 on every number, other noise in each call.
    Noise,
    /// Every number is NaN.
    NotANumber,
}

/// Rounds to the type that the kernel computes in.
fn rounder(case: &Case, fault: Fault) -> impl Fn(f64) -> f64 + use<> {
    let storage = match case.storage {
        Storage::F64 => Storage::F64,
        Storage::F16 if fault == Fault::HalfSums => Storage::F16,
        _ => Storage::F32,
    };
    move |value| storage.round(value)
}

/// A small generator: Weyl's sequence through a mixing function.
fn random(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ (*state >> 31)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((mixed ^ (mixed >> 29)) >> 11) as f64 / (1u64 << 53) as f64
}

/// Answers a case; `call` is a number that differs from call to call.
pub fn answer(case: &Case, fault: Fault, call: u64) -> Answer {
    let kernel = Kernel { case, fault, call, r: rounder(case, fault) };
    kernel.answer()
}

struct Kernel<'a, R: Fn(f64) -> f64> {
    case: &'a Case,
    fault: Fault,
    call: u64,
    r: R,
}

impl<R: Fn(f64) -> f64> Kernel<'_, R> {
    fn scale(&self) -> f64 {
        let [_, heads, _, width] = self.case.inputs.queries.shape;
        let default = 1.0 / (width as f64).sqrt();
        match self.fault {
            Fault::ScaleWidth if self.case.options.scale.is_none() => 1.0 / width as f64,
            Fault::NoScale => 1.0,
            Fault::ScaleModelWidth if self.case.options.scale.is_none() => 1.0 / ((width * heads) as f64).sqrt(),
            Fault::ScaleIgnored => default,
            _ => self.case.options.scale.unwrap_or(default),
        }
    }

    fn key_place(&self, batch: usize, head: usize) -> (usize, usize) {
        let (heads, key_heads) = (self.case.inputs.queries.shape[1], self.case.inputs.keys.shape[1]);
        let batch = if self.fault == Fault::BatchLeak { 0 } else { batch };
        if self.fault == Fault::GroupsTiled { (batch, head % key_heads) } else { (batch, head * key_heads / heads) }
    }

    fn sees(&self, batch: usize, head: usize, query: usize, key: usize) -> bool {
        let options = &self.case.options;
        let (n, m) = (self.case.inputs.queries.shape[2] as i64, self.case.inputs.keys.shape[2] as i64);
        let at_end = match options.causal {
            // This implementation's own convention is bottom-right.
            Some(Causal::Either) => true,
            Some(Causal::BottomRight) => self.fault != Fault::OtherAlignment,
            Some(Causal::TopLeft) => self.fault == Fault::OtherAlignment,
            None => false,
        };
        let position = query as i64 + if at_end { m - n } else { 0 };
        let key_position = key as i64;
        let mut sees = match (options.causal, self.fault) {
            (None, _) | (_, Fault::CausalOff) => true,
            (_, Fault::CausalTransposed) => key_position >= position,
            _ => key_position <= position,
        };
        if let Some([left, right]) = options.window {
            let left = left + i64::from(self.fault == Fault::WindowWide);
            sees &= (left < 0 || position - key_position <= left) && (right < 0 || key_position - position <= right);
        }
        if let Some(lengths) = &self.case.inputs.lengths {
            sees &= key < lengths[batch];
        }
        if let Some(mask) = &self.case.inputs.mask
            && self.case.inputs.lengths.is_none()
        {
            let cell = mask.row(batch, head, query)[key];
            sees &= match (options.mask, self.fault) {
                (_, Fault::MaskMultiplied) => true,
                (Some(MaskForm::Additive), _) => cell != f64::NEG_INFINITY,
                (_, Fault::MaskPolarity) => cell == 0.0,
                _ => cell != 0.0,
            };
        }
        sees
    }

    /// Logits times log₂e of one row, −∞ where hidden.
    fn logits(&self, batch: usize, head: usize, query: usize) -> Vec<f64> {
        let (r, options, inputs) = (&self.r, &self.case.options, &self.case.inputs);
        let (key_batch, key_head) = self.key_place(batch, head);
        let log2_e = std::f64::consts::LOG2_E;
        let folded = r(self.scale() * log2_e);
        let entries = inputs.queries.row(batch, head, query);
        (0..inputs.keys.shape[2])
            .map(|key| {
                // Four partial sums, as a vector unit has them.
                let mut sums = [0.0; 4];
                for (place, (&q, &k)) in entries.iter().zip(inputs.keys.row(key_batch, key_head, key)).enumerate() {
                    sums[place % 4] = r(sums[place % 4] + r(q * k));
                }
                let product = r(r(sums[0] + sums[2]) + r(sums[1] + sums[3]));
                let mut logit = match options.softcap {
                    Some(cap) if !matches!(self.fault, Fault::SoftcapIgnored | Fault::SoftcapAfterMask) => {
                        r(r(cap * r(r(r(product * r(self.scale())) / cap).tanh())) * r(log2_e))
                    }
                    _ => r(product * folded),
                };
                if let Some(slopes) = &inputs.slopes
                    && self.fault != Fault::AlibiIgnored
                {
                    let distance = (key as f64 - query as f64).abs();
                    logit = r(logit - r(r(slopes[head] * r(log2_e)) * distance));
                }
                if let (Some(mask), Some(form)) = (&inputs.mask, options.mask) {
                    let cell = mask.row(batch, head, query)[key];
                    if self.fault == Fault::MaskMultiplied {
                        logit = r(logit * cell);
                    } else if form == MaskForm::Additive && cell != f64::NEG_INFINITY {
                        let factor = if self.fault == Fault::BiasScaled { self.scale() } else { 1.0 };
                        logit = r(logit + r(cell * r(factor * log2_e)));
                    }
                }
                if !self.sees(batch, head, query, key) {
                    logit = f64::NEG_INFINITY;
                }
                match options.softcap {
                    Some(cap) if self.fault == Fault::SoftcapAfterMask => cap * log2_e * (logit / log2_e / cap).tanh(),
                    _ => logit,
                }
            })
            .collect()
    }

    /// Output and log₂ of the sum, block by block.
    fn row(&self, logits: &[f64], place: (usize, usize), seed: &mut u64) -> (Vec<f64>, f64) {
        let (r, inputs) = (&self.r, &self.case.inputs);
        let width = inputs.values.shape[3];
        if self.fault == Fault::BfloatWeights {
            // Not online: the weights are whole before they are rounded.
            let highest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = logits.iter().map(|logit| r(r(logit - highest).exp2())).collect();
            let total = weights.iter().fold(0.0, |sum, weight| r(sum + weight));
            let mut sums = vec![0.0; width];
            for (key, weight) in weights.iter().enumerate() {
                let weight = Storage::Bf16.round(r(weight / total));
                let values = inputs.values.row(place.0, place.1, key);
                sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = r(*sum + r(weight * value)));
            }
            return (sums.into_iter().map(|sum| self.case.storage.round(sum)).collect(), r(highest + r(total.log2())));
        }
        let (mut maximum, mut total, mut sums) = (f64::NEG_INFINITY, 0.0, vec![0.0; width]);
        let block = if self.fault == Fault::Nondeterminism { 3 + (random(seed) * 9.0) as usize } else { 16 };
        for (index, part) in logits.chunks(block).enumerate() {
            let highest = part.iter().copied().fold(maximum, f64::max);
            if highest == f64::NEG_INFINITY {
                continue;
            }
            let shift = if self.fault == Fault::NoMaximum { 0.0 } else { highest };
            let before = if self.fault == Fault::NoMaximum { 0.0 } else { maximum };
            let factor = r(r(before - shift).exp2());
            maximum = highest;
            total = r(total * factor);
            sums.iter_mut().for_each(|sum| *sum = r(*sum * factor));
            for (offset, &logit) in part.iter().enumerate() {
                if logit == f64::NEG_INFINITY {
                    continue;
                }
                let mut weight = r(r(logit - shift).exp2());
                total = r(total + weight);
                if self.fault == Fault::Dropout {
                    weight = if random(seed) < 0.1 { 0.0 } else { weight / 0.9 };
                }
                // Half types multiply halves.
                let weight = self.case.storage.round(weight);
                let values = inputs.values.row(place.0, place.1, index * block + offset);
                sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = r(*sum + r(weight * value)));
            }
        }
        if total == 0.0 && maximum == f64::NEG_INFINITY {
            return (vec![0.0; width], f64::NEG_INFINITY);
        }
        let base = if self.fault == Fault::NoMaximum { 0.0 } else { maximum };
        (sums.into_iter().map(|sum| self.case.storage.round(r(sum / total))).collect(), r(base + r(total.log2())))
    }

    fn answer(&self) -> Answer {
        let inputs = &self.case.inputs;
        let [batches, heads, n, _] = inputs.queries.shape;
        let (m, width) = (inputs.keys.shape[2], inputs.values.shape[3]);
        let mut output = Block::zeros([batches, heads, n, width]);
        let mut log_sums = Block::zeros([batches, heads, 1, n]);
        let mut seed = self.call;
        for batch in 0..batches {
            for head in 0..heads {
                let mut rows: Vec<Vec<f64>> = (0..n).map(|query| self.logits(batch, head, query)).collect();
                if self.fault == Fault::SoftmaxAxis {
                    over_queries(&mut rows, m);
                }
                for (query, logits) in rows.iter().enumerate() {
                    let (row, log_sum) = self.row(logits, self.key_place(batch, head), &mut seed);
                    let unit = if self.fault == Fault::SoftmaxAxis { log_sum.exp2() } else { 1.0 };
                    let row: Vec<f64> = row.iter().map(|number| number * unit).collect();
                    output.row_mut(batch, head, query).copy_from_slice(&row);
                    let log = if self.fault == Fault::LseBaseTwo { 1.0 } else { std::f64::consts::LN_2 };
                    log_sums.row_mut(batch, head, 0)[query] = (self.r)(log_sum * log);
                }
            }
        }
        let storage = self.case.storage;
        for number in output.numbers.iter_mut() {
            match self.fault {
                Fault::Noise => *number = storage.round(*number + 3e-8 * (2.0 * random(&mut seed) - 1.0)),
                Fault::NotANumber => *number = f64::NAN,
                _ => {}
            }
        }
        let gradients = inputs.output_gradient.as_ref().map(|upstream| self.gradients(&output, upstream));
        if self.fault == Fault::MergeWithoutTranspose {
            output = merged(&output);
        }
        let wide = if storage == Storage::F64 { Storage::F64 } else { Storage::F32 };
        let mut arrays = vec![("o", AnswerArray { storage, block: output })];
        arrays.push(("lse", AnswerArray { storage: wide, block: log_sums }));
        if let Some(gradients) = gradients {
            arrays.extend(["dq", "dk", "dv"].into_iter().zip(gradients.map(|block| AnswerArray { storage, block })));
        }
        Answer::Arrays(arrays)
    }

    /// As flash attention: weights again from the logarithm of the sum, the row's mean from the rounded output.
    fn gradients(&self, output: &Block, upstream: &Block) -> [Block; 3] {
        let (r, inputs, storage) = (&self.r, &self.case.inputs, self.case.storage);
        let [batches, heads, n, _] = inputs.queries.shape;
        let mut gradients = [&inputs.queries, &inputs.keys, &inputs.values].map(|block| Block::zeros(block.shape));
        let scale = if self.fault == Fault::GradientWithoutScale { 1.0 } else { r(self.scale()) };
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).fold(0.0, |sum, (a, b)| r(sum + r(a * b)));
        for (batch, head) in (0..batches).flat_map(|batch| (0..heads).map(move |head| (batch, head))) {
            let place = self.key_place(batch, head);
            for query in 0..n {
                let logits = self.logits(batch, head, query);
                let (_, log_sum) = self.row(&logits, place, &mut 0);
                let own = upstream.row(batch, head, query).to_vec();
                let mean = dot(&own, output.row(batch, head, query));
                for (key, &logit) in logits.iter().enumerate().filter(|(_, logit)| **logit != f64::NEG_INFINITY) {
                    let weight = r(r(logit - log_sum).exp2());
                    let by_weight = dot(&own, inputs.values.row(place.0, place.1, key));
                    let slope = storage.round(r(weight * r(by_weight - mean)));
                    let half = storage.round(weight);
                    let add = |sums: &mut [f64], factor: f64, entries: &[f64]| {
                        sums.iter_mut().zip(entries).for_each(|(sum, entry)| *sum = r(*sum + r(factor * entry)));
                    };
                    add(gradients[0].row_mut(batch, head, query), slope, inputs.keys.row(place.0, place.1, key));
                    add(gradients[1].row_mut(place.0, place.1, key), slope, inputs.queries.row(batch, head, query));
                    add(gradients[2].row_mut(place.0, place.1, key), half, &own);
                }
            }
        }
        for (block, factor) in gradients.iter_mut().zip([scale, scale, 1.0]) {
            block.numbers.iter_mut().for_each(|number| *number = storage.round(r(*number * factor)));
        }
        gradients
    }
}

/// Logits whose exponentials sum to 1 over the queries.
fn over_queries(rows: &mut [Vec<f64>], keys: usize) {
    for key in 0..keys {
        let highest = rows.iter().map(|row| row[key]).fold(f64::NEG_INFINITY, f64::max);
        if highest > f64::NEG_INFINITY {
            let log = highest + rows.iter().map(|row| (row[key] - highest).exp2()).sum::<f64>().log2();
            rows.iter_mut().for_each(|row| row[key] -= log);
        }
    }
}

/// (head, token, width) as it lies, read as (token, head, width).
fn merged(output: &Block) -> Block {
    let [batches, heads, n, _] = output.shape;
    let mut merged = Block::zeros(output.shape);
    for batch in 0..batches {
        for place in 0..heads * n {
            merged.row_mut(batch, place % heads, place / heads).copy_from_slice(output.row(
                batch,
                place / n,
                place % n,
            ));
        }
    }
    merged
}
