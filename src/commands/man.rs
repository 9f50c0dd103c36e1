//! `attn man`: manual pages.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use clap::{Arg, ArgAction, Command};
use clap_mangen::Man;
use roff::{Inline, Roff, bold, italic, roman};

use super::ExitStatus;
use crate::cli;
use crate::cli::man::ManArguments;
use crate::report::{AtomicFile, file, stdout};

/// Runs the subcommand.
///
/// # Errors
/// A folder that cannot be made, a file that cannot be written.
pub fn run(typed: &ManArguments) -> Result<ExitStatus> {
    let mut command = cli::definition().disable_help_subcommand(true);
    command.build();
    match &typed.folder {
        None => stdout::print(|output| render(&command, output))?,
        Some(folder) => {
            let path = Path::new(folder);
            if path.exists() && !path.is_dir() {
                bail!("DIR {folder}: it is there already, and is no folder");
            }
            fs::create_dir_all(path).map_err(|error| anyhow!("DIR {folder}: {}", file::reason(&error)))?;
            write_all(&command, path)?;
        }
    }
    Ok(ExitStatus::Upheld)
}

/// The page of a command and those of all below it.
fn write_all(command: &Command, folder: &Path) -> io::Result<()> {
    AtomicFile::write_whole(folder.join(format!("{}.1", name(command))), |output| render(command, output))?;
    command.get_subcommands().try_for_each(|below| write_all(below, folder))
}

/// `attn-probe-new`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn render(command: &Command, output: &mut dyn Write) -> io::Result<()> {
    let page = Man::new(command.clone());
    // Written here, since the crate leaves out a date that is empty and moves the rest into its place. A page without a date is the same on every day.
    writeln!(output, ".TH {} 1 \"\" \"attn {}\" \"User commands\"", name(command), env!("CARGO_PKG_VERSION"))?;
    page.render_name_section(output)?;
    synopsis(command).to_writer(output)?;
    page.render_description_section(output)?;
    page.render_options_section(output)?;
    if command.has_subcommands() {
        page.render_subcommands_section(output)?;
    }
    let closing = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    sections(&closing).to_writer(output)
}

/// The synopsis with the name of each value, which that of the crate leaves out.
fn synopsis(command: &Command) -> Roff {
    let mut line = vec![bold(command.get_bin_name().unwrap_or_else(|| command.get_name()))];
    let shown = || command.get_arguments().filter(|argument| !argument.is_hide_set());
    for argument in shown().filter(|argument| !argument.is_positional()) {
        line.push(roman(" ["));
        line.extend(option(argument));
        line.push(roman("]"));
    }
    for argument in shown().filter(|argument| argument.is_positional()) {
        let (before, after) = if argument.is_required_set() { (" ", "") } else { (" [", "]") };
        let before = if argument.is_last_set() { format!("{before}-- ") } else { before.to_owned() };
        line.extend([roman(before), italic(value(argument)), roman(after)]);
    }
    if command.has_subcommands() {
        line.extend([roman(" "), italic("SUBCOMMAND")]);
    }
    let mut page = Roff::new();
    page.control("SH", ["SYNOPSIS"]);
    page.text(line);
    page
}

/// `-o|--output FILE`.
fn option(argument: &Arg) -> Vec<Inline> {
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let names: Vec<Inline> = short.into_iter().chain(long).map(bold).collect();
    let mut line: Vec<Inline> = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        line.extend((index > 0).then(|| roman("|")));
        line.push(name);
    }
    if argument.get_action().takes_values() {
        // A value that may be left out needs its equals sign.
        let is_optional = argument.get_num_args().is_some_and(|count| count.min_values() == 0);
        let (before, after) = if is_optional { ("[=", "]") } else { (" ", "") };
        line.extend([roman(before), italic(value(argument)), roman(after)]);
    }
    line
}

/// `FILE`, and `FILE…` where several may follow.
fn value(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let name = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let is_many = argument.get_num_args().is_some_and(|count| count.max_values() > names.len().max(1));
    let is_repeated = argument.is_positional() && matches!(argument.get_action(), ArgAction::Append);
    if is_many || is_repeated { format!("{name}…") } else { name }
}

/// What stands below the options, as sections. Lines that begin with blanks are tables and examples: they keep their form.
fn sections(closing: &str) -> Roff {
    let mut page = Roff::new();
    let mut heading = "";
    for paragraph in closing.split("\n\n") {
        let wanted = match paragraph {
            text if text.starts_with("Examples:") => "EXAMPLES",
            text if text.starts_with("Exit codes") => "EXIT STATUS",
            _ => "NOTES",
        };
        if wanted != heading {
            page.control("SH", [wanted]);
            heading = wanted;
        } else {
            page.control("PP", []);
        }
        let mut as_it_stands = false;
        for line in paragraph.lines().filter(|line| !line.trim().is_empty() && *line != "Examples:") {
            if line.starts_with("  ") != as_it_stands {
                as_it_stands = !as_it_stands;
                page.control(if as_it_stands { "nf" } else { "fi" }, []);
            }
            // The heading says it.
            let line = line.strip_prefix("Exit codes: ").unwrap_or(line);
            page.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
        if as_it_stands {
            page.control("fi", []);
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_synopsis_names_the_value_of_every_option_and_that_several_files_may_follow() {
        let mut command = cli::definition().disable_help_subcommand(true);
        command.build();
        let plain = |name: &str| {
            let text = synopsis(command.find_subcommand(name).expect("a subcommand")).to_roff();
            let line = text.lines().last().unwrap_or_default().replace("\\fB", "").replace("\\fR", "");
            line.replace("\\fI", "").replace("\\-", "-")
        };
        assert_eq!(plain("report"), "attn report [-o|--output FILE] [--title TEXT] [-q|--quiet] [-h|--help] FILE…");
        let mask = plain("mask");
        assert!(mask.starts_with("attn mask ") && mask.contains(" [--kind KIND]"), "{mask}");
    }

    #[test]
    fn exit_codes_and_examples_have_sections_and_examples_keep_their_lines() {
        let text =
            sections("A note.\nIt goes on.\n\nExit codes: 0 well\n\nExamples:\n  attn a  first\n  attn b  second")
                .to_roff();
        let lines: Vec<&str> =
            text.lines().filter(|line| !line.starts_with(".ie") && !line.starts_with(".el")).collect();
        assert_eq!(
            lines,
            [
                ".SH NOTES",
                "A note.",
                "It goes on.",
                ".SH \"EXIT STATUS\"",
                "0 well",
                ".SH EXAMPLES",
                ".nf",
                "attn a  first",
                "attn b  second",
                ".fi",
            ]
        );
    }
}
