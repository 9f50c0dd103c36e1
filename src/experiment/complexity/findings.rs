//! From evidence to rows.

use anyhow::Result;

use super::agreement::{self, Difference};
use super::growth::{self, Exponent, Size};
use super::plan::{Decode, Extent, Gate, Kernel, Plan, Point, Variable};
use super::remarks;
use super::timing::INTERVAL_ERROR;
use super::workload::Work;
use super::{Evidence, Timed};
use crate::report::plot::growth::FittedLine;
use crate::report::{CostRow, Verdict};
use crate::statistics::{MedianInterval, median};
use crate::theory::cost::{Decoding, HeadShape, cells, fully_connected};

/// Rows, and what is said about them.
#[derive(Debug, Clone)]
pub struct Findings {
    /// Costs, counts, exponents, checks.
    pub rows: Vec<CostRow>,
    /// What all rows share, in one line.
    pub heading: String,
    /// The law and what was seen of it, in sentences.
    pub remarks: Vec<String>,
    /// The fitted lines, for a picture.
    pub lines: Vec<FittedLine>,
}

/// A stage whose times are shown: its name, and the kernel it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) work: Work,
    pub(super) index: usize,
}

impl Stage {
    pub(super) fn name(self) -> &'static str {
        match (self.work, self.index) {
            (Work::Materialised, 0) => "qk",
            (Work::Materialised, 1) => "scale_softmax",
            (Work::Materialised, 2) => "pv",
            (Work::Materialised | Work::Streaming, _) => "total",
            (Work::CachedToken, _) => "cached_token",
            (Work::RecomputedToken, _) => "recomputed_token",
        }
    }

    pub(super) fn kernel(self) -> Kernel {
        if self.work == Work::Materialised { Kernel::Materialised } else { Kernel::Streaming }
    }

    /// Whether its row carries the kernel's peak memory.
    fn is_whole(self) -> bool {
        self.name() == "total"
    }
}

/// Puts everything into rows.
///
/// # Errors
/// Counts that do not fit.
pub(super) fn assemble(plan: &Plan, evidence: &Evidence) -> Result<Findings> {
    let table = Table { plan, evidence };
    let mut rows = Vec::new();
    let stages = table.stages();
    for &stage in &stages {
        let mut timed: Vec<&Timed> = evidence.timed.iter().filter(|timed| timed.work == stage.work).collect();
        timed.sort_by_key(|timed| (timed.point.n, timed.point.d_k));
        for timed in timed {
            rows.push(table.cost(stage, timed)?);
        }
    }
    rows.extend(table.counted()?);
    let mut lines = Vec::new();
    for variable in [Variable::Length, Variable::Width] {
        for &stage in &stages {
            let Some((row, line)) = table.growth(stage, variable)? else { continue };
            rows.push(row);
            lines.extend(line);
        }
    }
    rows.extend(table.checks());
    if plan.decode == Decode::Cache && plan.gate == Gate::CountsAndTimes {
        rows.extend(table.cache_saves_time());
    }
    let heading = remarks::heading(plan, evidence.clock);
    let remarks = remarks::remarks(plan, &rows)?;
    Ok(Findings { rows, heading, remarks, lines })
}

struct Table<'a> {
    plan: &'a Plan,
    evidence: &'a Evidence,
}

impl Table<'_> {
    /// The stages that were timed, in the order of the table.
    fn stages(&self) -> Vec<Stage> {
        let mut stages = Vec::new();
        for timed in &self.evidence.timed {
            for index in 0..timed.stages.len() {
                let stage = Stage { work: timed.work, index };
                if !stages.contains(&stage) {
                    stages.push(stage);
                }
            }
        }
        stages
    }

    fn row(&self, stage: &str, point: Option<Point>) -> CostRow {
        let size = |of: fn(Point) -> usize| point.map(|point| of(point) as u64);
        CostRow {
            command: "complexity".to_string(),
            stage: stage.to_string(),
            n: size(|point| point.n),
            m: size(|point| point.m),
            d_k: size(|point| point.d_k),
            d_v: size(|point| point.d_v),
            mask: self.plan.rule.as_ref().map(|rule| {
                let (n, m) = point.map_or((1, self.plan.keys.unwrap_or(1)), |point| (point.n, point.m));
                rule.name(n, m)
            }),
            precision: Some(self.plan.precision.to_string()),
            threads: Some(self.plan.threads as u64),
            seed: Some(self.plan.seed),
            version: env!("CARGO_PKG_VERSION").to_string(),
            ..CostRow::default()
        }
    }

    /// Operations of a stage at a point, one head.
    fn operations(&self, stage: Stage, point: Point) -> Result<u128> {
        let shape = HeadShape { heads: 1, d_k: point.d_k as u128, d_v: point.d_v as u128 };
        let n = point.n as u128;
        if stage.work == Work::CachedToken {
            return Ok(shape.cost(n)?.total()?);
        }
        if stage.work == Work::RecomputedToken {
            return Ok(shape.cost(cells::causal(n, n, 0)?)?.total()?);
        }
        let found = self.evidence.checked.iter().find(|checked| checked.point == point);
        let formula = match found {
            Some(checked) => checked.counts.formula,
            None => shape.cost(cells::full(n, point.m as u128)?)?,
        };
        Ok(match stage.name() {
            "qk" => formula.qk,
            "scale_softmax" => formula.scale_softmax,
            "pv" => formula.pv,
            _ => formula.total()?,
        })
    }

    fn cost(&self, stage: Stage, timed: &Timed) -> Result<CostRow> {
        let operations = self.operations(stage, timed.point)?;
        let samples = &timed.stages[stage.index];
        let time = median(samples, INTERVAL_ERROR);
        let bytes = self.bytes(stage, timed.point);
        let row = self.row(stage.name(), Some(timed.point));
        Ok(CostRow {
            operations: Some(operations),
            bytes,
            bytes_law: bytes.map(|_| self.bytes_law(stage.kernel(), timed.point)),
            seconds: time.map(|time| time.median),
            seconds_low: time.and_then(|time| time.low),
            seconds_high: time.and_then(|time| time.high),
            operations_per_second: time.map(|time| operations as f64 / time.median),
            verdict: Some(Verdict::Measured),
            kernel: Some(stage.kernel().name().to_string()),
            mask: match stage.work {
                Work::RecomputedToken => Some("causal".to_string()),
                Work::CachedToken => None,
                _ => row.mask,
            },
            n: if stage.work == Work::CachedToken { Some(1) } else { row.n },
            heads: Some(1),
            kv_heads: Some(1),
            repetitions: Some(samples.len() as u64),
            clock: Some(self.evidence.clock.name().to_string()),
            ..self.row(stage.name(), Some(timed.point))
        })
    }

    fn bytes(&self, stage: Stage, point: Point) -> Option<u64> {
        let checked = self.evidence.checked.iter().find(|checked| checked.point == point)?;
        let (_, bytes) = checked.bytes.iter().find(|(kernel, _)| stage.is_whole() && *kernel == stage.kernel())?;
        *bytes
    }

    /// n·m numbers for the logits, or m·(d_k + d_v) + n·d_v for packed keys and values and the output.
    fn bytes_law(&self, kernel: Kernel, point: Point) -> u64 {
        let Point { n, m, d_k, d_v } = point;
        let numbers = match kernel {
            Kernel::Materialised => n as u64 * m as u64,
            Kernel::Streaming => m as u64 * (d_k as u64 + d_v as u64) + n as u64 * d_v as u64,
        };
        numbers * self.plan.width_of_number() as u64
    }

    /// What is counted and not run: the layer, and decoding a token in it.
    fn counted(&self) -> Result<Vec<CostRow>> {
        let mut rows = Vec::new();
        if self.plan.extent == Extent::Layer {
            for point in self.plan.sweep(Variable::Length) {
                let layer = self.plan.layer.at(point);
                let visible = super::counts::visible_cells(self.plan.mask(point).ok().flatten().as_ref(), point);
                let cost = layer.cost(visible)?;
                let connected = fully_connected(layer.queries, layer.keys, layer.d_model)?;
                let parts = [
                    ("projections", cost.projections),
                    ("attention", cost.attention.total()?),
                    ("mlp", cost.mlp),
                    ("activation", cost.activation),
                    ("layer_norm", cost.layer_norm),
                    ("residual", cost.residual),
                    ("layer", cost.total()?),
                    ("fully_connected", connected),
                ];
                rows.extend(parts.map(|(part, operations)| self.count(part, point, operations)));
            }
        }
        if self.plan.extent == Extent::Layer && self.plan.decode == Decode::Cache {
            for point in self.plan.sweep(Variable::Length) {
                let square = Point { m: point.n, ..point };
                let token = Decoding { layer: self.plan.layer.at(square) }.token(point.n as u128)?;
                rows.push(self.count("cached_token_layer", Point { n: 1, ..square }, token.cached_layer.total()?));
                rows.push(self.count("recomputed_token_layer", square, token.recomputed_layer.total()?));
            }
        }
        Ok(rows)
    }

    fn count(&self, part: &str, point: Point, operations: u128) -> CostRow {
        CostRow {
            operations: Some(operations),
            heads: Some(self.plan.layer.heads as u64),
            kv_heads: Some(self.plan.layer.kv_heads as u64),
            threads: None,
            ..self.row(part, Some(point))
        }
    }

    /// The exponent of a stage in one size; None where the sweep has one size only.
    fn growth(&self, stage: Stage, variable: Variable) -> Result<Option<(CostRow, Option<FittedLine>)>> {
        let is_token = matches!(stage.work, Work::CachedToken | Work::RecomputedToken);
        let points = self.plan.sweep(variable);
        if points.len() < 2 || (is_token && variable == Variable::Width) {
            return Ok(None);
        }
        let mut sizes = Vec::new();
        for point in points {
            let square = if is_token { Point { m: point.n, ..point } } else { point };
            let timed = self.evidence.timed.iter().find(|timed| timed.work == stage.work && timed.point == square);
            let time = timed.and_then(|timed| median(&timed.stages[stage.index], INTERVAL_ERROR));
            let Some(time) = time else { continue };
            let x = variable.of(point) as f64;
            let overhead = timed.map_or(0.0, |timed| timed.overhead[stage.index]);
            sizes.push(Size { x, operations: self.operations(stage, square)? as f64, overhead, time });
        }
        let fitted = growth::dominated_by_work(&sizes);
        let found = growth::fit(&fitted);
        let line = found.map(|found| FittedLine {
            stage: stage.name().to_string(),
            kernel: Some(stage.kernel().name().to_string()),
            of: variable.symbol().to_string(),
            intercept: found.intercept,
            exponent: found.exponent,
            range: (
                fitted.iter().map(|size| size.x).fold(f64::INFINITY, f64::min),
                fitted.iter().map(|size| size.x).fold(0.0, f64::max),
            ),
        });
        let row = CostRow {
            exponent_of: Some(variable.symbol().to_string()),
            exponent: found.map(|found| found.exponent),
            exponent_low: found.and_then(|found| found.limits).map(|(low, _)| low),
            exponent_high: found.and_then(|found| found.limits).map(|(_, high)| high),
            exponent_expected: found.map(|found| found.expected).or_else(|| expected_of_all(&sizes)),
            expected_inside: found.and_then(|found| found.expected_inside()),
            sizes_fitted: Some(fitted.len() as u64),
            verdict: Some(self.verdict(found.as_ref())),
            kernel: Some(stage.kernel().name().to_string()),
            n: (variable == Variable::Width).then_some(self.plan.largest_length() as u64),
            d_k: (variable == Variable::Length).then_some(self.plan.largest_width() as u64),
            heads: Some(1),
            kv_heads: Some(1),
            ..self.row(stage.name(), None)
        };
        Ok(Some((row, line)))
    }

    fn verdict(&self, found: Option<&Exponent>) -> Verdict {
        match (self.plan.gate, found.and_then(Exponent::expected_inside)) {
            (Gate::Counts, _) => Verdict::Measured,
            (Gate::CountsAndTimes, Some(true)) => Verdict::Upheld,
            (Gate::CountsAndTimes, Some(false)) => Verdict::Rejected,
            (Gate::CountsAndTimes, None) => Verdict::Undecided,
        }
    }

    fn checks(&self) -> Vec<CostRow> {
        let mut rows = Vec::new();
        for checked in &self.evidence.checked {
            let formula = checked.counts.formula.total().ok();
            let difference = formula.map(|formula| formula.abs_diff(checked.counts.counted) as f64);
            rows.push(CostRow {
                operations: formula,
                difference,
                bound: Some(0.0),
                verdict: Some(if difference == Some(0.0) { Verdict::Upheld } else { Verdict::Rejected }),
                threads: None,
                ..self.row("counts", Some(checked.point))
            });
            for (kernel, found) in &checked.outputs {
                rows.push(self.output_check(checked.point, *kernel, found));
            }
        }
        rows
    }

    fn output_check(&self, point: Point, kernel: Option<Kernel>, found: &Difference) -> CostRow {
        CostRow {
            difference: Some(found.difference),
            bound: Some(found.bound),
            verdict: Some(if found.is_explained() { Verdict::Upheld } else { Verdict::Rejected }),
            kernel: kernel.map(|kernel| kernel.name().to_string()),
            ..self.row(agreement::name(kernel), Some(point))
        }
    }

    /// At the longest sequence a token with a cache must not take longer than one without: the ratio of the upper limit of the
    /// one to the lower limit of the other is at most 1.
    fn cache_saves_time(&self) -> Option<CostRow> {
        let longest = self.plan.largest_length();
        let time = |work: Work| -> Option<MedianInterval> {
            let timed = self.evidence.timed.iter().find(|timed| timed.work == work && timed.point.n == longest)?;
            median(&timed.stages[0], INTERVAL_ERROR)
        };
        let (cached, recomputed) = (time(Work::CachedToken)?, time(Work::RecomputedToken)?);
        let ratio = cached.high.zip(recomputed.low).map(|(cached, recomputed)| cached / recomputed);
        let point = self.plan.sweep(Variable::Length).last().copied()?;
        Some(CostRow {
            difference: ratio,
            bound: Some(1.0),
            verdict: Some(match ratio {
                Some(ratio) if ratio <= 1.0 => Verdict::Upheld,
                Some(_) => Verdict::Rejected,
                None => Verdict::Undecided,
            }),
            mask: Some("causal".to_string()),
            ..self.row("cache_saves_time", Some(Point { m: point.n, ..point }))
        })
    }
}

/// The exponent of the counts over all sizes, where no time could be fitted.
fn expected_of_all(sizes: &[Size]) -> Option<f64> {
    let counts: Vec<Size> = sizes.iter().map(|size| Size { overhead: 0.0, ..*size }).collect();
    growth::fit(&counts).map(|fit| fit.expected)
}
