//! What every target does with its bytes.
//!
//! ```text
//! cargo install cargo-fuzz
//! mkdir -p fuzz/corpus/npy && cp tests/golden/tensors/*.npy fuzz/corpus/npy/
//! cargo +nightly fuzz run npy -- -max_total_time=300 -malloc_limit_mb=64 -max_len=8192
//! ```
//!
//! The same for npz and safetensors. libFuzzer changes what it has seen reach new code; `tests/integration/tensors_hostile.rs`
//! does it blindly, with the stable toolchain, in every test run.

use attn::tensors::{FileFormat, TensorFile, VoidType};

/// Opens the bytes as a file and reads everything in it, whole and in parts. Errors are fine; a panic, memory the file cannot
/// justify, or an error of several lines is a fault.
pub fn read_everything(bytes: &[u8], format: FileFormat) {
    let line = |error: anyhow::Error| {
        let line = format!("{error:#}");
        assert!(line.starts_with("x: ") && !line.chars().any(char::is_control), "{line:?}");
    };
    let file = match TensorFile::from_bytes("x", bytes.to_vec(), VoidType::default()) {
        Ok(file) => file,
        Err(error) => return line(error),
    };
    if file.format() != format {
        return;
    }
    let most = if format == FileFormat::Npz { bytes.len() * 1033 } else { bytes.len() };
    for name in file.names() {
        let info = match file.info(name) {
            Ok(info) => info,
            Err(error) => {
                line(error);
                continue;
            }
        };
        assert!(info.bytes() <= most, "{} bytes of {}", info.bytes(), bytes.len());
        let whole = file.read(name);
        for fixed in 0..=info.shape.len() {
            let last: Vec<usize> = info.shape[..fixed].iter().map(|length| length.saturating_sub(1)).collect();
            if let Err(error) = file.read_block(name, &last) {
                line(error);
            }
            if let (Ok(rows), Ok(whole), 0) = (file.read_rows(name, &[], 0..1), &whole, fixed) {
                // A part is what the whole has there.
                for index in 0..rows.values.len() {
                    assert_eq!(rows.values.at(index).to_bits(), whole.values.at(index).to_bits());
                }
            }
        }
        if let Err(error) = whole {
            line(error);
        }
    }
}
