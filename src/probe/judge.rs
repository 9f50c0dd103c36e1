//! The judgement: each case, each capability, and what causes have in common.

use std::collections::BTreeSet;

use rayon::prelude::*;

use super::answer::{Answer, AnswerArray};
use super::attend::Outcome;
use super::behaviour::{Behaviour, right};
use super::bound::{Bound, bound, largest_error};
use super::case::{Block, Capability, Case};
use super::empty_rows::{self, Convention};
use super::fault::{Seen, explain, explain_dropout, explain_offset, explain_rounding, is_without_numbers};
use super::reference::{Yardstick, same_precision, yardstick};
use super::suspects::Cause;
use super::together::{answers_without_numbers, differences, repetitions};
use crate::attention::Alignment;
use crate::diagnosis::matrix::Storage;

/// What an answer came to, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Out of the bound.
    Wrong,
    /// No answer, or one that cannot be read.
    Failed,
    /// Within the bound, but the same case gave other bits.
    Nondeterministic,
    /// Within the bound.
    Right,
    /// The implementation does not do it.
    Unsupported,
}

impl Verdict {
    /// Its name in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wrong => "wrong",
            Self::Failed => "failed",
            Self::Nondeterministic => "nondeterministic",
            Self::Right => "right",
            Self::Unsupported => "unsupported",
        }
    }
}

/// The array of an answer that decides: the one farthest from its right values in units of its bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Its name.
    pub array: &'static str,
    /// The largest error; infinite where a number is none.
    pub error: f64,
    /// Its bound.
    pub bound: Bound,
    /// Batch entry, head, row and column of the largest error.
    pub place: [usize; 4],
    /// What the answer has there.
    pub found: f64,
    /// What it should be.
    pub expected: f64,
}

impl Measured {
    /// The error in units of that of the same-precision definition.
    pub fn ratio(&self) -> f64 {
        if self.error == 0.0 { 0.0 } else { self.error / self.bound.unit() }
    }
}

/// What became of one case.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseJudgement {
    /// Its name.
    pub name: String,
    /// Its capability.
    pub capability: Capability,
    /// The verdict.
    pub verdict: Verdict,
    /// The array that decides, where there are arrays.
    pub measured: Option<Measured>,
    /// Why it is wrong.
    pub cause: Option<Cause>,
    /// Where not one number of the answer is finite: every cause that gives none here. It takes other cases to choose among them.
    pub possible: Option<Vec<Cause>>,
    /// In words.
    pub explanation: String,
    /// Conventions that were recognised.
    pub notes: Vec<String>,
    /// Whether there was no answer at all.
    pub is_missing: bool,
}

/// Judges every case; `answers` are in the order of `cases`. `progress` hears of each case that is done.
pub fn judge(cases: &[Case], answers: &[Answer], progress: &(dyn Fn() + Sync)) -> Vec<CaseJudgement> {
    // Every suspect costs as much as the case, and large ones show nothing that small ones do not: what those found is tried on them.
    let of = |large: bool, names: Option<&BTreeSet<String>>| -> Vec<(usize, CaseJudgement)> {
        (cases.par_iter().zip(answers).enumerate())
            .filter(|(_, (case, _))| (work(case) > LARGE) == large)
            .map(|(index, (case, answer))| {
                let judgement = judge_knowing(case, answer, names);
                progress();
                (index, judgement)
            })
            .collect()
    };
    let mut judged = of(false, None);
    let names: BTreeSet<String> =
        judged.iter().filter_map(|(_, judgement)| Some(judgement.cause.as_ref()?.name.clone())).collect();
    judged.extend(of(true, (!judged.is_empty()).then_some(&names)));
    judged.sort_by_key(|(index, _)| *index);
    let mut judgements: Vec<CaseJudgement> = judged.into_iter().map(|(_, judgement)| judgement).collect();
    answers_without_numbers(&mut judgements);
    repetitions(cases, answers, &mut judgements);
    differences(&mut judgements);
    judgements
}

/// Multiply-adds from which a case is large.
const LARGE: usize = 1 << 19;

/// Multiply-adds of a case.
fn work(case: &Case) -> usize {
    let shape = case.inputs.shape();
    shape.batches * shape.heads * shape.queries * shape.keys * (shape.width + shape.value_width)
}

/// Judges one case by itself.
pub fn judge_case(case: &Case, answer: &Answer) -> CaseJudgement {
    judge_knowing(case, answer, None)
}

/// Judges one case; only causes of these names are looked for.
fn judge_knowing(case: &Case, answer: &Answer, names: Option<&BTreeSet<String>>) -> CaseJudgement {
    let without = |verdict: Verdict, explanation: &str, is_missing: bool| CaseJudgement {
        name: case.name.clone(),
        capability: case.capability,
        verdict,
        measured: None,
        cause: None,
        possible: None,
        explanation: explanation.to_string(),
        notes: Vec::new(),
        is_missing,
    };
    match answer {
        Answer::Missing => without(Verdict::Failed, "no answer", true),
        Answer::Failed(reason) => without(Verdict::Failed, reason, false),
        Answer::Unsupported(reason) => without(Verdict::Unsupported, reason, false),
        Answer::Arrays(arrays) => match lacking(case, answer) {
            Some(what) => without(Verdict::Unsupported, &what, false),
            None => judge_arrays(case, arrays, names),
        },
    }
}

/// An array that the case is about and that the answer lacks.
fn lacking(case: &Case, answer: &Answer) -> Option<String> {
    let wanted: &[&str] = match case.capability {
        Capability::LogSumExp => &["lse"],
        Capability::Gradients => &["dq", "dk", "dv"],
        _ => &[],
    };
    let missing: Vec<&str> = wanted.iter().copied().filter(|name| answer.array(name).is_none()).collect();
    (!missing.is_empty()).then(|| format!("the answer holds no {}", missing.join(", ")))
}

/// The arrays under one right behaviour.
struct Trial {
    behaviour: Behaviour,
    yardstick: Yardstick,
    measured: Vec<Measured>,
}

impl Trial {
    fn new(case: &Case, behaviour: Behaviour, arrays: &[(&'static str, AnswerArray)]) -> Self {
        let yardstick = yardstick(case, &behaviour);
        let definition = same_precision(case, &behaviour);
        // A fault of the logarithm alone is one of that capability, not of all.
        let judged = arrays.iter().filter(|(name, _)| *name != "lse" || case.capability == Capability::LogSumExp);
        let measured = judged.filter_map(|(name, array)| measure(case, &yardstick, &definition, name, array));
        let measured = measured.collect();
        Self { behaviour, yardstick, measured }
    }

    /// The array farthest from its bound.
    fn worst(&self) -> Option<&Measured> {
        self.measured.iter().max_by(|a, b| a.ratio().total_cmp(&b.ratio()))
    }

    fn ratio(&self) -> f64 {
        self.worst().map_or(0.0, Measured::ratio)
    }
}

fn measure(
    case: &Case,
    yardstick: &Yardstick,
    definition: &Outcome,
    name: &'static str,
    array: &AnswerArray,
) -> Option<Measured> {
    let expected = yardstick.values.array(name)?;
    let bound = bound(case, yardstick, definition, name)?;
    let (error, index) = largest_error(name, &array.block, expected, &yardstick.sees);
    let [_, heads, rows, columns] = array.block.shape;
    let place =
        [index / columns / rows / heads, index / columns / rows % heads, index / columns % rows, index % columns];
    let (found, expected) = (array.block.numbers[index], expected.numbers[index]);
    Some(Measured { array: name, error, bound, place, found, expected })
}

fn judge_arrays(
    case: &Case,
    arrays: &[(&'static str, AnswerArray)],
    names: Option<&BTreeSet<String>>,
) -> CaseJudgement {
    let trials: Vec<Trial> = right(case).into_iter().map(|behaviour| Trial::new(case, behaviour, arrays)).collect();
    let several = trials.len() > 1;
    let nearest = trials.iter().min_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    let Some(trial) = nearest else { unreachable!("every case has a right behaviour") };
    let mut notes = Vec::new();
    let seen: Vec<Seen<'_>> = (trial.measured.iter())
        .filter_map(|measured| {
            let array = arrays.iter().find(|(name, _)| *name == measured.array)?;
            Some(Seen {
                name: measured.array,
                found: &array.1.block,
                error: measured.error,
                bound: measured.bound.largest(),
            })
        })
        .collect();
    let wrong: Vec<Seen<'_>> = seen.iter().filter(|array| array.is_wrong()).copied().collect();
    let mut measured = trial.worst().copied();
    let (mut verdict, mut cause, mut possible) = (Verdict::Right, None, None);
    let mut explanation = measured.as_ref().map_or(String::new(), right_words);
    if let Some(worst) = wrong.iter().max_by(|a, b| (a.error / a.bound).total_cmp(&(b.error / b.bound))) {
        measured = trial.measured.iter().find(|measured| measured.array == worst.name).copied();
        verdict = Verdict::Wrong;
        let explained = explain(case, &trial.behaviour, &seen, &trial.yardstick.sees, names);
        possible = is_without_numbers(&seen, &trial.yardstick.sees).then_some(explained.all);
        // What has no numbers tells nothing but that.
        let unlisted = || match &possible {
            Some(_) => not_finite(&wrong),
            None => unlisted_cause(case, trial, arrays, &wrong),
        };
        cause = explained.best.or_else(unlisted);
        // 0·NaN is NaN in the definition too: who wants it left out must know, but it breaks no promise.
        if case.capability == Capability::HiddenNan && cause.as_ref().is_some_and(|cause| cause.name == "hidden-nan") {
            verdict = Verdict::Unsupported;
        }
        explanation = measured.as_ref().map_or(String::new(), wrong_words);
        if let Some(cause) = &cause {
            explanation = format!("{}; {explanation}", cause.words);
        }
    } else if several {
        notes.push(match trial.behaviour.alignment {
            Alignment::TopLeft => "causal is top-left: query i stands at key i".to_string(),
            Alignment::BottomRight => "causal is bottom-right: the last query stands at the last key".to_string(),
        });
    }
    if trial.yardstick.sees.numbers.contains(&0.0)
        && let Some((_, output)) = arrays.iter().find(|(name, _)| *name == "o")
    {
        let (conventions, first_wrong) = empty_rows::conventions(case, output, &trial.yardstick.sees);
        let names: Vec<&str> = conventions.iter().map(|convention| convention.words()).collect();
        if let Some(place) = first_wrong {
            if verdict == Verdict::Right {
                verdict = Verdict::Wrong;
                let convention = conventions.iter().find(|convention| **convention == Convention::AsUnmasked);
                cause = Some(Cause::new("empty-rows", convention.unwrap_or(&Convention::Other).words()));
                explanation = format!(
                    "a query that sees no key gives zeros, NaN or the mean of V; batch {}, head {}, row {} has something else",
                    place[0], place[1], place[2]
                );
            }
        } else {
            notes.push(format!("queries that see no key give {}", names.join(" and ")));
        }
    }
    CaseJudgement {
        name: case.name.clone(),
        capability: case.capability,
        verdict,
        measured,
        cause,
        possible,
        explanation,
        notes,
        is_missing: false,
    }
}

fn right_words(measured: &Measured) -> String {
    format!("error {:.2e}, {:.2} times that of the definition in this type", measured.error, measured.ratio())
}

pub(super) fn wrong_words(measured: &Measured) -> String {
    let [batch, head, row, column] = measured.place;
    let place = match measured.array {
        "lse" => format!("batch {batch}, head {head}, row {column}"),
        _ => format!("batch {batch}, head {head}, row {row}, column {column}"),
    };
    format!("{} at {place} is {}, should be {}", measured.array, shown(measured.found), shown(measured.expected))
}

fn shown(number: f64) -> String {
    if number == 0.0 || (number.is_finite() && (1e-3..1e6).contains(&number.abs())) {
        format!("{number:.6}")
    } else {
        format!("{number:.5e}")
    }
}

/// Why arrays are wrong that no suspect gives.
fn unlisted_cause(
    case: &Case,
    trial: &Trial,
    arrays: &[(&'static str, AnswerArray)],
    wrong: &[Seen<'_>],
) -> Option<Cause> {
    let narrow = arrays.iter().find(|(name, array)| {
        wrong.iter().any(|wrong| wrong.name == *name) && roundoff(array.storage) > roundoff(case.storage)
    });
    let sees = &trial.yardstick.sees;
    if let [Seen { name: "lse", found, bound, .. }] = wrong
        && let Some(cause) = explain_offset(found, &trial.yardstick.values.log_sum_exp, sees, *bound)
    {
        return Some(cause);
    }
    if let Some((name, array)) = narrow {
        let fits = wrong.iter().all(|wrong| {
            let size = trial.yardstick.values.array(wrong.name).map_or(0.0, largest_size);
            wrong.error <= 64.0 * roundoff(array.storage) * size
        });
        if fits {
            return Some(Cause::new(
                "precision",
                format!("{name} is stored in {}, which is narrower than {}", array.storage.name(), case.storage.name()),
            ));
        }
    }
    if let Some((weights, expected)) = weights_of(case, arrays, &trial.yardstick.values)
        && let Some(cause) = explain_dropout(weights, expected, sees)
    {
        return Some(cause);
    }
    explain_rounding(case, &trial.behaviour, wrong, &trial.yardstick.values, sees)
        .or_else(|| super::audited::explain(case, arrays))
        .or_else(|| not_finite(wrong))
}

fn not_finite(wrong: &[Seen<'_>]) -> Option<Cause> {
    let broken = wrong.iter().find(|array| !array.error.is_finite())?;
    let count = broken.found.numbers.iter().filter(|number| !number.is_finite()).count();
    Some(Cause::new(
        "not-finite",
        format!("{count} of {} numbers of {} are NaN or infinite", broken.found.numbers.len(), broken.name),
    ))
}

fn roundoff(storage: Storage) -> f64 {
    storage.unit_roundoff()
}

fn largest_size(block: &Block) -> f64 {
    block.numbers.iter().copied().filter(|number| number.is_finite()).fold(0.0, |size, number| size.max(number.abs()))
}

/// The weights of an answer, given or as the output of V = 1, beside the right ones.
fn weights_of<'a>(
    case: &Case,
    arrays: &'a [(&'static str, AnswerArray)],
    values: &'a Outcome,
) -> Option<(&'a Block, &'a Block)> {
    let array = |name: &str| arrays.iter().find(|(own, _)| *own == name).map(|(_, array)| &array.block);
    let of_output = || case.inputs.output_is_weights().then(|| array("o")).flatten();
    array("weights").or_else(of_output).map(|found| (found, &values.weights))
}
