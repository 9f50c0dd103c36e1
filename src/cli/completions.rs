//! Arguments of `attn completions`.

use clap::Args;

/// Completions of subcommands, options and their values for a shell, on standard output
///
/// Printed from the definition of the command line, so that they are those of this version.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Exit codes: 0 printed · 2 wrong usage\n\n\
    Examples:\n  \
    attn completions bash > attn.bash    then: source attn.bash\n  \
    attn completions zsh > _attn         in a folder of $fpath\n  \
    attn completions fish > attn.fish    in ~/.config/fish/completions")]
pub struct CompletionsArguments {
    /// The shell, e.g. bash: bash, zsh, fish, powershell or elvish
    #[arg(value_name = "SHELL", allow_hyphen_values = true)]
    pub shell: String,
}
