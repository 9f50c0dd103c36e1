//! All checks over all heads of one attention.

use std::collections::BTreeMap;

use super::checks::{
    AxisSums, Control, HeadContext, Reshape, WeightSums, axis_findings, head_findings, key_head, order_findings,
    shared_otherwise, sinusoidal_findings,
};
use super::contract::{Contract, Declared, alibi_slope};
use super::evidence::{Evidence, MOST_CELLS};
use super::explain::{Cause, Explanation, explain};
use super::finding::{Check, Finding, Place, Verdict, joined};
use super::matrix::{Head, Matrix};
use super::model::{Cap, Hidden, MaskUse, Misfit, Model};
use super::naming::Sizes;
use super::output_search::{explain_output, likely_scales, recover_weights};
use super::progress::Steps;
use super::summary::{HeadSummary, findings as summary_findings, summarise};
use super::survey::{RowFacts, row_sums, survey, survey_of_model};
use super::variants::{Told, Variant, causal_shows_by_itself, empty_rows_are_few_and_even, variants};

/// Cells per head whose sums over batch and heads are taken.
const AXIS_CELLS: usize = 4096;

/// Where the tensors of one attention come from, head by head. Heads are query heads; keys and values may have fewer, and
/// [`Source::head`] gives each query head those it uses by the contract.
pub trait Source {
    /// Sizes in sight.
    fn sizes(&self) -> Sizes;

    /// Batch entries.
    fn batches(&self) -> usize;

    /// All there is of a head.
    ///
    /// # Errors
    /// What cannot be read, in one line.
    fn head(&self, batch: usize, head: usize) -> Result<Head, String>;

    /// The queries of a head.
    ///
    /// # Errors
    /// As [`Source::head`].
    fn queries(&self, batch: usize, head: usize) -> Result<Matrix, String>;

    /// The keys of a key head.
    ///
    /// # Errors
    /// As [`Source::head`].
    fn keys(&self, batch: usize, key_head: usize) -> Result<Matrix, String>;

    /// The values of a key head.
    ///
    /// # Errors
    /// As [`Source::head`].
    fn values(&self, batch: usize, key_head: usize) -> Result<Option<Matrix>, String>;

    /// The output of a head if it was reshaped by `order` where axes should have changed places.
    ///
    /// # Errors
    /// As [`Source::head`].
    fn output_reshaped(&self, batch: usize, head: usize, order: Reshape) -> Result<Option<Matrix>, String>;

    /// The table of positions, if there is one.
    ///
    /// # Errors
    /// As [`Source::head`].
    fn position_table(&self) -> Result<Option<Matrix>, String>;
}

/// What an audit found.
#[derive(Debug, Clone)]
pub struct Audit {
    /// Findings joined over heads, worst first.
    pub findings: Vec<Finding>,
    /// One summary per head.
    pub heads: Vec<HeadSummary>,
    /// Batch entries.
    pub batches: usize,
    /// Sizes.
    pub sizes: Sizes,
}

impl Audit {
    /// Findings of a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.findings.iter().filter(|finding| finding.verdict == verdict).count()
    }

    /// Findings of a check.
    pub fn of(&self, check: Check) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.check == check)
    }
}

/// The contract as a model of head `head`.
///
/// # Errors
/// A scale that cannot be computed from the sizes.
pub fn contract_model(contract: &Contract, sizes: &Sizes, head: usize, has_bias: bool) -> Result<Model, String> {
    let model_width = sizes.model_width.unwrap_or(sizes.width as f64 * sizes.heads as f64);
    let mut known = BTreeMap::from([
        ("dk", sizes.width as f64),
        ("heads", sizes.heads as f64),
        ("dmodel", model_width),
        ("n", sizes.queries as f64),
        ("m", sizes.keys as f64),
    ]);
    if let Some(layer) = contract.layer {
        known.insert("layer", layer);
    }
    let scale = contract.scale.value().value(&known)?;
    if scale == 0.0 {
        return Err(format!("--scale {}: is 0 at these sizes, all weights would be even", contract.scale.value()));
    }
    Ok(Model {
        scale,
        cap: contract.softcap.map(Cap::Tanh),
        bias: f64::from(u8::from(has_bias)),
        alibi: if contract.alibi { alibi_slope(head, sizes.heads) } else { 0.0 },
        sink: contract.sink,
        hidden: Hidden::Excluded,
        mask: MaskUse::Contract,
        factor: 1.0,
    })
}

/// Audits one attention. `progress` hears of each step: how many have been announced, of how many; a step is a block of rows of
/// one head, whichever thread it is done by.
///
/// # Errors
/// What the source cannot read, or a scale that cannot be computed.
pub fn audit(
    source: &dyn Source,
    contract: &Contract,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Audit, String> {
    audit_with(source, contract, MOST_CELLS, progress)
}

/// As [`audit`], with fits on about `most_cells` cells of each head instead of [`MOST_CELLS`]. Every row is compared all the same.
///
/// # Errors
/// As [`audit`].
pub fn audit_with(
    source: &dyn Source,
    contract: &Contract,
    most_cells: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Audit, String> {
    let sizes = source.sizes();
    let (batches, heads) = (source.batches(), sizes.heads);
    contract_model(contract, &sizes, 0, false)?;
    let mut first = Some(source.head(0, 0)?);
    // Dropped weights sum to nothing in particular along any axis.
    let is_dropped = contract.dropout.is_some_and(|p| p > 0.0);
    let axis = first.as_ref().filter(|_| !is_dropped).map(|first| axis_sums(source, first)).transpose()?.flatten();
    let mut findings = match &axis {
        Some((sums, roundoff)) => axis_findings(sums, batches, heads, *roundoff),
        None => Vec::new(),
    };
    let mut work = Work {
        source,
        contract,
        sizes,
        most_cells,
        explained_elsewhere: !findings.is_empty(),
        controls: Vec::new(),
        steps: Steps::new(batches * heads, sizes.queries, progress),
    };
    let mut summaries = Vec::new();
    let (mut unexplained, mut wrong_output) = (Vec::new(), Vec::new());
    for batch in 0..batches {
        for index in 0..heads {
            let head = first.take().map_or_else(|| source.head(batch, index), Ok)?;
            let model = contract_model(contract, &sizes, index, head.bias.is_some())?;
            let (own, summary) = work.head(&head, &model)?;
            unexplained.extend(is_unexplained(&own).then_some((batch, index)));
            wrong_output.extend(
                own.iter().any(|f| f.check == Check::Output && f.verdict == Verdict::Fail).then_some((batch, index)),
            );
            let is_faulty = own.iter().any(|finding| finding.verdict == Verdict::Fail);
            findings.extend(own);
            // One cause, one finding: rows that a fault makes one-hot are its symptom.
            let of_summary = summary_findings(&summary, sizes.width);
            findings.extend(of_summary.into_iter().filter(|finding| finding.verdict == Verdict::Pass || !is_faulty));
            summaries.push(summary);
            work.steps.end_of_head(batch * heads + index + 1);
        }
    }
    let model_of = |head: &Head| {
        let model = contract_model(contract, &sizes, head.head, head.bias.is_some());
        // The same sizes gave a scale before.
        model.unwrap_or_else(|_| unreachable!("the scale was computed for the first head"))
    };
    let orders = order_findings(source, contract, &model_of, &unexplained, &wrong_output)?;
    replace_explained(&mut findings, &orders);
    findings.extend(orders);
    findings.extend(heads_pass(&findings, batches, heads));
    if let Some(table) = source.position_table()? {
        findings.extend(sinusoidal_findings(&table));
    }
    findings.extend(unseen(contract, &findings));
    Ok(Audit { findings: joined(findings), heads: summaries, batches, sizes })
}

/// Whether a head's weights or output have no explanation yet.
fn is_unexplained(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| {
        finding.verdict == Verdict::Fail
            && finding.key == "unexplained"
            && matches!(finding.check, Check::Precision | Check::Output)
    })
}

/// One cause, one finding: what another order of heads explains is no finding of its own.
fn replace_explained(findings: &mut Vec<Finding>, orders: &[Finding]) {
    for order in orders {
        findings.retain(|finding| {
            let symptom = finding.verdict == Verdict::Fail
                && (finding.key == "unexplained" || (finding.check == Check::Output && finding.key == "inconsistent"))
                || (finding.check == Check::Scale && finding.verdict != Verdict::Pass && order.key != "merge");
            !(symptom && finding.place == order.place)
        });
    }
}

/// What was declared and shows in nothing that the file holds.
fn unseen(contract: &Contract, findings: &[Finding]) -> Vec<Finding> {
    let says = |check: Check| findings.iter().any(|finding| finding.check == check);
    let without_weights = "the file holds neither weights nor output";
    let of_weights = [
        (contract.causal.as_ref().is_some_and(Declared::is_declared), Check::Causal, "--causal"),
        (contract.window.is_some(), Check::Window, "--window"),
        (contract.softcap.is_some(), Check::Softcap, "--softcap"),
        (contract.sink.is_some(), Check::Sink, "--sink"),
        (contract.alibi, Check::Alibi, "--alibi"),
        (contract.dropout.is_some_and(|p| p > 0.0), Check::Dropout, "--dropout"),
        (contract.groups.is_declared(), Check::Heads, "--kv-groups"),
    ];
    let nothing_to_see = findings.iter().any(|f| f.check == Check::Scale && f.key == "no weights");
    let of_weights = of_weights.into_iter().filter(|_| nothing_to_see);
    let rotary = (contract.rotary.is_some(), Check::Rotary, "--rotary");
    of_weights
        .map(|option| (option, without_weights))
        .chain([(rotary, "the file holds no queries or keys before the rotation (q_pre, k_pre)")])
        .filter(|((declared, check, _), _)| *declared && !says(*check))
        .map(|((_, check, option), why)| {
            let words = format!("{option} is declared and cannot be checked: {why}");
            Finding::new(check, Verdict::CannotTell, "unseen", words)
        })
        .collect()
}

/// PASS where several heads are each their own, CANNOT TELL for one.
fn heads_pass(findings: &[Finding], batches: usize, heads: usize) -> Option<Finding> {
    let of_weights = |finding: &Finding| matches!(finding.check, Check::Precision | Check::Output);
    let is_known = |finding: &Finding| {
        finding.check == Check::Heads || heads > 1 && finding.verdict == Verdict::Fail && of_weights(finding)
    };
    if findings.iter().any(is_known) {
        return None;
    }
    let judged: Vec<(usize, usize)> = findings
        .iter()
        .filter(|finding| of_weights(finding) && finding.verdict == Verdict::Pass)
        .filter_map(|finding| match &finding.place {
            Place::Heads(places) => places.first().copied(),
            Place::Everywhere => None,
        })
        .collect();
    let mut finding = if heads == 1 {
        Finding::new(Check::Heads, Verdict::CannotTell, "one", "one head: order and joining of heads do not show")
    } else if judged.is_empty() {
        return None;
    } else {
        Finding::new(Check::Heads, Verdict::Pass, "right", "every head's weights and output belong to its own Q and K")
    };
    let all = (0..batches).flat_map(|batch| (0..heads).map(move |head| (batch, head))).collect();
    finding.place = Place::Heads(all);
    Some(finding)
}

/// What stays the same from head to head.
struct Work<'a> {
    source: &'a dyn Source,
    contract: &'a Contract,
    sizes: Sizes,
    most_cells: usize,
    explained_elsewhere: bool,
    controls: Vec<(Vec<usize>, f64, Option<Control>)>,
    steps: Steps<'a>,
}

impl Work<'_> {
    /// The findings of one head, and its summary. Where the contract does not hold and something was not declared, what may be meant is
    /// tried whole: if with it nothing is left, that it was not declared is the only finding.
    fn head(&mut self, head: &Head, model: &Model) -> Result<(Vec<Finding>, HeadSummary), String> {
        let judged = self.judge(head, self.contract, model, Told::Yes);
        let fails = judged.fails();
        if judged.follows.is_none() || (judged.follows == Some(true) && !fails) || self.explained_elsewhere {
            return Ok((judged.findings, judged.summary));
        }
        // Only what has no other explanation is worth a second thing that was not declared.
        let mut second: Option<(Vec<Finding>, HeadSummary)> = None;
        if judged.follows == Some(false) && (fails || !causal_shows_by_itself(head, self.contract)) {
            for variant in variants(head, self.contract) {
                let mut other = self.judge(&variant.head, &variant.contract, model, Told::No);
                let (follows, is_meant) = (other.follows, other.is_explained && !other.fails());
                other.findings.extend(variant.findings);
                if follows == Some(true) {
                    return Ok((other.findings, other.summary));
                }
                if fails && is_meant {
                    second.get_or_insert((other.findings, other.summary));
                }
            }
        }
        if let Some(second) = second {
            return Ok(second);
        }
        if let Some((regrouped, finding)) = self.regrouped(head)?.filter(|_| fails) {
            let plain = Variant { head: regrouped.clone(), contract: self.contract.clone(), findings: Vec::new() };
            for variant in std::iter::once(plain).chain(variants(&regrouped, self.contract)) {
                let mut other = self.judge(&variant.head, &variant.contract, model, Told::No);
                if other.is_explained && !other.fails() {
                    other.findings.extend(variant.findings);
                    other.findings.push(finding);
                    return Ok((other.findings, other.summary));
                }
            }
        }
        Ok((judged.findings, judged.summary))
    }

    /// The head with the keys and values of the other sharing, where that is another head and none was declared.
    fn regrouped(&self, head: &Head) -> Result<Option<(Head, Finding)>, String> {
        let (heads, key_heads) = (self.sizes.heads, self.sizes.key_heads);
        let order = *self.contract.groups.value();
        let [own, other] = [order, order.other()].map(|order| key_head(head.head, heads, key_heads, order));
        if own == other || self.contract.groups.is_declared() {
            return Ok(None);
        }
        let (keys, values) = (self.source.keys(head.batch, other)?, self.source.values(head.batch, other)?);
        let what = if head.weights.is_some() { "weights" } else { "output" };
        let finding = shared_otherwise(what, head.head, (other, own), self.contract).in_head(head.batch, head.head);
        Ok(Some((Head { keys, values, keys_before_rotation: None, ..head.clone() }, finding)))
    }

    fn judge(&mut self, head: &Head, contract: &Contract, model: &Model, told: Told) -> Judged {
        let recovered = if head.weights.is_none() { recover_weights(head) } else { None };
        let floor = recovered.as_ref().map(|(_, floor)| *floor);
        let with_weights = recovered.map(|(weights, _)| Head { weights: Some(weights), ..head.clone() });
        let seen = with_weights.as_ref().unwrap_or(head);
        let mut evidence = Evidence::new(seen, contract, self.most_cells);
        if let Some(floor) = floor {
            evidence.precisions.floor = floor;
            evidence.precisions.smallest = 64.0 * floor;
        }
        let step = || match told {
            Told::Yes => self.steps.row(),
            Told::No => {}
        };
        let facts = seen.weights.as_ref().map(|_| survey(&evidence, model, &step));
        let sums = facts.as_deref().map(WeightSums::of);
        let explanation = match &facts {
            Some(facts) if !self.explained_elsewhere => {
                evidence.add_to_sample(rows_that_misfit(facts));
                let misfit = facts.iter().map(|row| row.misfit).fold(Misfit::NONE, Misfit::merge);
                Some(explain(&evidence, model, misfit, sums.as_ref()))
            }
            Some(_) => None,
            None => {
                let found = explain_output(&evidence, model, &likely_scales(&self.sizes), self.sizes.heads);
                // After dropout only that nothing was dropped can be told from the output.
                found.filter(|found| evidence.dropout.is_none() || found.contract_misfit.fits())
            }
        };
        // Weights that are recovered from an output are near 0 and not 0 where they were dropped.
        let explanation = explanation.filter(|found| {
            let unknown = floor.is_some() && evidence.dropout.is_some();
            !unknown || found.misfit.fits()
        });
        let context = HeadContext {
            contract,
            sizes: self.sizes,
            head: seen,
            evidence: &evidence,
            model,
            sums: sums.as_ref(),
            explanation: explanation.as_ref(),
            recovered: floor.is_some(),
            explained_elsewhere: self.explained_elsewhere,
        };
        let findings = head_findings(&context);
        let follows = explanation.as_ref().map(|found| {
            found.contract_misfit.fits() && found.causes.is_empty()
                || evidence.dropout.is_some() && matches!(found.causes[..], [Cause::Dropout { .. }])
        });
        // Rows without keys are not compared: what hides every key explains nothing.
        let hides_little = told == Told::Yes || empty_rows_are_few_and_even(&evidence);
        let follows = follows.map(|follows| follows && hides_little);
        let is_known = |found: &&Explanation| !found.causes.contains(&Cause::Unexplained);
        let is_explained = hides_little && explanation.as_ref().filter(is_known).is_some();
        let scaled = explanation.as_ref().filter(|found| found.causes.contains(&Cause::Scale));
        let shown = scaled.map_or(model, |found| &found.model);
        let control = self.control(&evidence, model.scale);
        let facts = facts.unwrap_or_else(|| survey_of_model(&evidence, shown));
        let fit = explanation.as_ref().and_then(|found| found.fit.as_ref());
        let summary = summarise(&evidence, shown, &facts, control).with_fit(model.scale, fit);
        Judged { findings, summary, follows, is_explained }
    }

    /// The control at the head's visible keys and scale, computed once for all heads that are alike.
    fn control(&mut self, evidence: &Evidence<'_>, scale: f64) -> Option<Control> {
        let counts = evidence.visible.visible_keys();
        if let Some((.., control)) = self.controls.iter().find(|(known, of, _)| *known == counts && *of == scale) {
            return *control;
        }
        let control = Control::new(&evidence.visible, self.sizes.width, scale);
        self.controls.push((counts, scale, control));
        control
    }
}

/// One head under one contract.
struct Judged {
    findings: Vec<Finding>,
    summary: HeadSummary,
    /// Whether weights or output are the contract's; `None` if there are none.
    follows: Option<bool>,
    /// Whether they are those of a known relative of the contract, or its own.
    is_explained: bool,
}

impl Judged {
    fn fails(&self) -> bool {
        self.findings.iter().any(|finding| finding.verdict == Verdict::Fail)
    }
}

/// Rows that a fit must not miss: the first and the last that leave the contract, and the one farthest from it.
fn rows_that_misfit(facts: &[RowFacts]) -> Vec<usize> {
    let leaves = |query: &usize| !facts[*query].misfit.fits();
    let worst = (0..facts.len()).max_by(|a, b| facts[*a].misfit.ratio.total_cmp(&facts[*b].misfit.ratio));
    let first = (0..facts.len()).find(leaves);
    first.into_iter().chain((0..facts.len()).rfind(leaves)).chain(first.and(worst)).collect()
}

/// Sums over batch and heads, if rows of the first head do not sum to 1 and there is an axis to sum over.
fn axis_sums(source: &dyn Source, first: &Head) -> Result<Option<(AxisSums, f64)>, String> {
    let (batches, heads) = (source.batches(), source.sizes().heads);
    let Some(weights) = &first.weights else { return Ok(None) };
    let roundoff = weights.storage.unit_roundoff();
    let sums = row_sums(weights);
    // Rows without keys are 0 by convention.
    let far = sums.iter().copied().filter(|sum| sum.is_finite() && *sum != 0.0);
    let row = far.max_by(|a, b| (a - 1.0).abs().total_cmp(&(b - 1.0).abs())).unwrap_or(1.0);
    if batches * heads == 0 || (row - 1.0).abs() <= 1e-6 + 16.0 * roundoff * (1.0 + (weights.columns as f64).sqrt()) {
        return Ok(None);
    }
    let rows = (AXIS_CELLS / weights.columns.max(1)).clamp(1, weights.rows.max(1));
    let cells = rows.min(weights.rows) * weights.columns;
    let (mut over_batch, mut over_heads) = (vec![vec![0.0; cells]; heads], vec![vec![0.0; cells]; batches]);
    for (batch, of_heads) in over_heads.iter_mut().enumerate() {
        for (head, of_batch) in over_batch.iter_mut().enumerate() {
            let Some(weights) = source.head(batch, head)?.weights else { return Ok(None) };
            let mut row = vec![0.0; weights.columns];
            for (query, start) in (0..cells).step_by(weights.columns.max(1)).enumerate() {
                weights.row(query, &mut row);
                for (key, weight) in row.iter().enumerate() {
                    of_batch[start + key] += weight;
                    of_heads[start + key] += weight;
                }
            }
        }
    }
    let farthest = |sums: &[Vec<f64>]| {
        // Cells without weight anywhere are masked.
        let cells = sums.iter().flatten().filter(|sum| **sum != 0.0);
        cells
            .map(|sum| (sum - 1.0).abs())
            .fold(0.0f64, |far, distance| if distance.is_nan() { f64::INFINITY } else { far.max(distance) })
    };
    let (batch, heads) = (farthest(&over_batch), farthest(&over_heads));
    Ok(Some((AxisSums { batch, heads, row }, roundoff)))
}
