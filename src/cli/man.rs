//! Arguments of `attn man`.

use clap::Args;

/// Manual pages of the program and all its subcommands, from the definition of the command line
///
/// Without a folder the page of the program itself goes to standard output.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Exit codes: 0 written · 2 wrong usage, or a file that cannot be written\n\n\
    Examples:\n  \
    attn man ~/.local/share/man/man1    then: man attn-variance\n  \
    attn man > attn.1                   the page of the program alone")]
pub struct ManArguments {
    /// Folder for the pages, e.g. man1; made if need be [default: the program's page to standard output]
    #[arg(value_name = "DIR")]
    pub folder: Option<String>,
}
