//! `attn man`: manual pages.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use clap::Command;
use clap_mangen::Man;
use roff::{Roff, roman};

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
    page.render_synopsis_section(output)?;
    page.render_description_section(output)?;
    page.render_options_section(output)?;
    if command.has_subcommands() {
        page.render_subcommands_section(output)?;
    }
    let closing = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    sections(&closing).to_writer(output)
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
