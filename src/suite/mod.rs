//! Suites of `attn check`: what is to be run, what is expected of it, and one budget of false alarms for all.
//!
//! A suite is a TOML file of command lines, as they are typed in a terminal, with what is expected of each
//! ([`Suite::read`]). [`results`] turns what a command line printed into claims; [`interval`] holds a measured value
//! against an interval of the user's; [`baseline`] compares the trials of a run with those of an earlier one.

pub mod baseline;
pub mod interval;
pub mod results;

use std::path::PathBuf;

use serde::Deserialize;

/// The suite that runs where none is named: every claim of the derivation. `attn check --init` writes it to start from.
pub const BUILT_IN: &str = include_str!("../../data/suite.toml");

/// False-alarm rate of a suite that states none.
const FALSE_ALARM: f64 = 1e-6;

/// A checked suite.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// Probability that anything fails although all is right, over the whole suite.
    pub false_alarm: f64,
    /// Seed of every draw; `None` is a fresh one.
    pub seed: Option<u64>,
    /// What is run, in order.
    pub items: Vec<Item>,
}

/// One command line and what is expected of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// A name of its own.
    pub name: String,
    /// The words of the command line, without the program's name.
    pub words: Vec<String>,
    /// What the command line's own verdicts should be.
    pub expect: Expect,
    /// Intervals of the user's.
    pub intervals: Vec<Interval>,
    /// Per-trial file of an earlier version, as written in the suite.
    pub baseline: Option<PathBuf>,
    /// Whether a warning of an audit is as bad as a failure.
    pub warnings: Warnings,
}

/// What the verdicts of an item should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expect {
    /// Every claim upheld.
    Upheld,
    /// At least one claim rejected: a control that shows that the suite sees a fault.
    Rejected,
    /// Nothing: only the intervals and the baseline count.
    Nothing,
}

/// What a WARN of an audit amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Warnings {
    /// It is noted.
    Note,
    /// It is a failure.
    Reject,
}

/// An interval that measured values should lie in; what is left out of the selection matches every row.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// The statistic, as in the rows.
    pub statistic: String,
    /// The scale, as in the rows.
    pub scale: Option<String>,
    /// The mask, as in the rows.
    pub mask: Option<String>,
    /// Which head, layer, query.
    pub index: Option<u64>,
    /// d_k.
    pub d_k: Option<u64>,
    /// Rows of Q.
    pub n_queries: Option<u64>,
    /// Rows of K.
    pub n_keys: Option<u64>,
    /// Lower end; left out, there is none.
    pub low: Option<f64>,
    /// Upper end; left out, there is none.
    pub high: Option<f64>,
}

/// The file as typed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Typed {
    false_alarm: Option<f64>,
    seed: Option<toml::Value>,
    #[serde(default)]
    check: Vec<TypedItem>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct TypedItem {
    name: String,
    run: String,
    expect: Option<Expect>,
    baseline: Option<PathBuf>,
    warnings: Option<Warnings>,
    #[serde(default)]
    interval: Vec<Interval>,
}

impl Suite {
    /// Reads a suite. Unknown keys, an empty suite, a name used twice and values out of their domain are errors.
    ///
    /// # Errors
    /// One line: where, what, which rule.
    pub fn read(text: &str) -> Result<Self, String> {
        let typed: Typed = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            format!("{line}{}", error.message().split_whitespace().collect::<Vec<_>>().join(" "))
        })?;
        if typed.check.is_empty() {
            return Err("there is nothing to check: no [[check]] in it".to_string());
        }
        let false_alarm = typed.false_alarm.unwrap_or(FALSE_ALARM);
        if !(false_alarm > 0.0 && false_alarm < 1.0) {
            return Err(format!("false-alarm = {false_alarm}: must be between 0 and 1"));
        }
        let seed = match typed.seed {
            None => Some(0),
            Some(toml::Value::String(word)) if word == "random" => None,
            Some(other) => match other.as_integer().and_then(|seed| u64::try_from(seed).ok()) {
                Some(seed) => Some(seed),
                None => {
                    let shown = match other {
                        toml::Value::Integer(number) => number.to_string(),
                        toml::Value::String(word) => format!("\"{word}\""),
                        _ => "…".to_string(),
                    };
                    return Err(format!("seed = {shown}: must be a whole number from 0 on, or \"random\""));
                }
            },
        };
        let mut items: Vec<Item> = Vec::new();
        for item in typed.check {
            let item = Item::new(item)?;
            if items.iter().any(|other| other.file_name() == item.file_name()) {
                return Err(format!(
                    "name = \"{}\": is used twice, or differs only in signs; every check needs a name of its own",
                    item.name
                ));
            }
            items.push(item);
        }
        Ok(Self { false_alarm, seed, items })
    }

    /// The false-alarm rate that each part of the suite keeps: Bonferroni over the parts, so that the whole keeps
    /// [`Suite::false_alarm`]. A part is what one correction covers: the claims of a simulation, its intervals, its comparison
    /// with a baseline. Audits, probes and counts are within a bound or not; they take no share.
    pub fn share(&self) -> f64 {
        let parts: usize = self.items.iter().map(Item::parts).sum();
        self.false_alarm / parts.max(1) as f64
    }
}

impl Item {
    fn new(typed: TypedItem) -> Result<Self, String> {
        let TypedItem { name, run, expect, baseline, warnings, interval } = typed;
        let of_item = |rule: &str| format!("check \"{name}\": {rule}");
        if !name.chars().any(char::is_alphanumeric) || name.chars().any(char::is_control) {
            return Err(format!("name = {name:?}: every check needs a name of letters or digits on one line"));
        }
        let words = shlex::split(&run).ok_or_else(|| of_item(&format!("run = \"{run}\": a quote is not closed")))?;
        let words: Vec<String> = match words.split_first() {
            Some((first, rest)) if first == "attn" => rest.to_vec(),
            _ => words,
        };
        let without_a_verdict = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["probe", ref rest @ ..] => !rest.iter().any(|word| matches!(*word, "judge" | "run")),
            ["audit", ref rest @ ..] => rest.iter().any(|word| word.starts_with("--explain")),
            _ => false,
        };
        if without_a_verdict || words.iter().any(|word| word == "--help" || word == "-h") {
            return Err(of_item(&format!("run = \"{run}\": has no verdict")));
        }
        let Some(command) = words.first() else { return Err(of_item("run is empty")) };
        let kind = Kind::of(command).ok_or_else(|| {
            of_item(&format!(
                "run = \"{run}\": must begin with a subcommand that has a verdict, one of {}",
                Kind::names()
            ))
        })?;
        let expect = expect.unwrap_or(Expect::Upheld);
        if kind != Kind::Simulation && (!interval.is_empty() || baseline.is_some()) {
            return Err(of_item(&format!("{command} has no trials for an interval or a baseline")));
        }
        if warnings.is_some() && kind != Kind::Audit {
            return Err(of_item(&format!("warnings: {command} has none, only audit has")));
        }
        if expect == Expect::Nothing && interval.is_empty() && baseline.is_none() {
            return Err(of_item("expect = \"nothing\" and no interval and no baseline: nothing would be checked"));
        }
        for interval in &interval {
            let Interval { statistic, low, high, .. } = interval;
            let finite = [low, high].into_iter().flatten().all(|end| end.is_finite());
            let in_order = low.zip(*high).is_none_or(|(low, high)| low <= high);
            if !(finite && in_order && (low.is_some() || high.is_some())) {
                return Err(of_item(&format!(
                    "interval of {statistic}: needs low or high, finite, low no larger than high"
                )));
            }
        }
        let warnings = warnings.unwrap_or(Warnings::Note);
        Ok(Self { name, words, expect, intervals: interval, baseline, warnings })
    }

    /// What kind of command it runs.
    pub fn kind(&self) -> Kind {
        // A suite holds known subcommands only.
        self.words.first().and_then(|command| Kind::of(command)).unwrap_or(Kind::Simulation)
    }

    /// Corrections for many rows that the item needs: see [`Suite::share`].
    fn parts(&self) -> usize {
        let theory = self.kind() == Kind::Simulation && self.expect != Expect::Nothing;
        usize::from(theory) + usize::from(!self.intervals.is_empty()) + usize::from(self.baseline.is_some())
    }

    /// A file name that tells the item: its name with everything but letters and digits turned into `-`.
    pub fn file_name(&self) -> String {
        let mut name = String::new();
        for character in self.name.chars() {
            if character.is_alphanumeric() {
                name.extend(character.to_lowercase());
            } else if !name.ends_with('-') && !name.is_empty() {
                name.push('-');
            }
        }
        format!("{}.csv", name.trim_end_matches('-'))
    }
}

/// What a subcommand is, for a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Draws and holds statistics against theory.
    Simulation,
    /// Counts operations.
    Count,
    /// Reads tensors.
    Audit,
    /// Judges an implementation.
    Probe,
}

/// Subcommands with a verdict.
const COMMANDS: [(&str, Kind); 10] = [
    ("variance", Kind::Simulation),
    ("softmax-spikiness", Kind::Simulation),
    ("mask", Kind::Simulation),
    ("complexity", Kind::Count),
    ("multi-head", Kind::Simulation),
    ("positional", Kind::Simulation),
    ("kv-cache", Kind::Simulation),
    ("depth", Kind::Simulation),
    ("audit", Kind::Audit),
    ("probe", Kind::Probe),
];

impl Kind {
    /// The kind of a subcommand; None for one without a verdict.
    pub fn of(command: &str) -> Option<Self> {
        COMMANDS.iter().find(|(name, _)| *name == command).map(|(_, kind)| *kind)
    }

    fn names() -> String {
        COMMANDS.map(|(name, _)| name).join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[[check]]\nname = 'a'\nrun = 'variance --dk 7'\n";

    #[test]
    fn a_suite_is_read_with_its_defaults() {
        let suite = Suite::read(ONE).expect("a suite");
        assert_eq!((suite.false_alarm, suite.seed, suite.items.len()), (1e-6, Some(0), 1));
        let item = &suite.items[0];
        assert_eq!(item.words, ["variance", "--dk", "7"]);
        assert_eq!((item.expect, item.kind(), item.warnings), (Expect::Upheld, Kind::Simulation, Warnings::Note));
    }

    #[test]
    fn command_lines_are_split_as_a_shell_splits_them_and_the_programs_name_may_stand_first() {
        let text = "[[check]]\nname = 'a'\nrun = \"attn audit 'my dump.npz' --causal\"\nwarnings = 'reject'";
        let item = Suite::read(text).expect("a suite").items.remove(0);
        assert_eq!(item.words, ["audit", "my dump.npz", "--causal"]);
        assert_eq!((item.kind(), item.warnings), (Kind::Audit, Warnings::Reject));
    }

    #[test]
    fn every_error_says_what_and_where() {
        let cases = [
            ("", "nothing to check"),
            ("false-alarm = 1e-6", "nothing to check"),
            (&format!("false_alarm = 0.1\n{ONE}"), "line 1: unknown field `false_alarm`"),
            (&format!("{ONE}expects = 'upheld'"), "line 4: unknown field `expects`"),
            (&format!("{ONE}expect = 'fine'"), "unknown variant `fine`"),
            (&format!("{ONE}{ONE}"), "used twice"),
            (&format!("{ONE}{}", ONE.replace("'a'", "'A!'")), "used twice"),
            (&format!("false-alarm = 1.0\n{ONE}"), "must be between 0 and 1"),
            (&format!("seed = 'chance'\n{ONE}"), "must be a whole number from 0 on, or \"random\""),
            ("[[check]]\nname = 'a'", "missing field `run`"),
            ("[[check]]\nname = ' '\nrun = 'variance'", "needs a name"),
            ("[[check]]\nname = '***'\nrun = 'variance'", "needs a name"),
            ("seed = -1\n[[check]]\nname = 'a'\nrun = 'variance'", "seed = -1: must be a whole number"),
            ("[[check]]\nname = 'a'\nrun = 'variance --help'", "has no verdict"),
            ("[[check]]\nname = 'a'\nrun = 'probe new x'", "has no verdict"),
            ("[[check]]\nname = 'a'\nrun = 'audit --explain scale'", "has no verdict"),
            ("[[check]]\nname = 'a'\nrun = ''", "run is empty"),
            ("[[check]]\nname = 'a'\nrun = 'attn'", "run is empty"),
            ("[[check]]\nname = 'a'\nrun = \"variance 'x\"", "quote is not closed"),
            ("[[check]]\nname = 'a'\nrun = 'report x.csv'", "must begin with a subcommand that has a verdict"),
            (&format!("{ONE}warnings = 'note'"), "only audit has"),
            (&format!("{ONE}expect = 'nothing'"), "nothing would be checked"),
            ("[[check]]\nname = 'a'\nrun = 'audit x'\nbaseline = 'x.csv'", "no trials"),
            (&format!("{ONE}[[check.interval]]\nstatistic = 'entropy'"), "needs low or high"),
            (
                &format!("{ONE}[[check.interval]]\nstatistic = 'entropy'\nlow = 2.0\nhigh = 1.0"),
                "low no larger than high",
            ),
            (&format!("{ONE}[[check.interval]]\nstatistic = 'entropy'\nlow = nan"), "finite"),
            (&format!("{ONE}[[check.interval]]\nstatistic = 'entropy'\nlow = 1.0\ndk = 3"), "unknown field `dk`"),
        ];
        for (text, expected) in cases {
            let error = Suite::read(text).expect_err(text);
            assert!(error.contains(expected) && !error.contains('\n'), "{text}\n{error}");
        }
    }

    #[test]
    fn the_budget_is_divided_over_what_can_raise_a_false_alarm() {
        let text = format!(
            "false-alarm = 0.01\n{ONE}baseline = 'x.csv'\n[[check.interval]]\nstatistic = 's'\nlow = 1.0\n\
             [[check.interval]]\nstatistic = 't'\nhigh = 1.0\n\
             [[check]]\nname = 'b'\nrun = 'mask'\n[[check]]\nname = 'c'\nrun = 'audit x.npz'\n\
             [[check]]\nname = 'd'\nrun = 'variance'\nexpect = 'nothing'\nbaseline = 'y.csv'"
        );
        // a: theory, intervals, baseline; b: theory; c: none; d: baseline.
        assert_eq!(Suite::read(&text).expect("a suite").share(), 0.01 / 5.0);
    }

    #[test]
    fn file_names_hold_letters_and_digits_only() {
        let text = "[[check]]\nname = ' Var[QKᵀ] = d_k: head 3 '\nrun = 'variance'";
        assert_eq!(Suite::read(text).expect("a suite").items[0].file_name(), "var-qkᵀ-d-k-head-3.csv");
    }

    #[test]
    fn the_built_in_suite_checks_every_simulating_subcommand() {
        let suite = Suite::read(BUILT_IN).expect("ours");
        let run: Vec<&str> = suite.items.iter().map(|item| item.words[0].as_str()).collect();
        for (command, kind) in COMMANDS {
            let draws = matches!(kind, Kind::Simulation | Kind::Count);
            assert_eq!(run.contains(&command), draws, "{command}");
        }
        assert!(suite.items.iter().any(|item| item.expect == Expect::Rejected), "a control");
    }
}
