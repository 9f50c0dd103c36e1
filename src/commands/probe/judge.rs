//! `attn probe judge`: answers held against the reference.

use std::io::Write;
use std::path::Path;

use anyhow::{Result, bail};

use super::ExitStatus;
use super::process::Completion;
use crate::cli::output::OutputArguments;
use crate::cli::probe::JudgeArguments;
use crate::commands::config::Targets;
use crate::commands::deliver::{Destinations, FILE_WIDTH, layout};
use crate::experiment::progress::Progress;
use crate::probe::answer::{self, About, Answer};
use crate::probe::bound::MULTIPLE;
use crate::probe::case::Case;
use crate::probe::judge::{CaseJudgement, Measured, Verdict, judge};
use crate::probe::manifest::{Manifest, read_case};
use crate::probe::together::{CapabilityJudgement, by_capability};
use crate::report::json::Run;
use crate::report::probe::{ProbeRow, write};
use crate::report::{Format, plot};

/// Where the judgement goes, opened before the work, so that an unwritable file is an error at once.
pub(super) struct Target {
    format: Format,
    targets: Targets,
    destinations: Destinations,
    quiet: bool,
}

impl Target {
    pub(super) fn open(typed: &OutputArguments) -> Result<Self> {
        let (targets, format) = Targets::of(typed)?;
        let destinations = Destinations::open_targets(&targets)?;
        Ok(Self { format, targets, destinations, quiet: typed.quiet })
    }

    fn deliver(self, run: &Run, rows: &[ProbeRow]) -> Result<()> {
        let conditions = format!("{} · attn {}", run.remarks.first().map_or("", String::as_str), run.version);
        let render = |output: &mut dyn Write, terminal: bool| {
            write(self.format, run, rows, &layout(terminal, FILE_WIDTH, None), output)
        };
        // A manifest without cases was refused, so there is a capability to draw.
        self.destinations.deliver_rendered(&self.targets, || plot::probe(rows, &conditions), render)?;
        Ok(())
    }
}

/// Judges the answers in the folder.
pub(super) fn run(typed: &JudgeArguments, invocation: &str) -> Result<ExitStatus> {
    let folder = Path::new(&typed.folder);
    let manifest = Manifest::read(folder)?;
    deliver(folder, &manifest, Target::open(&typed.results)?, invocation, Completion::AllAnswered)
}

/// Judges and delivers; `completion` says why cases have no answer.
pub(super) fn deliver(
    folder: &Path,
    manifest: &Manifest,
    target: Target,
    invocation: &str,
    completion: Completion,
) -> Result<ExitStatus> {
    if manifest.cases.is_empty() {
        bail!("{}: the manifest has no cases", folder.display());
    }
    let cases: Vec<Case> = manifest.cases.iter().map(|line| read_case(folder, line)).collect::<Result<_>>()?;
    let answers: Vec<Answer> = (manifest.cases.iter().zip(&cases))
        .map(|(line, case)| answer::read(folder, line, &case.inputs.shape()))
        .collect();
    let progress = Progress::new(cases.len() as f64, target.quiet);
    let mut judgements = judge(&cases, &answers, &|| progress.advance(1.0));
    progress.finish();
    let last = judgements.iter().rposition(|judgement| !judgement.is_missing);
    for (index, judgement) in judgements.iter_mut().enumerate().filter(|(_, judgement)| judgement.is_missing) {
        judgement.explanation = completion.reason(last.is_none_or(|last| index > last)).to_string();
    }
    let capabilities = by_capability(&judgements);
    // An answer that cannot be read is one; the reason that stands in place of one is not.
    let is_answered = manifest.cases.iter().zip(&judgements).any(|(line, judgement)| {
        let is_broken =
            || judgement.verdict == Verdict::Failed && answer::path_of(folder, line, "safetensors").exists();
        judgement.measured.is_some() || is_broken()
    });
    let mut remarks = remarks(folder, manifest);
    if !is_answered {
        remarks.push("no case was answered: nothing is decided".to_string());
    }
    let run = Run {
        command: "probe".to_string(),
        invocation: invocation.to_string(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        seed: Some(manifest.seed),
        remarks,
    };
    target.deliver(&run, &rows(&capabilities, &judgements))?;
    Ok(if is_answered { status(&judgements) } else { ExitStatus::Undecided })
}

fn remarks(folder: &Path, manifest: &Manifest) -> Vec<String> {
    let about = About::read(folder).map(|about| about.words()).filter(|words| !words.is_empty());
    let seed = format!("{} cases, seed {}", manifest.cases.len(), manifest.seed);
    let mut remarks = vec![about.map_or(seed.clone(), |about| format!("{about} · {seed}"))];
    let strangers = answer::strangers(folder, manifest);
    if let Some(first) = strangers.first() {
        let more = strangers.len() - 1;
        let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
        remarks.push(format!("out/{}{rest}: no case has this name, not looked at", first.escape_debug()));
    }
    remarks
}

/// 1 for anything wrong.
fn status(judgements: &[CaseJudgement]) -> ExitStatus {
    let wrong = judgements
        .iter()
        .any(|judgement| matches!(judgement.verdict, Verdict::Wrong | Verdict::Failed | Verdict::Nondeterministic));
    if wrong { ExitStatus::Rejected } else { ExitStatus::Upheld }
}

/// A row for each capability, followed by those of its cases.
fn rows(capabilities: &[CapabilityJudgement], judgements: &[CaseJudgement]) -> Vec<ProbeRow> {
    let mut rows = Vec::new();
    for capability in capabilities {
        let causes: Vec<&str> = capability.causes.iter().map(|cause| cause.name.as_str()).collect();
        let own = || judgements.iter().filter(|judgement| judgement.capability == capability.capability);
        let explanation = match capability.verdict {
            Verdict::Unsupported => own().next().map_or(String::new(), |judgement| judgement.explanation.clone()),
            Verdict::Right => {
                let unsupported = capability.counts.get(&Verdict::Unsupported).copied().unwrap_or(0);
                let lacking = (unsupported > 0).then(|| format!("{unsupported} unsupported"));
                lacking.into_iter().chain(capability.notes.iter().cloned()).collect::<Vec<_>>().join("; ")
            }
            Verdict::Failed if causes.is_empty() => {
                let failed = own().find(|judgement| judgement.verdict == Verdict::Failed);
                failed.map_or(String::new(), |judgement| judgement.explanation.clone())
            }
            _ => causes.join(", "),
        };
        rows.push(ProbeRow {
            capability: capability.capability.to_string(),
            verdict: capability.verdict.name().to_string(),
            ratio: capability.ratio.filter(|ratio| ratio.is_finite()),
            multiple: capability.ratio.map(|_| MULTIPLE),
            cause: causes.join(" "),
            explanation,
            version: env!("CARGO_PKG_VERSION").to_string(),
            ..ProbeRow::default()
        });
        rows.extend(own().map(row));
    }
    rows
}

fn row(judgement: &CaseJudgement) -> ProbeRow {
    let measured = judgement.measured.as_ref();
    let finite = |pick: fn(&Measured) -> f64| measured.map(pick).filter(|number| number.is_finite());
    let mut explanation = judgement.explanation.clone();
    for note in &judgement.notes {
        explanation = format!("{explanation}; {note}");
    }
    ProbeRow {
        capability: judgement.capability.to_string(),
        case: judgement.name.clone(),
        verdict: judgement.verdict.name().to_string(),
        array: measured.map_or(String::new(), |measured| measured.array.to_string()),
        error: finite(|measured| measured.error),
        bound: finite(|measured| measured.bound.largest()),
        ratio: finite(Measured::ratio),
        multiple: measured.map(|_| MULTIPLE),
        definition_error: finite(|measured| measured.bound.definition_error),
        cause: judgement.cause.as_ref().map_or(String::new(), |cause| cause.name.clone()),
        explanation,
        version: env!("CARGO_PKG_VERSION").to_string(),
    }
}
