//! Whether verdicts are coloured on standard output.

use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::str::FromStr;
use std::sync::OnceLock;

/// Whether verdicts are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    Plain,
    /// ANSI escapes around the verdict: green, red, yellow.
    Ansi,
}

/// What `--color` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColourChoice {
    /// On a terminal that can show it, unless the environment says no.
    #[default]
    Auto,
    /// Wherever standard output leads.
    Always,
    /// Nowhere.
    Never,
}

impl FromStr for ColourChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "always" => Ok(Self::Always),
            "never" => Ok(Self::Never),
            _ => Err("must be auto, always or never".to_string()),
        }
    }
}

/// What was asked for; the process has one standard output.
static CHOICE: OnceLock<ColourChoice> = OnceLock::new();

/// Sets what [`Colour::of_stdout`] follows from now on. The first call counts.
pub fn choose(choice: ColourChoice) {
    let _ = CHOICE.set(choice);
}

impl Colour {
    /// What [`choose`] set for standard output; by itself, colour on a terminal that can show it, unless the user has set `NO_COLOR` to
    /// anything (no-color.org) or `CLICOLOR` to 0 (bixense.com/clicolors).
    pub fn of_stdout() -> Self {
        let choice = CHOICE.get().copied().unwrap_or_default();
        Self::of(choice, io::stdout().is_terminal(), |name| std::env::var_os(name))
    }

    /// The decision, from what it rests on.
    fn of<T: AsRef<OsStr>>(choice: ColourChoice, terminal: bool, variable: impl Fn(&str) -> Option<T>) -> Self {
        let is = |name: &str, value: &str| variable(name).is_some_and(|found| found.as_ref() == value);
        let refused = variable("NO_COLOR").is_some_and(|value| !value.as_ref().is_empty())
            || is("CLICOLOR", "0")
            || is("TERM", "dumb");
        let coloured = match choice {
            ColourChoice::Always => true,
            ColourChoice::Never => false,
            ColourChoice::Auto => terminal && !refused,
        };
        if coloured { Self::Ansi } else { Self::Plain }
    }

    /// The text between the escapes of an ANSI colour code; as it is where it stays plain.
    pub fn paint(self, code: u8, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Ansi => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(choice: ColourChoice, terminal: bool, set: &[(&str, &str)]) -> Colour {
        let find = |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string());
        Colour::of(choice, terminal, find)
    }

    #[test]
    fn by_itself_colour_is_for_terminals_that_nobody_refused_it() {
        use ColourChoice::Auto;
        assert_eq!(of(Auto, true, &[]), Colour::Ansi);
        assert_eq!(of(Auto, false, &[]), Colour::Plain);
        for refusal in [("NO_COLOR", "1"), ("NO_COLOR", "0"), ("CLICOLOR", "0"), ("TERM", "dumb")] {
            assert_eq!(of(Auto, true, &[refusal]), Colour::Plain, "{refusal:?}");
        }
        for consent in [("NO_COLOR", ""), ("CLICOLOR", "1"), ("TERM", "xterm")] {
            assert_eq!(of(Auto, true, &[consent]), Colour::Ansi, "{consent:?}");
        }
        // A pipe stays plain whatever the environment says.
        assert_eq!(of(Auto, false, &[("CLICOLOR", "1"), ("CLICOLOR_FORCE", "1")]), Colour::Plain);
    }

    #[test]
    fn what_was_typed_goes_before_the_terminal_and_the_environment() {
        assert_eq!(of(ColourChoice::Always, false, &[("NO_COLOR", "1")]), Colour::Ansi);
        assert_eq!(of(ColourChoice::Never, true, &[]), Colour::Plain);
        assert_eq!("sometimes".parse::<ColourChoice>(), Err("must be auto, always or never".to_string()));
    }
}
