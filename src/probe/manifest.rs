//! The files of a probe: `manifest.json`, one case a line, and a .safetensors for each case. docs/probe.md describes them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::{Deserialize, Serialize};

use super::case::{Block, Capability, Case, Inputs, MaskForm, Options, storage_of_name};
use crate::diagnosis::matrix::Storage;
use crate::tensors::{DType, Tensor, TensorFile, Values, write_safetensors_with};

/// The version of the protocol.
pub const PROTOCOL: u32 = 1;

/// The name of the list of cases.
pub const MANIFEST: &str = "manifest.json";

/// A case's line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseLine {
    /// Its name.
    pub name: String,
    /// Its file, from the folder of the manifest.
    pub file: String,
    /// The file of the answer, from there.
    pub output: String,
    /// What it is about.
    pub capability: Capability,
    /// What it shows.
    pub purpose: String,
    /// The type of Q, K and V.
    pub dtype: String,
    /// What is asked for.
    pub options: Options,
    /// Arrays that an answer must hold.
    pub wants: Vec<String>,
    /// Arrays that are judged where an answer holds them.
    pub may: Vec<String>,
    /// The case that must give the same bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<String>,
}

/// `manifest.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The version of the program that made it.
    pub attn: String,
    /// The seed of its numbers.
    pub seed: u64,
    /// The cases.
    pub cases: Vec<CaseLine>,
}

/// The arrays that `capability` asks for.
fn wants(capability: Capability) -> (Vec<String>, Vec<String>) {
    let list = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    match capability {
        Capability::LogSumExp => (list(&["o", "lse"]), list(&["weights"])),
        Capability::Gradients => (list(&["o", "dq", "dk", "dv"]), list(&["weights", "lse"])),
        _ => (list(&["o"]), list(&["weights", "lse"])),
    }
}

impl Manifest {
    /// The manifest of `cases`.
    pub fn of(cases: &[Case], seed: u64) -> Self {
        let lines = cases.iter().map(|case| {
            let (wants, may) = wants(case.capability);
            CaseLine {
                name: case.name.clone(),
                file: format!("cases/{}.safetensors", case.name),
                output: format!("out/{}.safetensors", case.name),
                capability: case.capability,
                purpose: case.purpose.clone(),
                dtype: case.storage.name().to_string(),
                options: case.options.clone(),
                wants,
                may,
                same_as: case.same_as.clone(),
            }
        });
        Self { protocol: PROTOCOL, attn: env!("CARGO_PKG_VERSION").to_string(), seed, cases: lines.collect() }
    }

    /// Writes it, one case a line.
    ///
    /// # Errors
    /// Those of `output`.
    pub fn write(&self, output: &mut dyn Write) -> io::Result<()> {
        let text = |value: &dyn erased::Json| value.json();
        writeln!(output, "{{\"protocol\":{},\"attn\":{},\"seed\":{},", self.protocol, text(&self.attn)?, self.seed)?;
        writeln!(output, "\"cases\":[")?;
        for (index, line) in self.cases.iter().enumerate() {
            let separator = if index + 1 == self.cases.len() { "" } else { "," };
            writeln!(output, "{}{separator}", text(line)?)?;
        }
        writeln!(output, "]}}")
    }

    /// Reads the manifest of the probe in `folder`.
    ///
    /// # Errors
    /// There is none, it is broken, of another protocol, or names files outside the folder; one line.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(MANIFEST);
        let bytes = fs::read(&path).map_err(|error| {
            anyhow!("{}: {error}; 'attn probe new {}' makes a probe", path.display(), folder.display())
        })?;
        let manifest: Self =
            serde_json::from_slice(&bytes).with_context(|| format!("{} is no manifest of a probe", path.display()))?;
        ensure!(
            manifest.protocol == PROTOCOL,
            "{}: protocol {}, this program knows {PROTOCOL}",
            path.display(),
            manifest.protocol
        );
        let mut seen = std::collections::BTreeSet::new();
        for line in &manifest.cases {
            let plain = |text: &str| {
                !text.is_empty()
                    && text.len() <= 200
                    && text.chars().all(|character| character.is_ascii_alphanumeric() || "-_.".contains(character))
                    && !text.starts_with('.')
            };
            ensure!(
                plain(&line.name),
                "{}: the case '{}' needs a name of letters, digits, - _ and .",
                path.display(),
                line.name.escape_debug()
            );
            ensure!(seen.insert(&line.name), "{}: two cases are called {}", path.display(), line.name);
            ensure!(
                line.file == format!("cases/{}.safetensors", line.name),
                "{}: the file of {} must be cases/{}.safetensors",
                path.display(),
                line.name,
                line.name
            );
        }
        Ok(manifest)
    }
}

mod erased {
    use std::io;

    /// What can be written as JSON.
    pub(super) trait Json {
        fn json(&self) -> io::Result<String>;
    }

    impl<T: serde::Serialize> Json for T {
        fn json(&self) -> io::Result<String> {
            serde_json::to_string(self).map_err(io::Error::from)
        }
    }
}

/// Writes the file of a case.
///
/// # Errors
/// Those of `output`.
pub fn write_case(case: &Case, line: &CaseLine, output: &mut dyn Write) -> Result<()> {
    let dtype = dtype_of(case.storage);
    let tensor = |block: &Block, dtype: DType| Tensor {
        dtype,
        shape: block.shape.to_vec(),
        values: Values::F64(block.numbers.clone()),
    };
    let list =
        |numbers: Vec<f64>, dtype: DType| Tensor { dtype, shape: vec![numbers.len()], values: Values::F64(numbers) };
    let inputs = &case.inputs;
    let mut tensors = vec![
        ("q", tensor(&inputs.queries, dtype)),
        ("k", tensor(&inputs.keys, dtype)),
        ("v", tensor(&inputs.values, dtype)),
    ];
    if let Some(mask) = &inputs.mask {
        let dtype = if case.options.mask == Some(MaskForm::Boolean) { DType::Bool } else { dtype };
        tensors.push(("mask", tensor(mask, dtype)));
    }
    if let Some(lengths) = &inputs.lengths {
        tensors.push(("lengths", list(lengths.iter().map(|&length| length as f64).collect(), DType::I64)));
    }
    if let Some(slopes) = &inputs.slopes {
        tensors.push(("alibi_slopes", list(slopes.clone(), DType::F32)));
    }
    if let Some(gradient) = &inputs.output_gradient {
        tensors.push(("do", tensor(gradient, dtype)));
    }
    write_safetensors_with(output, &metadata(line)?, tensors.iter().map(|(name, tensor)| (*name, tensor)))
}

/// Every field of the line and of its options as text.
fn metadata(line: &CaseLine) -> Result<BTreeMap<String, String>> {
    let serde_json::Value::Object(fields) = serde_json::to_value(line)? else { bail!("a line is an object") };
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut all = BTreeMap::new();
    for (name, value) in &fields {
        match value {
            serde_json::Value::Object(options) => {
                all.extend(options.iter().map(|(name, value)| (name.clone(), text(value))));
            }
            other => {
                all.insert(name.clone(), text(other));
            }
        }
    }
    Ok(all)
}

fn dtype_of(storage: Storage) -> DType {
    match storage {
        Storage::F64 => DType::F64,
        Storage::F32 => DType::F32,
        Storage::F16 => DType::F16,
        Storage::Bf16 => DType::Bf16,
    }
}

/// Reads the case of `line` from the probe in `folder`.
///
/// # Errors
/// The file is missing or broken, or its tensors do not fit each other or the line.
pub fn read_case(folder: &Path, line: &CaseLine) -> Result<Case> {
    let path: PathBuf = folder.join(&line.file);
    let file = TensorFile::open(&path)?;
    let broken = |what: String| anyhow!("{}: {what}", path.display());
    let storage = storage_of_name(&line.dtype)
        .ok_or_else(|| broken(format!("the type '{}' must be f64, f32, f16 or bf16", line.dtype.escape_debug())))?;
    let block = |name: &str| -> Result<Block> {
        let tensor = file.read(name)?;
        let shape: [usize; 4] = (tensor.shape.clone().try_into()).map_err(|_| {
            broken(format!("{name} has {} axes, expected (batch, head, rows, columns)", tensor.shape.len()))
        })?;
        ensure!(!shape.contains(&0), broken(format!("{name} has an axis of length 0")));
        Ok(Block { shape, numbers: tensor.values.into_f64() })
    };
    let maybe = |name: &str| file.contains(name).then(|| block(name)).transpose();
    let list = |name: &str| -> Result<Option<Vec<f64>>> {
        Ok(if file.contains(name) { Some(file.read(name)?.values.into_f64()) } else { None })
    };
    let inputs = Inputs {
        queries: block("q")?,
        keys: block("k")?,
        values: block("v")?,
        mask: maybe("mask")?,
        lengths: list("lengths")?.map(|lengths| lengths.into_iter().map(|length| length as usize).collect()),
        slopes: list("alibi_slopes")?,
        output_gradient: maybe("do")?,
    };
    let found = file.info("q")?.dtype;
    ensure!(found == dtype_of(storage), broken(format!("q is {found}, the manifest says {}", line.dtype)));
    fits(&inputs, &line.options).map_err(broken)?;
    Ok(Case {
        name: line.name.clone(),
        capability: line.capability,
        purpose: line.purpose.clone(),
        storage,
        options: line.options.clone(),
        same_as: line.same_as.clone(),
        inputs,
    })
}

/// Whether the tensors fit each other and the options.
fn fits(inputs: &Inputs, options: &Options) -> Result<(), String> {
    let shape = inputs.shape();
    let (b, h, n, m) = (shape.batches, shape.heads, shape.queries, shape.keys);
    let expect = |name: &str, found: [usize; 4], expected: [usize; 4]| {
        if found == expected { Ok(()) } else { Err(format!("{name} is {found:?}, expected {expected:?}")) }
    };
    expect("k", inputs.keys.shape, [b, shape.key_heads, m, shape.width])?;
    expect("v", inputs.values.shape, [b, shape.key_heads, m, shape.value_width])?;
    if !h.is_multiple_of(shape.key_heads) {
        return Err(format!("{h} query heads cannot share {} key heads", shape.key_heads));
    }
    match (&inputs.mask, options.mask) {
        (None, None) => {}
        (Some(mask), Some(_)) => {
            let [mask_b, mask_h, rows, columns] = mask.shape;
            if ![1, b].contains(&mask_b) || ![1, h].contains(&mask_h) || (rows, columns) != (n, m) {
                return Err(format!("mask is {:?}, expected [{b} or 1, {h} or 1, {n}, {m}]", mask.shape));
            }
        }
        _ => return Err("a mask needs the option mask, and the option a mask".to_string()),
    }
    if options.padding != inputs.lengths.is_some() || inputs.lengths.as_ref().is_some_and(|lengths| lengths.len() != b)
    {
        return Err(format!("padding needs {b} lengths"));
    }
    if options.alibi != inputs.slopes.is_some() || inputs.slopes.as_ref().is_some_and(|slopes| slopes.len() != h) {
        return Err(format!("alibi needs {h} alibi_slopes"));
    }
    match &inputs.output_gradient {
        Some(gradient) => expect("do", gradient.shape, [b, h, n, shape.value_width])?,
        None if options.gradients => return Err("gradients need do".to_string()),
        None => {}
    }
    Ok(())
}
