//! The factor on QKᵀ that was really used.

use super::{HeadContext, against};
use crate::diagnosis::explain::Cause;
use crate::diagnosis::finding::{Check, Finding, Verdict, significant};
use crate::diagnosis::naming::{Meaning, Name, names, with_error};
use crate::diagnosis::slope::ScaleFit;

/// Shown by `--explain scale`.
pub const EXPLANATION: &str = "\
Which factor on QKᵀ do the weights show?
Formula: within a row ln P_ij less its mean over the visible keys is linear in (QKᵀ)_ij less its mean; the slope is the scale. \
Weighted regression over all rows; standard error from rows as clusters, from residuals, or from rounding, whichever is largest.
Verdict: FAIL if the declared scale is farther than 8 standard errors plus the rounding of the scale itself to the storage type. Without \
--scale the textbook's 1/sqrt(dk) is assumed, and what may be meant (1, 1/dk, numbers without a simple name) is a WARN; what is only \
known as a slip (the model's width for the head's, the inverse, another base, the sign turned) is a FAIL, and so are weights that do not depend on QKᵀ. \
Logits in the file must be a multiple of QKᵀ up to rounding, over visible cells: FAIL otherwise. Where no model gives the weights no scale is named.
CANNOT TELL: no row with two visible keys of different logits; a half type with so few entries that d and d + 1 look alike. From the output alone that is \
common in half types: all channels of a row are moved together by the roundings of its few logits, so that they are one measurement and not d_v, and a \
tolerance as small as their scatter would call right outputs wrong; the weights, or more rows, tell more.
Blind spots: a number per row added to the logits; one rotation or permutation of Q and K alike; d^(-1/4) on each of Q and K; with one head \
1/sqrt(dk) and 1/sqrt(dmodel) are the same number; what was applied before Q and K were dumped.";

/// Relative rounding of TF32 products, 10 bits kept.
const COARSEST_PRODUCT: f64 = 1.0 / 2048.0;

/// What weights and logits say of the scale.
pub fn findings(context: &HeadContext<'_>) -> Vec<Finding> {
    let mut findings = of_weights(context);
    findings.extend(of_logits(context));
    findings
}

/// Logits in the file against c·QKᵀ: the slope through the origin, Σ l·S / Σ S², and what it leaves.
fn of_logits(context: &HeadContext<'_>) -> Option<Finding> {
    let logits = context.head.logits.as_ref()?;
    let evidence = context.evidence;
    let (mut product, mut square, mut rest, mut count) = (0.0, 0.0, 0.0, 0usize);
    let mut given = vec![0.0; evidence.keys];
    for row in evidence.sampled() {
        let view = row.view(&evidence.key_norms);
        logits.row(view.query, &mut given);
        // Logits of hidden keys may be those after the mask.
        let seen = given.iter().zip(view.raw).zip(view.visible).filter(|(_, visible)| **visible);
        for (&logit, &raw) in seen.map(|(cell, _)| cell).filter(|(logit, _)| logit.is_finite()) {
            product += logit * raw;
            square += raw * raw;
            rest += logit * logit;
            count += 1;
        }
    }
    if count < 2 || square <= 0.0 {
        return None;
    }
    let slope = product / square;
    let expected = context.model.scale;
    let residual = ((rest - slope * product).max(0.0) / (count - 1) as f64).sqrt();
    let error = residual / square.sqrt();
    let rounding = 4.0 * logits.computed_in().unit_roundoff().max(evidence.precisions.logits) * expected.abs();
    let is_plain = context.model.cap.is_none() && context.model.alibi == 0.0 && context.model.bias == 0.0;
    let size = (rest / count as f64).sqrt();
    // TF32 and bf16 products, at the coarsest.
    let coarsest = logits.computed_in().unit_roundoff().max(evidence.precisions.logits).max(COARSEST_PRODUCT);
    if is_plain && residual > 4.0 * coarsest * size {
        let words = format!(
            "the logits in the file are no multiple of QKᵀ: {} % of their size is left over by the nearest, {} times QKᵀ",
            significant(100.0 * residual / size, 2),
            with_error(slope, error)
        );
        return Some(
            context
                .finding(Check::Scale, Verdict::Fail, "logits of another origin", words)
                .with_numbers(residual / size, 0.0, "share left over")
                .with_cause(
                    "logits of another head, layer or run, or dumped after a term that was not declared (bias, cap, positions)",
                    "dump Q, K and the logits at one call",
                ),
        );
    }
    if (slope - expected).abs() <= 8.0 * error + rounding || !is_plain {
        return None;
    }
    let text = context.contract.scale.value().to_string();
    let name = &names(slope, 8.0 * error + rounding, expected, &text, &context.sizes)[0];
    let words = format!(
        "the logits in the file are {} times QKᵀ = {}; expected {} = {text}",
        with_error(slope, error),
        name.text,
        significant(expected, 5)
    );
    let verdict = against(context.contract.scale.is_declared());
    Some(
        context
            .finding(Check::Scale, verdict, &format!("logits {}", name.text), words)
            .with_numbers(slope, expected, "factor")
            .with_cause(
                "logits dumped before the scale, or after another one",
                "divide the logits by QKᵀ, cell by cell",
            ),
    )
}

fn of_weights(context: &HeadContext<'_>) -> Vec<Finding> {
    let Some(explanation) = context.explanation else {
        let why = if context.head.output.is_some() {
            return Vec::new();
        } else {
            "the file holds neither weights nor output: the scale cannot be seen"
        };
        return vec![context.finding(Check::Scale, Verdict::CannotTell, "no weights", why)];
    };
    let expected = context.model.scale;
    let Some(fit) = &explanation.fit else {
        let why = match explanation.causes.contains(&Cause::Unexplained) {
            true => "nothing that was tried gives the output, so no scale can be fitted to it",
            false => "no row holds two visible keys with different logits and weight: any scale gives these weights",
        };
        return vec![context.finding(Check::Scale, Verdict::CannotTell, "no information", why)];
    };
    let structural = explanation.causes.iter().any(|cause| matches!(cause, Cause::OverQueries | Cause::Unexplained));
    let is_wrong = explanation.causes.contains(&Cause::Scale);
    if structural && !is_wrong {
        return Vec::new();
    }
    let finding = if is_wrong { wrong(context, fit) } else { right(context, fit, expected) };
    let mut finding = finding.with_numbers(fit.scale, expected, "factor");
    finding.standard_error = Some(fit.standard_error);
    finding.symptoms.extend(context.evidence.sample_in_words().filter(|_| context.head.weights.is_some()));
    if context.recovered {
        finding.symptoms.push("weights recovered from the output by least squares".to_string());
    }
    vec![finding]
}

fn right(context: &HeadContext<'_>, fit: &ScaleFit, expected: f64) -> Finding {
    let d = context.sizes.width as f64;
    let text = context.contract.scale.value();
    let fitted = format!("fitted {} = {text} from {} weights", with_error(fit.scale, fit.standard_error), fit.entries);
    let relative = fit.resolution() / expected.abs();
    // Neighbouring widths differ by 1/(2d) in 1/√d.
    if relative > 0.5 / d && relative > 1e-5 {
        let words = format!(
            "{fitted}; at this precision and number of entries anything within {} % looks alike, so d = {d} is not told from {}",
            significant(100.0 * relative, 2),
            d + 1.0
        );
        return context.finding(Check::Scale, Verdict::CannotTell, "resolution", words);
    }
    let mut finding = context.finding(Check::Scale, Verdict::Pass, "right", fitted);
    if let Some(note) = split_between(context, expected) {
        finding.symptoms.push(note);
    }
    finding
}

/// d^(−1/4) on each of Q and K, or all of it on Q.
fn split_between(context: &HeadContext<'_>, expected: f64) -> Option<String> {
    let (q, k) = (deviation(&context.head.queries), deviation(&context.head.keys));
    let d = context.sizes.width as f64;
    let near = |value: f64, target: f64| (value / target - 1.0).abs() < 0.2;
    let quarter = d.powf(-0.25);
    if expected == 1.0 && near(q, quarter) && near(k, quarter) {
        return Some(format!(
            "Q and K both have standard deviation near {} = d^(-1/4): the scale seems split between Q and K; effective scale 1/sqrt(d)",
            significant(quarter, 3)
        ));
    }
    (q * d.sqrt() / k - 1.0).abs().lt(&0.2).then(|| {
        format!(
            "Q looks pre-scaled: its standard deviation is {} of K's; the scale is applied on top",
            significant(q / k, 3)
        )
    })
}

fn deviation(matrix: &crate::diagnosis::matrix::Matrix) -> f64 {
    let numbers = matrix.to_f64();
    let count = numbers.len().max(1) as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    (numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / count).sqrt()
}

fn wrong(context: &HeadContext<'_>, fit: &ScaleFit) -> Finding {
    let expected = context.model.scale;
    let declared = context.contract.scale.is_declared();
    let d = context.sizes.width;
    let text = context.contract.scale.value().to_string();
    if fit.scale.abs() <= fit.resolution() {
        let words = format!(
            "fitted {}: 0 within its error, so the weights do not depend on QKᵀ; expected {} = {text}",
            with_error(fit.scale, fit.standard_error),
            significant(expected, 5)
        );
        return context.finding(Check::Scale, Verdict::Fail, "zero", words).with_cause(
            "weights of other queries and keys, or a constant in place of the logits",
            "print a row of logits and the same row of weights",
        );
    }
    let found = names(fit.scale, fit.resolution(), expected, &text, &context.sizes);
    let name = &found[0];
    let ratio = fit.scale / expected;
    let direction = if ratio < 0.0 {
        "the sign is turned: keys that fit worst get most weight".to_string()
    } else if ratio < 1.0 {
        format!("logits {} times too small, weights too FLAT", significant(1.0 / ratio, 4))
    } else {
        format!("logits {} times too large, weights too PEAKED", significant(ratio, 4))
    };
    let mut words = format!(
        "fitted {} = {}; expected {} = {text} (Q has d = {d}); {direction}",
        with_error(fit.scale, fit.standard_error),
        name.text,
        significant(expected, 5),
    );
    if found.len() > 1 {
        let others: Vec<&str> = found[1..].iter().take(4).map(|name| name.text.as_str()).collect();
        words.push_str(&format!("; the same number is also {}", others.join(", ")));
    }
    let verdict = match name.meaning {
        Meaning::Unscaled | Meaning::InverseWidth | Meaning::None | Meaning::OtherWidth | Meaning::Ratio => {
            against(declared)
        }
        _ => Verdict::Fail,
    };
    let cause = cause(context, name, declared);
    let confirm = "print the factor where QKᵀ is multiplied, and the shape it is computed from";
    // Scales without a name differ from head to head; they are one cause all the same.
    let key =
        if name.meaning == Meaning::None { "scale without a name".to_string() } else { format!("scale {}", name.text) };
    context.finding(Check::Scale, verdict, &key, words).with_cause(cause, confirm)
}

fn cause(context: &HeadContext<'_>, name: &Name, declared: bool) -> String {
    let sizes = &context.sizes;
    let legal = if declared { String::new() } else { format!("; if it is meant, pass --scale '{}'", legal_text(name)) };
    let cause = match name.meaning {
        Meaning::Unscaled => {
            "unscaled: no factor is applied (a default of 1, or a fallback path without it)".to_string()
        }
        Meaning::InverseWidth => {
            "the scale is applied twice (Q multiplied by d^-0.5, then the attention call applies its own), or muP's 1/d"
                .to_string()
        }
        Meaning::InverseSqrtModelWidth => format!(
            "this is 1/sqrt(d_model), d_model = heads*d = {}*{}: the width of the model taken for that of a head",
            sizes.heads, sizes.width
        ),
        Meaning::Standard => {
            let ratio = name.value / context.model.scale;
            let layer = context.contract.layer.filter(|layer| (layer + 1.0 - ratio).abs() < 1e-6);
            format!(
                "the textbook's scale is used and the configured one ignored; their ratio is {}{}",
                significant(ratio, 4),
                if layer.is_some() { " = layer + 1" } else { "" }
            )
        }
        Meaning::Negated => "a minus sign too many: of the scale, or of Q or K".to_string(),
        Meaning::Twice => "the scale is applied twice".to_string(),
        Meaning::Multiplied => "QKᵀ is multiplied where it should be divided".to_string(),
        Meaning::OtherSize => "the root of another size was taken: look which axis the width is read from".to_string(),
        Meaning::OtherWidth => {
            let k = (1.0 / (name.value * name.value)).round();
            format!("{k} was taken for the width d = {} (hidden/heads where the head width is set apart?)", sizes.width)
        }
        Meaning::OtherBase => {
            "exp2 without the factor log2(e), or that factor twice: base 2 against base e".to_string()
        }
        Meaning::Ratio => {
            "a configured factor is applied where it should not be, or is ignored (layer index + 1?)".to_string()
        }
        Meaning::Expected | Meaning::None => {
            "a configured number, or one that is none of the sizes in sight".to_string()
        }
    };
    cause + &legal
}

fn legal_text(name: &Name) -> String {
    match name.meaning {
        Meaning::Unscaled => "1".to_string(),
        Meaning::InverseWidth => "1/dk".to_string(),
        Meaning::OtherWidth | Meaning::InverseSqrtModelWidth => name.text.clone(),
        _ => significant(name.value, 6),
    }
}
