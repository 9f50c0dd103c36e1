//! Arrays from files that other libraries wrote, against what those libraries read back.

use std::collections::BTreeMap;
use std::path::PathBuf;

use attn::tensors::{ByteOrder, DType, FileFormat, Order, Tensor, TensorFile, Values, VoidType};
use attn::tensors::{write_npy, write_safetensors};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tensors")
}

fn open(file: &str) -> TensorFile {
    TensorFile::open(folder().join(file)).expect(file)
}

/// One line of values.csv, by scripts/reference/tensors.py.
struct Expected {
    file: String,
    name: String,
    dtype: String,
    order: String,
    shape: Vec<usize>,
    entries: Vec<f64>,
}

fn expected() -> Vec<Expected> {
    let mut reader = csv::Reader::from_path(folder().join("values.csv")).expect("readable");
    let rows = reader.records().map(|row| {
        let row = row.expect("a row");
        let axes = row[4].split('x').filter(|axis| !axis.is_empty());
        Expected {
            file: row[0].to_string(),
            name: row[1].to_string(),
            dtype: row[2].to_string(),
            order: row[3].to_string(),
            shape: axes.map(|axis| axis.parse().expect("a length")).collect(),
            entries: row[5].split_whitespace().map(|entry| entry.parse().expect("a number")).collect(),
        }
    });
    rows.collect()
}

/// The numbers with the sign of zero.
fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn every_array_is_what_python_reads() {
    let all = expected();
    assert!(all.len() > 50, "{} arrays", all.len());
    for expected in all {
        let file = open(&expected.file);
        let what = format!("{} {}", expected.file, expected.name);
        let info = file.info(&expected.name).expect(&what);
        assert_eq!(info.dtype.name(), expected.dtype, "{what}");
        assert_eq!(info.shape, expected.shape, "{what}");
        assert_eq!(info.order, if expected.order == "F" { Order::Fortran } else { Order::C }, "{what}");
        let tensor = file.read(&expected.name).expect(&what);
        assert_eq!(tensor.shape, expected.shape, "{what}");
        assert_eq!(matches!(tensor.values, Values::F32(_)), info.dtype.fits_f32(), "{what}");
        assert_eq!(bits(&tensor.values.into_f64()), bits(&expected.entries), "{what}");
    }
}

/// Every block and every range of rows is that part of the whole.
#[test]
fn a_block_is_a_part_of_the_whole() {
    let mut seen = 0;
    for expected in expected() {
        let file = open(&expected.file);
        let (name, shape) = (&expected.name, &expected.shape);
        for fixed in 0..=shape.len() {
            let inner: usize = shape[fixed..].iter().product();
            let blocks: usize = shape[..fixed].iter().product();
            // Backwards, which a compressed array has to start again for.
            for block in (0..blocks).rev() {
                let mut leading = vec![0; fixed];
                let mut rest = block;
                for axis in (0..fixed).rev() {
                    leading[axis] = rest % shape[axis];
                    rest /= shape[axis];
                }
                let whole = &expected.entries[block * inner..(block + 1) * inner];
                let read = file.read_block(name, &leading).expect("a block");
                assert_eq!(read.shape, shape[fixed..], "{name} {leading:?}");
                assert_eq!(bits(&read.values.into_f64()), bits(whole), "{} {name} {leading:?}", expected.file);
                seen += 1;
                let Some(&rows) = shape.get(fixed) else { continue };
                let row_length: usize = shape[fixed + 1..].iter().product();
                for (start, end) in [(0, rows / 2), (rows / 2, rows), (rows / 3, rows.div_ceil(2)), (rows, rows)] {
                    let read = file.read_rows(name, &leading, start..end).expect("rows");
                    assert_eq!(read.shape[0], end - start);
                    let part = &whole[start * row_length..end * row_length];
                    assert_eq!(
                        bits(&read.values.into_f64()),
                        bits(part),
                        "{} {name} {leading:?} {start}..{end}",
                        expected.file
                    );
                }
            }
        }
    }
    assert!(seen > 1000, "{seen} blocks");
}

#[test]
fn the_kind_of_a_file_is_told_from_its_content() {
    for (file, format) in
        [("f4_big.npy", FileFormat::Npy), ("stored.npz", FileFormat::Npz), ("all.safetensors", FileFormat::Safetensors)]
    {
        assert_eq!(open(file).format(), format);
        let bytes = std::fs::read(folder().join(file)).expect("readable");
        let renamed = TensorFile::from_bytes("x.bin", bytes, VoidType::default()).expect("content counts");
        assert_eq!(renamed.format(), format);
    }
}

#[test]
fn names_are_sorted_and_an_unknown_one_is_answered_with_them() {
    let file = open("stored.npz");
    let names: Vec<&str> = file.names().collect();
    assert_eq!(names, ["bf16", "empty", "k_fortran", "layer3.v", "mask", "q"]);
    assert!(file.contains("q") && !file.contains("Q"));
    let error = file.read("w").expect_err("no w").to_string();
    assert!(
        error.ends_with("no array 'w'; there are 'bf16', 'empty', 'k_fortran', 'layer3.v', 'mask', 'q'"),
        "{error}"
    );
}

#[test]
fn two_byte_voids_are_bf16_unless_said_otherwise() {
    let file = open("bf16_void.npy");
    let info = file.info("bf16_void").expect("read");
    assert_eq!(info.dtype, DType::Bf16);
    assert!(info.notices[0].contains("two-byte voids") && info.notices[0].contains("--void-as"), "{:?}", info.notices);
    // The same bits as f16: what half, by its definition in IEEE 754, makes of them.
    let bytes = std::fs::read(folder().join("bf16_void.npy")).expect("readable");
    let file = TensorFile::open_with(folder().join("bf16_void.npy"), VoidType::F16).expect("opened");
    let read = file.read("bf16_void").expect("read");
    assert_eq!(read.dtype, DType::F16);
    for (index, pair) in bytes[128..].chunks(2).enumerate() {
        let half = f64::from(half::f16::from_le_bytes([pair[0], pair[1]]));
        assert_eq!(read.values.at(index).to_bits(), half.to_bits());
    }
}

#[test]
fn byte_orders_and_empty_axes_are_reported() {
    assert_eq!(open("f4_big.npy").info("f4_big").expect("read").byte_order, ByteOrder::Big);
    assert_eq!(open("f4_little.npy").info("f4_little").expect("read").byte_order, ByteOrder::Little);
    let file = open("zero_columns.npy");
    let info = file.info("zero_columns").expect("read");
    assert!(info.is_empty() && info.notices == ["axis 2 of the shape (2, 3, 0) has length 0: there are no entries"]);
    assert!(open("f4_big.npy").info("f4_big").expect("read").notices.is_empty());
}

#[test]
fn what_is_written_is_what_the_libraries_wrote() {
    // safetensors lays arrays in the same order, .npy of NumPy has the same header.
    for expected in expected().iter().filter(|expected| expected.order == "C" && expected.file.ends_with(".npy")) {
        if expected.file.contains("big") || expected.file.starts_with("version") {
            continue;
        }
        let mut written = Vec::new();
        write_npy(&mut written, &open(&expected.file).read(&expected.name).expect("read")).expect("written");
        let theirs = std::fs::read(folder().join(&expected.file)).expect("readable");
        let shown = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..128]).into_owned();
        // ml_dtypes writes <V2, a byte order that voids do not have.
        let theirs: Vec<u8> = if expected.dtype == "bf16" {
            assert!(shown(&theirs).contains("'<V2'") || shown(&theirs).contains("'|V2'"));
            [&written[..128], &theirs[128..]].concat()
        } else {
            theirs
        };
        assert!(written == theirs, "{}:\n{}\n{}", expected.file, shown(&written), shown(&theirs));
    }
    let file = open("all.safetensors");
    let tensors: BTreeMap<String, Tensor> =
        file.names().map(|name| (name.to_string(), file.read(name).expect("read"))).collect();
    let mut written = Vec::new();
    write_safetensors(&mut written, tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))).expect("written");
    assert!(written == std::fs::read(folder().join("all.safetensors")).expect("readable"));
}

fn of(dtype: DType, values: &[f64]) -> Tensor {
    Tensor { dtype, shape: vec![values.len()], values: Values::F64(values.to_vec()) }
}

fn written(tensor: &Tensor) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_npy(&mut bytes, tensor).expect("written");
    bytes
}

#[test]
fn halves_are_rounded_once_to_the_nearest() {
    let mut reader = csv::Reader::from_path(folder().join("rounding.csv")).expect("readable");
    let mut count = 0;
    for row in reader.records() {
        let row = row.expect("a row");
        let number: f64 = row[0].parse().expect("a number");
        for (dtype, expected) in [(DType::F16, &row[1]), (DType::Bf16, &row[2])] {
            let bytes = written(&of(dtype, &[number]));
            let bits = u16::from_le_bytes([bytes[128], bytes[129]]);
            assert_eq!(bits.to_string(), *expected, "{number:e} as {dtype}");
        }
        count += 1;
    }
    assert!(count > 500, "{count} numbers");
}

#[test]
fn every_type_that_is_written_is_read_back() {
    for dtype in DType::ALL {
        let limits: &[f64] = match dtype {
            DType::Bool => &[0.0, 1.0, 1.0],
            DType::I8 => &[-128.0, 127.0, -1.0],
            DType::U8 => &[0.0, 255.0],
            DType::I16 => &[-32768.0, 32767.0],
            DType::U16 => &[65535.0],
            DType::I32 => &[-2147483648.0, 2147483647.0],
            DType::U32 => &[4294967295.0],
            DType::I64 => &[-9223372036854775808.0, -9007199254740991.0],
            DType::U64 => &[9223372036854775808.0, 9007199254740991.0],
            _ => &[-0.0, 1.5, f64::INFINITY, f64::NEG_INFINITY, -0.375],
        };
        let tensor = of(dtype, limits);
        let file = TensorFile::from_bytes("x.npy", written(&tensor), VoidType::default()).expect("opened");
        let mut bytes = Vec::new();
        write_safetensors(&mut bytes, [("x", &tensor)]).expect("written");
        let other = TensorFile::from_bytes("x.safetensors", bytes, VoidType::default()).expect("opened");
        for file in [file, other] {
            let read = file.read("x").expect("read");
            assert_eq!((read.dtype, bits(&read.values.into_f64())), (dtype, bits(limits)));
        }
    }
}

#[test]
fn what_a_type_cannot_hold_is_not_written() {
    for (dtype, value) in [
        (DType::Bool, 0.5),
        (DType::Bool, 2.0),
        (DType::I8, 128.0),
        (DType::U8, -1.0),
        (DType::I16, 0.25),
        (DType::I32, f64::NAN),
        (DType::U32, f64::INFINITY),
        (DType::I64, 9223372036854775808.0),
        (DType::U64, 18446744073709551616.0),
    ] {
        let error = write_npy(&mut Vec::new(), &of(dtype, &[0.0, value])).expect_err("refused").to_string();
        assert_eq!(error, format!("the value {value} cannot be held by {dtype}"));
    }
    let mut tensor = of(DType::F32, &[1.0, 2.0]);
    tensor.shape = vec![3];
    let error = write_npy(&mut Vec::new(), &tensor).expect_err("refused").to_string();
    assert_eq!(error, "2 values for the shape (3,)");
    let sound = of(DType::F32, &[1.0]);
    let error = write_safetensors(&mut Vec::new(), [("q", &sound), ("q", &sound)]).expect_err("refused").to_string();
    assert_eq!(error, "two arrays have the name 'q'");
    assert!(write_safetensors(&mut Vec::new(), [("__metadata__", &sound)]).is_err());
}

/// As the activations of a trained encoder are stored: names with dots, text beside the arrays, a mask of the lowest finite
/// f32, token numbers of 64 bits.
#[test]
fn a_file_laid_out_like_that_of_a_trained_encoder_is_read() {
    let lowest = -3.402_823_5e38_f32;
    let mask: Vec<u8> = [0.0, 0.0, lowest].iter().flat_map(|entry: &f32| entry.to_le_bytes()).collect();
    let tokens: Vec<u8> = [101_i64, 2154, 0].iter().flat_map(|entry| entry.to_le_bytes()).collect();
    let header = r#"{"__metadata__":{"model":"encoder","scale":"1/sqrt(32)"},
        "padded.layer3.mask":{"dtype":"F32","shape":[1,1,1,3],"data_offsets":[24,36]},
        "padded.input_ids":{"dtype":"I64","shape":[1,3],"data_offsets":[0,24]}}"#;
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &tokens, &mask].concat();
    let file = TensorFile::from_bytes("x.safetensors", bytes, VoidType::default()).expect("opened");
    assert_eq!(file.names().collect::<Vec<_>>(), ["padded.input_ids", "padded.layer3.mask"]);
    assert_eq!(file.read("padded.input_ids").expect("read").values, Values::F64(vec![101.0, 2154.0, 0.0]));
    let row = file.read_block("padded.layer3.mask", &[0, 0]).expect("read");
    assert_eq!((row.shape, row.values), (vec![1, 3], Values::F32(vec![0.0, 0.0, lowest])));
}

#[test]
fn several_threads_read_one_compressed_array() {
    let file = open("deflated.npz");
    let whole = file.read("q").expect("read").values.into_f64();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (file, whole) = (&file, &whole);
            scope.spawn(move || {
                for round in 0..60 {
                    let (batch, head) = ((round + thread) % 2, (round * 7 + thread) % 3);
                    let block = file.read_block("q", &[batch, head]).expect("read").values.into_f64();
                    assert_eq!(block, whole[(batch * 3 + head) * 35..][..35]);
                }
            });
        }
    });
}

/// A file of 20 GiB with two arrays, without the blocks on the disk: only what is asked for is read.
#[cfg(target_os = "linux")]
#[test]
fn of_a_file_of_twenty_gibibytes_only_the_block_asked_for_is_read() {
    use std::io::{Seek, SeekFrom, Write};
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sparse.safetensors");
    let first: u64 = 20 << 30;
    let rows = first / 2 / 64 / 32;
    let header = format!(
        r#"{{"p":{{"dtype":"F16","shape":[1,32,{rows},64],"data_offsets":[0,{first}]}},"v":{{"dtype":"F32","shape":[2],"data_offsets":[{first},{}]}}}}"#,
        first + 8
    );
    let mut file = std::fs::File::create(&path).expect("created");
    file.write_all(&(header.len() as u64).to_le_bytes()).expect("written");
    file.write_all(header.as_bytes()).expect("written");
    let data = 8 + header.len() as u64;
    // The last row of head 30 is ones: 0x3c00 in f16.
    file.seek(SeekFrom::Start(data + 31 * rows * 128 - 128)).expect("sought");
    file.write_all(&[0, 0x3c].repeat(64)).expect("written");
    file.seek(SeekFrom::Start(data + first)).expect("sought");
    file.write_all(&[1.5_f32.to_le_bytes(), (-2.0_f32).to_le_bytes()].concat()).expect("written");
    drop(file);

    // What this thread has read, by the kernel's count.
    let read_so_far = || -> u64 {
        let counts = std::fs::read_to_string("/proc/thread-self/io").unwrap_or_default();
        let line = counts.lines().find_map(|line| line.strip_prefix("rchar: "));
        line.map_or(0, |count| count.parse().expect("a number"))
    };
    let before = read_so_far();
    let file = TensorFile::open(&path).expect("opened");
    assert_eq!(file.info("p").expect("known").bytes() as u64, first);
    let rows = usize::try_from(rows).expect("small");
    let last = file.read_rows("p", &[0, 30], rows - 3..rows).expect("read");
    assert_eq!(last.shape, [3, 64]);
    let sums: Vec<f64> = last.values.into_f64().chunks(64).map(|row| row.iter().sum()).collect();
    assert_eq!(sums, [0.0, 0.0, 64.0]);
    assert_eq!(file.read("v").expect("read").values, Values::F32(vec![1.5, -2.0]));
    let read = read_so_far() - before;
    assert!(read < 10_000, "{read} bytes were read");
}

#[test]
fn a_file_that_becomes_shorter_meanwhile_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("c_4d.npy");
    std::fs::copy(self::folder().join("c_4d.npy"), &path).expect("copied");
    let file = TensorFile::open(&path).expect("opened");
    std::fs::OpenOptions::new().write(true).open(&path).expect("opened").set_len(500).expect("cut");
    assert!(file.read_block("c_4d", &[0, 0]).is_ok(), "the part that is there");
    let error = file.read("c_4d").expect_err("too short").to_string();
    assert_eq!(error, format!("{}: the file has become shorter since it was opened", path.display()));
}

#[cfg(unix)]
#[test]
fn a_pipe_is_read_like_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mask.npy");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().expect("run").success());
    let writer = {
        let path = path.clone();
        std::thread::spawn(move || std::fs::copy(self::folder().join("bool.npy"), path))
    };
    let read = TensorFile::open(&path).expect("opened").read("mask").expect("read");
    writer.join().expect("joined").expect("copied");
    assert_eq!(read.values, open("bool.npy").read("bool").expect("read").values);
}
