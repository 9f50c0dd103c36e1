//! What only several cases together show: other bits for the same case, causes by comparison, and the verdict of a capability.

use std::collections::BTreeMap;

use super::answer::Answer;
use super::case::{Capability, Case};
use super::fault::LARGE_ERRORS;
use super::judge::{CaseJudgement, Measured, Verdict, wrong_words};
use super::suspects::{Cause, WEIGHTS_ROUNDED};

/// Cases that must give the same bits as another.
pub(super) fn repetitions(cases: &[Case], answers: &[Answer], judgements: &mut [CaseJudgement]) {
    for (index, case) in cases.iter().enumerate() {
        let Some(first) = case.same_as.as_ref().and_then(|name| cases.iter().position(|other| other.name == *name))
        else {
            continue;
        };
        let (Answer::Arrays(here), Answer::Arrays(_)) = (&answers[index], &answers[first]) else { continue };
        let mut largest: Option<(&str, f64, usize)> = None;
        for (name, array) in here {
            let Some(other) = answers[first].array(name) else { continue };
            let differ =
                (array.block.numbers.iter().zip(&other.block.numbers)).filter(|(a, b)| a.to_bits() != b.to_bits());
            let (mut count, mut far) = (0, 0.0f64);
            for (a, b) in differ {
                count += 1;
                far = if (a - b).is_nan() { f64::INFINITY } else { far.max((a - b).abs()) };
            }
            if count > 0 && largest.is_none_or(|(_, known, _)| far > known) {
                largest = Some((name, far, count));
            }
        }
        let Some((name, far, count)) = largest else { continue };
        let both_right = [index, first].iter().all(|&index| judgements[index].verdict == Verdict::Right);
        let words = format!("{count} numbers of {name} differ from those of {}, by up to {far:.2e}", cases[first].name);
        let judgement = &mut judgements[index];
        if both_right {
            judgement.verdict = Verdict::Nondeterministic;
        }
        if judgement.verdict != Verdict::Wrong || judgement.cause.as_ref().is_none_or(|cause| cause.name != "dropout") {
            judgement.cause = Some(Cause::new("nondeterministic", "the same case gave other bits the second time"));
        }
        judgement.explanation = format!("{words}; {}", judgement.explanation);
    }
}

/// Chooses the cause of answers without one finite number, which any cause that gives none would explain: one that another case proves by its
/// numbers, else the one that explains most of them. Where one of them has no possible cause, the implementation gives no numbers whatever
/// it is asked, and causes that need large logits are not proved.
pub(super) fn answers_without_numbers(judgements: &mut [CaseJudgement]) {
    let wrong = |judgement: &&CaseJudgement| judgement.verdict == Verdict::Wrong;
    let always =
        judgements.iter().filter(wrong).any(|judgement| judgement.possible.as_ref().is_some_and(Vec::is_empty));
    let mut support: BTreeMap<String, (bool, usize)> = BTreeMap::new();
    for judgement in judgements.iter().filter(wrong) {
        match (&judgement.possible, &judgement.cause) {
            (Some(possible), _) => {
                possible.iter().for_each(|cause| support.entry(cause.name.clone()).or_default().1 += 1);
            }
            (None, Some(cause)) => support.entry(cause.name.clone()).or_default().0 = true,
            (None, None) => {}
        }
    }
    let known = |cause: &Cause| support.get(&cause.name).copied().unwrap_or_default();
    for judgement in judgements.iter_mut().filter(|judgement| judgement.verdict == Verdict::Wrong) {
        let Some(possible) = &judgement.possible else { continue };
        // Of equals the first of the list.
        let chosen = possible.iter().rev().max_by_key(|cause| known(cause));
        let chosen = match chosen {
            Some(cause) if !always || known(cause).0 => cause.clone(),
            Some(_) => Cause::new("not-finite", "not told from this case; other cases give no numbers either"),
            None => continue,
        };
        let place = judgement.measured.as_ref().map_or(String::new(), wrong_words);
        judgement.explanation = format!("{}; {place}", chosen.words);
        judgement.cause = Some(chosen);
    }
}

/// Causes that only the comparison of cases shows.
pub(super) fn differences(judgements: &mut [CaseJudgement]) {
    let verdict = |judgements: &[CaseJudgement], name: &str| {
        judgements.iter().find(|judgement| judgement.name == name).map(|judgement| judgement.verdict)
    };
    let alone = verdict(judgements, "batch-independence-entry") == Some(Verdict::Right);
    let ordered = verdict(judgements, "permutation-base") == Some(Verdict::Right);
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    // What breaks no promise (`hidden-nan`) explains nothing elsewhere.
    let wrong = judgements.iter().filter(|judgement| judgement.verdict != Verdict::Unsupported);
    for cause in wrong.filter_map(|judgement| judgement.cause.as_ref()) {
        *known.entry(cause.name.clone()).or_default() += 1;
    }
    let shaky = judgements.iter().any(|judgement| {
        judgement.verdict == Verdict::Wrong
            && judgement.cause.as_ref().is_some_and(|cause| cause.name == "nondeterministic")
    });
    if shaky {
        // Numbers that change from call to call look like coarse rounding in each case alone.
        known.insert("nondeterministic".to_string(), usize::MAX);
    }
    // Where a weight lies next to the middle between two numbers of the narrow type, its rounding cannot be foretold.
    let of_precision = |judgement: &CaseJudgement, start: &str| {
        judgement.cause.as_ref().is_some_and(|cause| cause.name == "precision" && cause.words.starts_with(start))
    };
    let proved = judgements.iter().find(|judgement| of_precision(judgement, WEIGHTS_ROUNDED));
    if let Some(cause) = proved.and_then(|judgement| judgement.cause.clone()) {
        let vague = |judgement: &&mut CaseJudgement| of_precision(judgement, LARGE_ERRORS);
        for judgement in judgements.iter_mut().filter(vague) {
            let words = format!("not told from this case; in other cases {}", cause.words);
            let place = judgement.measured.as_ref().map_or(String::new(), wrong_words);
            judgement.explanation = format!("{words}; {place}");
            judgement.cause = Some(Cause::new("precision", words));
        }
    }
    let differs = judgements.iter().any(|judgement| judgement.verdict == Verdict::Nondeterministic);
    if differs && !shaky {
        // Noise within the bound of one type is beyond that of a wider one, and there as large as rounding to the narrower.
        let vague = |judgement: &&mut CaseJudgement| of_precision(judgement, LARGE_ERRORS);
        for judgement in judgements.iter_mut().filter(vague) {
            if let Some(cause) = &mut judgement.cause {
                let place = judgement.measured.as_ref().map_or(String::new(), wrong_words);
                cause.words.push_str(", or noise: a case that is asked twice gives other bits each time");
                judgement.explanation = format!("{}; {place}", cause.words);
            }
        }
    }
    let most = known.into_iter().max_by_key(|(_, count)| *count).map(|(name, _)| name);
    for judgement in judgements.iter_mut() {
        let vague = judgement.cause.as_ref().is_some_and(|cause| cause.name == "precision");
        if shaky && vague {
            judgement.cause = Some(Cause::new(
                "nondeterministic",
                "not told from this case; the same case gives other bits each time",
            ));
        }
        if judgement.verdict != Verdict::Wrong || judgement.cause.is_some() {
            continue;
        }
        let cause = match judgement.capability {
            Capability::BatchIndependence if alone => {
                Cause::new("batch", "an entry alone is right, among others it is not: batch entries mix")
            }
            Capability::Permutation if ordered => Cause::new(
                "order",
                "the order of keys or queries changes the result: something depends on the position",
            ),
            _ => match &most {
                Some(name) => Cause::new(name, format!("not told from this case; other cases show {name}")),
                None => Cause::new("unexplained", "none of the known causes gives these numbers"),
            },
        };
        judgement.explanation = format!("{}; {}", cause.words, judgement.explanation);
        judgement.cause = Some(cause);
    }
}

/// A capability's cases together.
#[derive(Debug, Clone, PartialEq)]
pub struct CapabilityJudgement {
    /// Which.
    pub capability: Capability,
    /// The worst verdict of its cases; unsupported only where all are.
    pub verdict: Verdict,
    /// How many cases came to each verdict.
    pub counts: BTreeMap<Verdict, usize>,
    /// Its cases' largest ratio.
    pub ratio: Option<f64>,
    /// Distinct causes.
    pub causes: Vec<Cause>,
    /// Distinct conventions.
    pub notes: Vec<String>,
}

/// Judgements by capability, in the order of [`Capability::ALL`].
pub fn by_capability(judgements: &[CaseJudgement]) -> Vec<CapabilityJudgement> {
    let mut result = Vec::new();
    for capability in Capability::ALL {
        let own: Vec<&CaseJudgement> =
            judgements.iter().filter(|judgement| judgement.capability == capability).collect();
        let Some(verdict) = own.iter().map(|judgement| judgement.verdict).min() else { continue };
        let mut counts = BTreeMap::new();
        let (mut causes, mut notes): (Vec<Cause>, Vec<String>) = (Vec::new(), Vec::new());
        for judgement in &own {
            *counts.entry(judgement.verdict).or_default() += 1;
            if let Some(cause) = &judgement.cause
                && !causes.iter().any(|known| known.name == cause.name)
            {
                causes.push(cause.clone());
            }
            for note in &judgement.notes {
                if !notes.contains(note) {
                    notes.push(note.clone());
                }
            }
        }
        let ratios = own.iter().filter_map(|judgement| judgement.measured.as_ref().map(Measured::ratio));
        let ratio = ratios.reduce(f64::max);
        result.push(CapabilityJudgement { capability, verdict, counts, ratio, causes, notes });
    }
    result
}
