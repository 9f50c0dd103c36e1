//! `attn complexity`: does attention cost what the law says?

use std::io::{self, Write};

use anyhow::{Result, bail};

use super::config::{self, Targets, option};
use super::deliver::{self, Delivered, Destinations};
use super::{ExitStatus, parse, simulate};
use crate::attention::{MaskRule, Precision};
use crate::cli::complexity::ComplexityArguments;
use crate::experiment::complexity::{self, Decode, Extent, Findings, Gate, Kernel, LayerWidths, Plan};
use crate::experiment::progress::Progress;
use crate::report::cost::{self, Closing};
use crate::report::json::Run;
use crate::report::plot::growth;
use crate::report::{Format, Verdict, csv, json};

/// Heads of a layer where none are given.
const USUAL_HEADS: usize = 8;

/// Runs the subcommand; `invocation` is what was typed, for the output.
///
/// # Errors
/// Wrong options, sizes that no machine holds, files that cannot be written.
pub fn run(arguments: &ComplexityArguments, invocation: &str) -> Result<ExitStatus> {
    refuse_options_of_trials(arguments)?;
    let plan = plan(arguments)?;
    let (targets, format) = Targets::of(&arguments.results)?;
    simulate::refuse_more_than_memory(plan.bytes(), || sizes_typed(arguments))?;
    let destinations = Destinations::open_targets(&targets)?;
    let pool = config::pool(Some(plan.threads))?;
    let progress = Progress::new(plan.budget, arguments.results.quiet);
    let findings = pool.install(|| complexity::run(&plan, &progress));
    progress.finish();
    let findings = findings?;
    let run = Run {
        command: "complexity".to_string(),
        invocation: invocation.to_string(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        seed: Some(plan.seed),
        remarks: findings.remarks.clone(),
    };
    let picture = || growth::draw(&findings.rows, &findings.lines);
    let render = |output: &mut dyn Write, terminal: bool| render(format, &run, &findings, terminal, output);
    if destinations.deliver_rendered(&targets, picture, render)? == Delivered::WithoutPicture {
        simulate::warn("--plot: a picture needs two sizes or more; no picture written");
    }
    Ok(exit_status(&findings))
}

fn render(format: Format, run: &Run, findings: &Findings, terminal: bool, output: &mut dyn Write) -> io::Result<()> {
    let closing = Closing { heading: findings.heading.clone(), remarks: findings.remarks.clone() };
    let layout = deliver::layout(terminal, deliver::FILE_WIDTH, None);
    match format {
        Format::Table => cost::write_table(&findings.rows, &closing, &layout, output),
        Format::Markdown => cost::write_markdown(&findings.rows, &closing, output),
        Format::Csv => csv::write(&findings.rows, output),
        Format::Json => json::write(run, &findings.rows, output),
    }
}

/// Times of different machines are no parts of one measurement.
fn refuse_options_of_trials(arguments: &ComplexityArguments) -> Result<()> {
    let ComplexityArguments { shard, per_trial, resume, .. } = arguments;
    for (name, value) in [("--shard", shard), ("--per-trial", per_trial), ("--resume", resume)] {
        if let Some(value) = value {
            bail!(
                "{name} {value}: complexity counts exactly and measures times on one machine: it has no trials to share out; run it whole"
            );
        }
    }
    Ok(())
}

fn exit_status(findings: &Findings) -> ExitStatus {
    let any = |verdict: Verdict| findings.rows.iter().any(|row| row.verdict == Some(verdict));
    match (any(Verdict::Rejected), any(Verdict::Undecided)) {
        (true, _) => ExitStatus::Rejected,
        (false, true) => ExitStatus::Undecided,
        (false, false) => ExitStatus::Upheld,
    }
}

fn sizes_typed(arguments: &ComplexityArguments) -> String {
    let keys = arguments.keys.as_ref().map(|keys| format!(" --keys {keys}")).unwrap_or_default();
    format!("--queries {}{keys} --dk {}", arguments.queries, arguments.dk)
}

fn plan(arguments: &ComplexityArguments) -> Result<Plan> {
    let one =
        |name: &str, text: &Option<String>| text.as_deref().map(|text| option(name, text, parse::one_size)).transpose();
    let plan = Plan {
        queries: option("--queries", &arguments.queries, parse::sizes)?,
        keys: one("--keys", &arguments.keys)?,
        widths: option("--dk", &arguments.dk, parse::sizes)?,
        value_width: one("--dv", &arguments.dv)?,
        rule: (arguments.mask.as_deref()).map(|text| option("--mask", text, str::parse::<MaskRule>)).transpose()?,
        precision: option("--precision", &arguments.precision, |text| match text.parse() {
            Ok(precision @ (Precision::F32 | Precision::F64)) => Ok(precision),
            _ => Err("must be f32 or f64".to_string()),
        })?,
        kernels: option("--kernel", &arguments.kernel, |text| match text {
            "both" => Ok(vec![Kernel::Materialised, Kernel::Streaming]),
            "materialised" => Ok(vec![Kernel::Materialised]),
            "streaming" => Ok(vec![Kernel::Streaming]),
            _ => Err("must be materialised, streaming or both".to_string()),
        })?,
        layer: layer(arguments)?,
        extent: if arguments.layer { Extent::Layer } else { Extent::Attention },
        decode: if arguments.cache { Decode::Cache } else { Decode::No },
        threads: config::threads(Some(&arguments.threads))?.unwrap_or(1),
        seed: option("--seed", &arguments.seed, parse::seed)?,
        budget: option("--time-budget", &arguments.time_budget, parse::seconds)?,
        gate: if arguments.gate_time { Gate::CountsAndTimes } else { Gate::Counts },
    };
    for point in plan.points() {
        plan.mask(point).map_err(|rule| anyhow::anyhow!("--mask {rule} (at n = {}, m = {})", point.n, point.m))?;
    }
    Ok(plan)
}

fn layer(arguments: &ComplexityArguments) -> Result<LayerWidths> {
    let ComplexityArguments { heads, kv_heads, d_model, d_ff, .. } = arguments;
    let typed = [("--heads", heads), ("--kv-heads", kv_heads), ("--d-model", d_model), ("--d-ff", d_ff)];
    let mut sizes = [None; 4];
    for ((name, text), size) in typed.into_iter().zip(&mut sizes) {
        let Some(text) = text else { continue };
        if !arguments.layer {
            bail!("{name} {text}: belongs to the layer around attention; add --layer, which counts it");
        }
        *size = Some(option(name, text, parse::one_size)?);
    }
    let heads = sizes[0].unwrap_or(USUAL_HEADS);
    let kv_heads = sizes[1].unwrap_or(heads);
    if !heads.is_multiple_of(kv_heads) {
        bail!("--kv-heads {kv_heads}: must divide --heads {heads}, so that every group of heads is alike");
    }
    Ok(LayerWidths { heads, kv_heads, d_model: sizes[2], d_ff: sizes[3] })
}
