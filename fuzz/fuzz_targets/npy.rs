#![no_main]

use attn::tensors::FileFormat;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| attn_fuzz::read_everything(bytes, FileFormat::Npy));
