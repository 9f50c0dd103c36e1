//! Adapter of `attn probe` for the attention functions of candle-nn on the CPU.
//!
//! ```text
//! candle-adapter --kernel single DIR DIR/out     attention::flash_attn, one batch entry a call
//! candle-adapter --kernel varlen DIR DIR/out     attention::flash_attn_varlen_cpu, packed sequences
//! candle-adapter --kernel unfused DIR DIR/out    attention::flash_attn_varlen_unfused, packed sequences
//! ```
//!
//! Their scale has no default: 1/√d is passed where a case leaves it open.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{env, fs, process};

use candle_core::safetensors::{save, BufferedSafetensors};
use candle_core::{DType, Device, Tensor};
use candle_nn::attention::{flash_attn, flash_attn_varlen_cpu, flash_attn_varlen_unfused, AttnMask};
use half::{bf16, f16};
use serde_json::{json, Value};

/// Why there is no answer.
enum Failure {
    /// candle does not offer what the case asks for.
    Unsupported(String),
    /// candle returned an error.
    Library(candle_core::Error),
}

impl From<candle_core::Error> for Failure {
    fn from(error: candle_core::Error) -> Self {
        Failure::Library(error)
    }
}

fn unsupported<T>(why: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Unsupported(why.into()))
}

#[derive(Clone, Copy, PartialEq)]
enum Kernel {
    Single,
    Varlen,
    Unfused,
}

struct Case {
    options: Value,
    tensors: BufferedSafetensors,
}

impl Case {
    fn tensor(&self, name: &str) -> Result<Tensor, Failure> {
        Ok(self.tensors.load(name, &Device::Cpu)?)
    }

    /// Whether the case has an option, and an error unless `offered` names all that it has.
    fn offers(&self, offered: &[&str]) -> Result<(), Failure> {
        for name in self.options.as_object().into_iter().flat_map(|options| options.keys()) {
            // With lengths, the mask says the same.
            if !offered.contains(&name.as_str()) && !(name == "mask" && offered.contains(&"padding")) {
                return unsupported(format!("no option for {name}"));
            }
        }
        Ok(())
    }

    fn causal(&self) -> Option<&str> {
        self.options["causal"].as_str()
    }

    fn scale(&self, width: usize) -> f32 {
        self.options["scale"].as_f64().unwrap_or(1.0 / (width as f64).sqrt()) as f32
    }
}

/// One batch entry a call; (batch, token, head, column) in, (batch, head, token, column) out.
fn single(case: &Case) -> Result<Tensor, Failure> {
    case.offers(&["scale", "causal", "softcap", "mask", "kv_groups", "empty_rows"])?;
    let [q, k, v] = [case.tensor("q")?, case.tensor("k")?, case.tensor("v")?];
    let (batch, _, queries, width) = q.dims4()?;
    let keys = k.dim(2)?;
    let scale = case.scale(width);
    let softcap = case.options["softcap"].as_f64().map(|cap| cap as f32);
    let mask = match case.options["mask"].as_str() {
        Some("additive") => Some(case.tensor("mask")?),
        Some(kind) => return unsupported(format!("no {kind} mask, only numbers to be added")),
        None => None,
    };
    if mask.as_ref().is_some_and(|mask| mask.dims()[1] != 1) {
        return unsupported("a mask is the same for all heads");
    }
    if mask.is_some() && case.causal().is_some() {
        return unsupported("a mask is a tensor or causal, not both");
    }
    let mut outputs = Vec::new();
    for entry in 0..batch {
        let [q, k, v] =
            [&q, &k, &v].map(|whole| whole.narrow(0, entry, 1).and_then(|one| one.transpose(1, 2)?.contiguous()));
        let (q, k, v) = (q?, k?, v?);
        let rule = match (case.causal(), &mask) {
            (None, None) => AttnMask::None,
            (None, Some(mask)) => AttnMask::Mask(mask.narrow(0, entry.min(mask.dim(0)? - 1), 1)?),
            (Some("bottom-right"), _) if keys < queries => return unsupported("the causal offset is not negative"),
            (Some("bottom-right"), _) => AttnMask::causal_with_offset(keys - queries),
            (Some(_), _) => AttnMask::causal(),
        };
        outputs.push(match q.dtype() {
            DType::F64 => flash_attn::<f64>(&q, &k, &v, scale, rule, None, softcap),
            DType::F32 => flash_attn::<f32>(&q, &k, &v, scale, rule, None, softcap),
            DType::F16 => flash_attn::<f16>(&q, &k, &v, scale, rule, None, softcap),
            DType::BF16 => flash_attn::<bf16>(&q, &k, &v, scale, rule, None, softcap),
            kind => return unsupported(format!("no {kind:?}")),
        }?);
    }
    Ok(Tensor::cat(&outputs, 0)?)
}

/// Sequences one after another, without padding: (token, head, column) in and out.
fn packed(case: &Case, kernel: Kernel) -> Result<Tensor, Failure> {
    case.offers(&["scale", "causal", "window", "alibi", "padding", "kv_groups", "empty_rows"])?;
    if !case.options["mask"].is_null() && case.options["padding"].is_null() {
        return unsupported("no option for mask");
    }
    let [q, k, v] = [case.tensor("q")?, case.tensor("k")?, case.tensor("v")?];
    let (batch, heads, queries, width) = q.dims4()?;
    let keys = k.dim(2)?;
    if v.dim(3)? != width {
        return unsupported("values as wide as keys only");
    }
    if kernel == Kernel::Varlen && !matches!(q.dtype(), DType::F32 | DType::F16) {
        return unsupported("f32 and f16 only");
    }
    if case.causal() == Some("top-left") && queries != keys {
        return unsupported("causal is bottom-right");
    }
    let lengths: Vec<u32> = match case.options["padding"].as_bool() {
        Some(true) => case.tensor("lengths")?.to_vec1::<i64>()?.into_iter().map(|length| length as u32).collect(),
        _ => vec![keys as u32; batch],
    };
    let causal = case.causal().is_some();
    if causal && lengths.iter().any(|length| (*length as usize) < queries) {
        return unsupported("causal needs as many keys as queries");
    }
    let side = |index: usize| case.options["window"][index].as_i64().and_then(|side| usize::try_from(side).ok());
    let (left, right) = (side(0), side(1));
    if left.is_none() && right.is_some() {
        return unsupported("no window that is open to the left only");
    }
    let slopes = case.options["alibi"].as_bool().unwrap_or(false).then(|| case.tensor("alibi_slopes")).transpose()?;
    let pack = |whole: &Tensor, lengths: &[u32]| -> candle_core::Result<Tensor> {
        let rows = lengths
            .iter()
            .enumerate()
            .map(|(entry, length)| whole.get(entry)?.transpose(0, 1)?.narrow(0, 0, *length as usize));
        Tensor::cat(&rows.collect::<candle_core::Result<Vec<_>>>()?, 0)?.contiguous()
    };
    let query_lengths = vec![queries as u32; batch];
    let (q, k, v) = (pack(&q, &query_lengths)?, pack(&k, &lengths)?, pack(&v, &lengths)?);
    let [query_lengths, lengths] =
        [query_lengths, lengths].map(|lengths| Tensor::from_vec(lengths, batch, &Device::Cpu));
    let function = if kernel == Kernel::Varlen { flash_attn_varlen_cpu } else { flash_attn_varlen_unfused };
    let output = function(
        &q,
        &k,
        &v,
        slopes.as_ref(),
        &query_lengths?,
        &lengths?,
        queries,
        keys,
        case.scale(width),
        causal,
        left,
        right,
    )?;
    Ok(output.reshape((batch, queries, heads, width))?.transpose(1, 2)?.contiguous()?)
}

fn fail(text: impl std::fmt::Display) -> ! {
    eprintln!("candle-adapter: {text}");
    process::exit(2)
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| fail(format!("{}: {error}", path.display())))
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| fail(format!("{}: {error}", path.display())));
}

fn main() {
    let mut arguments: Vec<String> = env::args().skip(1).collect();
    let mut kernel = Kernel::Single;
    if arguments.first().map(String::as_str) == Some("--kernel") && arguments.len() > 1 {
        kernel = match arguments[1].as_str() {
            "single" => Kernel::Single,
            "varlen" => Kernel::Varlen,
            "unfused" => Kernel::Unfused,
            other => fail(format!("--kernel {other}: not single, varlen or unfused")),
        };
        arguments.drain(..2);
    }
    let [cases, outputs] = arguments.as_slice() else {
        fail("give the folder of the cases and the folder for the answers")
    };
    let (cases, outputs) = (PathBuf::from(cases), PathBuf::from(outputs));
    fs::create_dir_all(&outputs).unwrap_or_else(|error| fail(format!("{}: {error}", outputs.display())));
    let name = match kernel {
        Kernel::Single => "candle flash_attn",
        Kernel::Varlen => "candle flash_attn_varlen_cpu",
        Kernel::Unfused => "candle flash_attn_varlen_unfused",
    };
    // The version that Cargo.toml pins.
    let about =
        json!({"implementation": name, "version": "0.11.1", "device": "cpu", "notes": "no default scale: 1/√d passed"});
    write(&outputs.join("about.json"), &about.to_string());
    let manifest: Value = serde_json::from_slice(&read(&cases.join("manifest.json")))
        .unwrap_or_else(|error| fail(format!("manifest.json: {error}")));
    for entry in manifest["cases"].as_array().into_iter().flatten() {
        let (Some(name), Some(file)) = (entry["name"].as_str(), entry["file"].as_str()) else {
            fail("manifest.json: a case without a name")
        };
        let [answer, refusal, error] =
            ["safetensors", "unsupported", "error"].map(|kind| outputs.join(format!("{name}.{kind}")));
        if [&answer, &refusal, &error].into_iter().any(|path| path.exists()) {
            continue;
        }
        let result = BufferedSafetensors::new(read(&cases.join(file))).map_err(Failure::from).and_then(|tensors| {
            let case = Case { options: entry["options"].clone(), tensors };
            if kernel == Kernel::Single {
                single(&case)
            } else {
                packed(&case, kernel)
            }
        });
        let saved = result.and_then(|output| Ok(save(&HashMap::from([("o", output)]), &answer)?));
        match saved {
            Ok(()) => {}
            Err(Failure::Unsupported(why)) => write(&refusal, &format!("{why}\n")),
            Err(Failure::Library(what)) => write(&error, &format!("{what}\n")),
        }
    }
}
