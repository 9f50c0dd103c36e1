//! The adapters that come with the program: Python files to run, and to copy from.

use anyhow::{Result, anyhow};

use super::ExitStatus;
use crate::cli::probe::AdapterArguments;
use crate::report::stdout;

/// What every adapter imports.
const SHARED: &str = include_str!("../../../scripts/adapters/probe_io.py");

/// Adapters by name, in the order of the alphabet.
const ADAPTERS: [(&str, &str); 11] = [
    ("flax", include_str!("../../../scripts/adapters/flax_adapter.py")),
    ("jax", include_str!("../../../scripts/adapters/jax_adapter.py")),
    ("keras", include_str!("../../../scripts/adapters/keras_adapter.py")),
    ("mlx", include_str!("../../../scripts/adapters/mlx_adapter.py")),
    ("numpy", include_str!("../../../scripts/adapters/numpy_adapter.py")),
    ("onnxruntime", include_str!("../../../scripts/adapters/onnxruntime_adapter.py")),
    ("tinygrad", include_str!("../../../scripts/adapters/tinygrad_adapter.py")),
    ("torch", include_str!("../../../scripts/adapters/torch_adapter.py")),
    ("torch-flex", include_str!("../../../scripts/adapters/torch_flex_adapter.py")),
    ("torch-mha", include_str!("../../../scripts/adapters/torch_mha_adapter.py")),
    ("transformers", include_str!("../../../scripts/adapters/transformers_adapter.py")),
];

/// The text of an adapter as one file, with what it imports in the place of the import.
///
/// # Errors
/// There is none of this name.
pub(super) fn text(option: &str, name: &str) -> Result<String> {
    let (_, own) = ADAPTERS.iter().find(|(known, _)| *known == name).ok_or_else(|| {
        let known: Vec<&str> = ADAPTERS.iter().map(|(known, _)| *known).collect();
        anyhow!("{option} {name}: must be one of {}", known.join(", "))
    })?;
    Ok(with_shared(own, SHARED))
}

/// Replaces the line `from probe_io import …` by the file it imports, without that file's own description.
fn with_shared(adapter: &str, shared: &str) -> String {
    let body =
        shared.strip_prefix("\"\"\"").and_then(|rest| rest.split_once("\"\"\"\n")).map_or(shared, |(_, body)| body);
    let mut text = String::new();
    for line in adapter.lines() {
        if line.starts_with("from probe_io import") {
            text.push_str(body.trim());
        } else {
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}

/// Prints an adapter, or the names of all.
pub(super) fn run(typed: &AdapterArguments) -> Result<ExitStatus> {
    match &typed.name {
        Some(name) => {
            let text = text("adapter", name)?;
            stdout::print(|output| output.write_all(text.as_bytes()))?;
        }
        None => stdout::print(|output| ADAPTERS.iter().try_for_each(|(name, _)| writeln!(output, "{name}")))?,
    }
    Ok(ExitStatus::Upheld)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_adapter_is_one_file_that_imports_nothing_beside_it() {
        for (name, _) in ADAPTERS {
            let text = text("--adapter", name).expect("listed");
            assert!(!text.contains("import probe_io") && !text.contains("from probe_io"), "{name}");
            assert!(text.contains("def answer_cases"), "{name} has what it shares with the others");
        }
    }

    #[test]
    fn the_import_is_replaced_by_the_file_without_its_description() {
        let adapter = "import os\nfrom probe_io import x\nx()\n";
        assert_eq!(with_shared(adapter, "\"\"\"What.\nMore.\n\"\"\"\nx = 3\n"), "import os\nx = 3\nx()\n");
    }
}
