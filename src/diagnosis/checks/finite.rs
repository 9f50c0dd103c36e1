//! NaN and infinities.

use super::HeadContext;
use crate::diagnosis::evidence::Columns;
use crate::diagnosis::finding::{Check, Finding, Verdict, significant};
use crate::diagnosis::matrix::Matrix;

/// exp of more than this is infinite in f32.
const LARGEST_EXPONENT: f64 = 88.72;

/// Shown by `--explain finite`.
pub const EXPLANATION: &str = "\
Is every number finite, and if not, why?
Formula: counts of NaN and infinities of every tensor (infinities of an additive mask are its purpose). Rows of weights that are not finite are explained where \
they can be: no visible key (0/0); a largest logit above 88.7 (exp without subtracting the row's maximum overflows f32) or all logits \
below −88 (0/0 again); -inf on exactly the hidden cells (the mask was added after the softmax); NaN in Q, K or V.
Verdict: FAIL for every number that is not finite; rows without visible keys that are all zero or uniform are conventions, and PASS.
Blind spots: none for what is in the file.";

/// What is not finite, and why.
pub fn findings(context: &HeadContext<'_>) -> Vec<Finding> {
    let head = context.head;
    let mut findings = Vec::new();
    let inputs = [("Q", Some(&head.queries)), ("K", Some(&head.keys)), ("V", head.values.as_ref())];
    let mut broken_inputs = Vec::new();
    for (name, matrix) in inputs {
        if let Some(found) = matrix.and_then(broken) {
            broken_inputs.push(name);
            let (row, column) = found.first;
            let hidden = name != "Q" && context.evidence.visible.is_never_visible(row);
            let masked = if hidden { " but masked" } else { "" };
            let output = head.output.as_ref().and_then(broken);
            let words = match output {
                Some(outputs) if hidden => format!(
                    "{name}[{row},{column}] is not finite{masked}; {} are neither: masked values must be selected away, not multiplied by 0",
                    outputs.of("O")
                ),
                _ => format!("{} not finite, first ({row}, {column}){masked}", found.of(name)),
            };
            let (cause, confirm) = if hidden {
                ("0 * NaN is NaN: a masked key still spoils a product", "replace masked entries of K and V by 0")
            } else {
                (
                    "the numbers came into attention like this: an overflow (in f16 above 65504) or a NaN of the layer before",
                    "print the largest number of the layer before and of its projection",
                )
            };
            let mut finding = context
                .finding(Check::Finite, Verdict::Fail, &format!("input {name}"), words)
                .with_numbers(found.count as f64, 0.0, "entries")
                .with_cause(cause, confirm);
            finding.cell = Some((row, Some(column)));
            findings.push(finding);
        }
    }
    if let Some(Broken { count, first, .. }) = head.logits.as_ref().and_then(broken)
        && broken_inputs.is_empty()
        && !logits_are_masked(context)
    {
        let words = format!("{count} logits are not finite, first ({}, {})", first.0, first.1);
        let mut finding = context
            .finding(Check::Finite, Verdict::Fail, "logits", words)
            .with_numbers(count as f64, 0.0, "entries")
            .with_cause("QKᵀ overflows the type it is accumulated in", "accumulate in f32, or scale Q first");
        finding.cell = Some((first.0, Some(first.1)));
        findings.push(finding);
    }
    if !broken_inputs.is_empty() {
        return findings;
    }
    findings.extend(weight_rows(context));
    findings.extend(empty_rows(context));
    if let Some(found) = head.output.as_ref().and_then(broken)
        && findings.is_empty()
    {
        let words = format!("{} not finite, first ({}, {})", found.of("O"), found.first.0, found.first.1);
        findings.push(context.finding(Check::Finite, Verdict::Fail, "output", words).with_numbers(
            found.count as f64,
            0.0,
            "entries",
        ));
    }
    if findings.is_empty() {
        findings.push(context.finding(Check::Finite, Verdict::Pass, "right", "every number is finite"));
    }
    findings
}

/// Whether the logits are -inf on exactly the hidden cells and finite elsewhere: dumped after the mask.
fn logits_are_masked(context: &HeadContext<'_>) -> bool {
    let (Some(logits), evidence) = (&context.head.logits, context.evidence) else { return false };
    let mut row = vec![0.0; logits.columns];
    (0..logits.rows).all(|query| {
        logits.row(query, &mut row);
        let visible = evidence.visible.row(query);
        row.iter().enumerate().all(|(key, logit)| match visible.contains(key) {
            true => logit.is_finite(),
            false => logit.is_finite() || *logit == f64::NEG_INFINITY,
        })
    })
}

/// Entries that are not finite.
struct Broken {
    count: usize,
    /// How many of them are NaN.
    nans: usize,
    /// Row and column.
    first: (usize, usize),
}

impl Broken {
    /// "3 entries of K (2 infinite, 1 NaN)".
    fn of(&self, name: &str) -> String {
        let entries = if self.count == 1 { "entry" } else { "entries" };
        let kinds = match (self.count - self.nans, self.nans) {
            (_, 0) => "infinite".to_string(),
            (0, _) => "NaN".to_string(),
            (infinite, nans) => format!("{infinite} infinite, {nans} NaN"),
        };
        format!("{} {entries} of {name} ({kinds})", self.count)
    }
}

fn broken(matrix: &Matrix) -> Option<Broken> {
    let mut row = vec![0.0; matrix.columns];
    let (mut count, mut nans, mut first) = (0, 0, None);
    for index in 0..matrix.rows {
        matrix.row(index, &mut row);
        for (column, number) in row.iter().enumerate().filter(|(_, number)| !number.is_finite()) {
            count += 1;
            nans += usize::from(number.is_nan());
            first.get_or_insert((index, column));
        }
    }
    first.map(|first| Broken { count, nans, first })
}

/// Rows of weights that are not finite though they see a key.
fn weight_rows(context: &HeadContext<'_>) -> Option<Finding> {
    let evidence = context.evidence;
    let sums = context.sums?;
    let rows: Vec<usize> =
        sums.broken_rows.iter().copied().filter(|&query| evidence.visible.row(query).count() > 0).collect();
    let first = *rows.first()?;
    if context.head.mask.as_ref().is_some_and(|mask| !mask.broken.is_empty()) {
        return None;
    }
    let extremes = evidence.map_rows(&evidence.every_row(), Columns::Visible, |row, _| {
        let view = row.view(&evidence.key_norms);
        let keys = (view.span.start..view.span.end).filter(|&key| view.visible[key]);
        keys.map(|key| context.model.logit(&view, key)).fold(f64::NEG_INFINITY, f64::max)
    });
    let overflows = |query: usize| !(-87.0..=LARGEST_EXPONENT).contains(&extremes[query]);
    let hidden_alone = evidence.map_rows(&rows, Columns::None, |row, _| {
        let view = row.view(&evidence.key_norms);
        let hides = (0..evidence.keys).any(|key| !view.visible[key]);
        hides
            && (0..evidence.keys).all(|key| match view.visible[key] {
                true => view.weights[key].is_finite(),
                false => view.weights[key] == f64::NEG_INFINITY,
            })
    });
    let only_hidden = hidden_alone.into_iter().all(|alone| alone);
    let whole_overflow = (0..evidence.queries).any(|query| sums.rows[query].is_finite() && overflows(query));
    let mut finding = if only_hidden {
        context
            .finding(
                Check::Mask,
                Verdict::Fail,
                "added after",
                "weights are -inf on exactly the hidden cells: the mask was added after the softmax",
            )
            .with_numbers(f64::NEG_INFINITY, 0.0, "weight of a masked key")
            .with_cause("P + mask instead of softmax(scores + mask)", "add the mask to the scores")
    } else if rows.iter().all(|&query| overflows(query)) && !whole_overflow {
        let largest = rows.iter().map(|&query| extremes[query]).fold(f64::NEG_INFINITY, f64::max);
        let words = format!(
            "{} rows are not finite, those whose largest logit is above 88.7 (up to {}) or far below -87; all others are right: softmax does not subtract the row's maximum",
            rows.len(),
            significant(largest, 4)
        );
        context
            .finding(Check::Finite, Verdict::Fail, "no maximum", words)
            .with_numbers(rows.len() as f64, 0.0, "rows")
            .with_cause(
                "exp(logit) without subtracting the row's maximum overflows f32",
                "subtract the maximum of each row before exp",
            )
    } else {
        let words = format!("{} rows of weights are not finite, first row {first}", rows.len());
        context
            .finding(Check::Finite, Verdict::Fail, "weights", words)
            .with_numbers(rows.len() as f64, 0.0, "rows")
            .with_cause(
                "logits overflowed their type (inf - inf), or a mask held NaN",
                "dump the logits before the softmax",
            )
    };
    finding.cell = Some((first, None));
    Some(finding)
}

/// What became of rows that see no key.
fn empty_rows(context: &HeadContext<'_>) -> Option<Finding> {
    let evidence = context.evidence;
    let rows: Vec<usize> = (0..evidence.queries).filter(|&query| evidence.visible.row(query).count() == 0).collect();
    let first = *rows.first()?;
    let (mut broken, mut zero, mut uniform) = (0, 0, 0);
    let source = context.head.weights.as_ref().or(context.head.output.as_ref())?;
    let mut row = vec![0.0; source.columns];
    for &query in &rows {
        source.row(query, &mut row);
        let even = 1.0 / evidence.keys as f64;
        broken += usize::from(row.iter().any(|number| !number.is_finite()));
        zero += usize::from(row.iter().all(|&number| number == 0.0));
        uniform += usize::from(row.iter().all(|&number| (number - even).abs() < 0.01 * even));
    }
    let place = format!("row ({}, {}, {first}) has no allowed key", context.head.batch, context.head.head);
    let conventions = "conventions: zeros (flash, PyTorch, ONNX), uniform (lowest finite number as fill), NaN (naive)";
    let mut finding = if broken > 0 {
        context
            .finding(
                Check::Finite,
                Verdict::Fail,
                "empty rows",
                format!("{place}: got NaN ({broken} such rows); {conventions}"),
            )
            .with_numbers(broken as f64, 0.0, "rows")
            .with_cause("softmax of a row of -inf is 0/0", "select zeros for rows without keys")
    } else {
        let convention = if zero == rows.len() {
            "zeros"
        } else if uniform == rows.len() {
            "uniform"
        } else {
            "neither zeros nor uniform"
        };
        context.finding(Check::Finite, Verdict::Pass, convention, format!("{place}: got {convention}; {conventions}"))
    };
    finding.cell = Some((first, None));
    Some(finding)
}
