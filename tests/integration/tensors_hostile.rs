//! Files of arrays that are broken, or made to do harm: one clear line each, never a panic.

use std::path::PathBuf;

use attn::tensors::{FileFormat, TensorFile, VoidType};

fn golden(file: &str) -> Vec<u8> {
    std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tensors").join(file)).expect(file)
}

/// What opening the bytes and reading every array says is wrong.
fn error_of(bytes: &[u8]) -> String {
    let file = match TensorFile::from_bytes("x.bin", bytes.to_vec(), VoidType::default()) {
        Ok(file) => file,
        Err(error) => return line(&error),
    };
    let mut errors = file.names().filter_map(|name| file.read(name).err());
    errors.next().map_or_else(|| "no error".to_string(), |error| line(&error))
}

/// The error as main prints it: one line that begins with the file.
fn line(error: &anyhow::Error) -> String {
    let line = format!("{error:#}");
    assert!(line.starts_with("x.bin: ") && line.chars().all(|character| !character.is_control()), "{line:?}");
    assert!(line.len() < 2000, "{line}");
    line["x.bin: ".len()..].to_string()
}

#[track_caller]
fn refused(bytes: &[u8], expected: &str) {
    let error = error_of(bytes);
    assert!(error.contains(expected), "'{error}' does not say '{expected}'");
}

fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(header.len()).expect("short");
    [b"\x93NUMPY\x01\x00", &length.to_le_bytes()[..], header.as_bytes(), data].concat()
}

fn npy_of(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    npy(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"), data)
}

fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// A member of an archive, with whatever it claims.
struct Member<'a> {
    name: &'a [u8],
    method: u16,
    flags: u16,
    crc: u32,
    packed: &'a [u8],
    length: u32,
}

fn stored<'a>(name: &'a str, content: &'a [u8]) -> Member<'a> {
    let mut crc = flate2::Crc::new();
    crc.update(content);
    let length = u32::try_from(content.len()).expect("short");
    Member { name: name.as_bytes(), method: 0, flags: 0, crc: crc.sum(), packed: content, length }
}

/// The archive of these members (APPNOTE 6.3: local headers, directory, end).
fn archive(members: &[Member]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for member in members {
        let start = u32::try_from(bytes.len()).expect("short");
        let mut common = Vec::new();
        common.extend(20_u16.to_le_bytes());
        common.extend(member.flags.to_le_bytes());
        common.extend(member.method.to_le_bytes());
        common.extend([0; 4]);
        common.extend(member.crc.to_le_bytes());
        common.extend(u32::try_from(member.packed.len()).expect("short").to_le_bytes());
        common.extend(member.length.to_le_bytes());
        common.extend(u16::try_from(member.name.len()).expect("short").to_le_bytes());
        common.extend([0; 2]);
        bytes.extend([b"PK\x03\x04", &common[..], member.name, member.packed].concat());
        directory.extend([b"PK\x01\x02\x14\x00", &common[..], &[0; 10], &start.to_le_bytes(), member.name].concat());
    }
    let count = u16::try_from(members.len()).expect("few").to_le_bytes();
    let (size, start) = (directory.len() as u32, bytes.len() as u32);
    bytes.extend(directory);
    bytes.extend(
        [b"PK\x05\x06\0\0\0\0", &count[..], &count, &size.to_le_bytes(), &start.to_le_bytes(), &[0; 2]].concat(),
    );
    bytes
}

#[test]
fn what_is_no_file_of_arrays_is_said_to_be_what_it_is() {
    refused(b"", "is empty; .npy, .npz and .safetensors are read");
    refused(b"q,k\n1,2\n", "is none of the formats");
    refused(b"\x80\x04\x95\x10", "a pickle, which is never run");
    refused(b"\x89HDF\r\n\x1a\n", "is HDF5");
    refused(b"GGUF\x03\0\0\0", "is GGUF");
    refused(b"\x1f\x8b\x08\0\0\0", "gzip");
    refused(&golden("refused_pickle.npz"), "a zip archive without .npy (it has 'archive/data.pkl')");
}

#[test]
fn a_folder_and_a_missing_file_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = TensorFile::open(folder.path()).expect_err("a folder").to_string();
    assert!(error.starts_with(&folder.path().display().to_string()) && error.contains("is a folder"), "{error}");
    let missing = folder.path().join("missing.npy");
    let error = TensorFile::open(&missing).expect_err("missing").to_string();
    assert!(error.starts_with(&missing.display().to_string()) && error.contains("No such file"), "{error}");
}

#[test]
fn objects_and_other_types_are_refused_and_never_run() {
    refused(&golden("refused_object.npy"), "Python objects (|O): a pickle, which is never run");
    refused(&golden("refused_structured.npy"), "a structured type, several values an entry; supported are f64, f32");
    refused(&golden("refused_complex.npy"), "type '<c8'; supported are f64, f32, f16, bf16, bool");
    refused(&golden("refused_text.npy"), "type '<U3'");
    refused(&golden("refused_f8.safetensors"), "'f8': type F8_E4M3; supported are");
    refused(&npy_of("'|V1'", "(2,)", &[0; 2]), "type '|V1'");
    refused(&npy_of("('<f4', (3,))", "(2,)", &[0; 24]), "a structured type");
    refused(&npy_of("'f4'", "(2,)", &[0; 8]), "does not say which byte comes first");
    // The array beside it can be read.
    let file = TensorFile::from_bytes("x", golden("refused_object.npz"), VoidType::default()).expect("opened");
    assert_eq!(file.read("q").expect("read").shape, [2, 3]);
    assert!(file.read("bad").expect_err("an object").to_string().contains("'bad': Python objects"));
}

#[test]
fn broken_npy_headers_are_refused() {
    let data = [0; 24];
    refused(b"\x93NUMPY", "ends within the header");
    refused(&npy_of("'<f4'", "(2, 3)", &data)[..40], "ends within the header, after 40 bytes");
    refused(&[b"\x93NUMPY\x04\x00", &[0; 60][..]].concat(), "version 4.0 of .npy; 1.0, 2.0 and 3.0 are read");
    refused(
        &[b"\x93NUMPY\x02\x00\xff\xff\xff\xff", &[b' '; 60][..]].concat(),
        "a header of 4294967295 bytes; up to 65536",
    );
    for header in [
        "",
        "{",
        "[]",
        "{}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'shape': (2, 3)}",
        "{'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2.0, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (6)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [2, 3]}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'shape': (3, 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} + exit()",
        "{'descr': '<f\\x34', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': Fälse, 'shape': (2, 3)}",
        "{'descr': '<f4",
    ] {
        refused(&npy(header, &data), "the header is no dictionary of descr, fortran_order and shape: ");
    }
    // Nothing nests: the depth that stops a parser of all Python costs nothing.
    refused(&npy_of("'<f4'", &"(".repeat(60_000), &data), "an axis of the shape is no natural number");
    // What NumPy and Python 2 write otherwise is read.
    for header in [
        "{\"shape\": (2, 3), \"fortran_order\": False, \"descr\": \"<f4\"}",
        "{'descr':'<f4','fortran_order':False,'shape':(2,3,),}   \n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L)}",
    ] {
        assert_eq!(error_of(&npy(header, &data)), "no error", "{header}");
    }
}

#[test]
fn sizes_that_the_file_does_not_hold_are_refused_before_memory_is_taken() {
    refused(
        &npy_of("'<f4'", "(2, 3)", &[0; 23]),
        "the header promises 24 bytes of data, the file holds 23: it is truncated",
    );
    refused(
        &npy_of("'<f4'", "(1000000, 1000000)", &[0; 24]),
        "promises 4000000000000 bytes of data, the file holds 24",
    );
    let huge = usize::MAX.to_string();
    refused(&npy_of("'<f4'", &format!("({huge}, 3)"), &[0; 24]), "is larger than any memory");
    refused(&npy_of("'<f4'", "(4294967296, 4294967296)", &[0; 24]), "is larger than any memory");
    // An axis of length zero does not hide the others.
    refused(&npy_of("'<f4'", "(0, 4294967296, 4294967296)", &[]), "is larger than any memory");
    refused(&npy_of("'<f4'", &format!("({huge}0,)"), &[0; 24]), "an axis longer than any memory");
    refused(&npy_of("'<f4'", "(1, 1, 1, 2, 3)", &[0; 24]), "has 5 axes; up to 4 are read");
}

#[test]
fn bytes_after_the_array_are_reported() {
    let file =
        TensorFile::from_bytes("x.npy", npy_of("'<f4'", "(2, 3)", &[0; 31]), VoidType::default()).expect("opened");
    assert_eq!(file.info("x").expect("known").notices, ["7 bytes after the array are not read"]);
}

/// NumPy's rule; files of other making have 0xff.
#[test]
fn every_byte_of_bool_but_zero_is_true() {
    let file =
        TensorFile::from_bytes("x", npy_of("'|b1'", "(4,)", &[0, 1, 2, 0xff]), VoidType::default()).expect("opened");
    assert_eq!(file.read("x").expect("read").values.into_f64(), [0.0, 1.0, 1.0, 1.0]);
}

#[test]
fn integers_that_f64_cannot_hold_are_refused() {
    let exact = |integer: i64| npy_of("'<i8'", "(1,)", &integer.to_le_bytes());
    // 2^53 + 1 is the first integer that f64 rounds; ±2^63 and the like are powers of two.
    refused(&exact((1 << 53) + 1), "the entry 9007199254740993 of type i64 cannot be held by f64");
    for held in [1 << 53, -(1 << 53), i64::MIN] {
        let file = TensorFile::from_bytes("x", exact(held), VoidType::default()).expect("opened");
        assert_eq!(file.read("x").expect("read").values.at(0), held as f64);
    }
    refused(&exact(i64::MAX), "9223372036854775807");
    refused(&npy_of("'<u8'", "(1,)", &u64::MAX.to_le_bytes()), "the entry 18446744073709551615 of type u64");
}

#[test]
fn broken_safetensors_are_refused() {
    let entry = |name: &str, shape: &str, from: u64, to: u64| {
        format!(r#""{name}":{{"dtype":"F32","shape":{shape},"data_offsets":[{from},{to}]}}"#)
    };
    let one = |entry: &str, data: &[u8]| safetensors(&format!("{{{entry}}}"), data);
    assert_eq!(error_of(&one(&entry("q", "[2,3]", 0, 24), &[0; 24])), "no error");
    refused(
        &one(&entry("q", "[2,3]", 0, 24), &[0; 23]),
        "promises 24 bytes of data, the file holds 23: it is truncated",
    );
    refused(&one(&entry("q", "[2,3]", 0, 24), &[0; 25]), "promises 24 bytes of data, the file holds 25");
    refused(&one(&entry("q", "[2,3]", 0, 20), &[0; 20]), "shape and type do not fit the length of its data");
    refused(&one(&entry("q", "[2,3]", 4, 28), &[0; 28]), "'q' overlap another's, leave a gap");
    refused(
        &one(&entry("q", "[2,3]", 24, 0), &[0; 24]),
        "'q' overlap another's, leave a gap, or end before they begin",
    );
    let (q, k) = (entry("q", "[2,3]", 0, 24), entry("k", "[2,3]", 20, 44));
    refused(&one(&format!("{q},{k}"), &[0; 44]), "'k' overlap");
    refused(&one(&format!("{q},{q}"), &[0; 24]), "two entries have the name 'q'");
    let empty = entry("q", "[0]", 0, 0);
    refused(&one(&format!("{empty},{empty}"), &[]), "two entries have the name 'q'");
    refused(&one(&entry("q", "[4294967296,4294967296]", 0, 24), &[0; 24]), "larger than any memory");
    refused(&one(&entry("q", "[18446744073709551616]", 0, 24), &[0; 24]), "the header of .safetensors is broken");
    refused(&one(&entry("q", "[-1]", 0, 24), &[0; 24]), "the header of .safetensors is broken");
    refused(&one(&entry("q", "[1,1,1,2,3]", 0, 24), &[0; 24]), "'q': the shape (1, 1, 1, 2, 3) has 5 axes");
    refused(&one(r#""q":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}"#, &[0; 4]), "unknown variant `F33`");
    refused(&one(r#""q":"#, &[]), "the header of .safetensors is broken");
    refused(&one(&format!("{q}}} {{"), &[0; 24]), "the header of .safetensors is broken");
    refused(&one(&format!("\"q\":{}", "[".repeat(100_000)), &[]), "the header of .safetensors is broken");
    refused(&one("\"\u{1}\n\":1", &[]), "the header of .safetensors is broken");
    refused(
        &safetensors("{\"\u{e4}\":1", &[])
            .iter()
            .map(|byte| if *byte == 0xc3 { 0xff } else { *byte })
            .collect::<Vec<_>>(),
        "it is not UTF-8",
    );
    let length = |length: u64| [&length.to_le_bytes()[..], b"{\"q\":"].concat();
    refused(&length(u64::MAX), "a header of 18446744073709551615 bytes is promised, 5 bytes follow");
    refused(&length(6), "a header of 6 bytes is promised, 5 bytes follow");
    refused(
        &[&(1_u64 << 25).to_le_bytes()[..], b"{", &vec![b' '; 1 << 25][..]].concat(),
        "a header of 33554432 bytes; up to 16777216",
    );
    // A file without arrays, and one with text of its own, are sound.
    assert_eq!(error_of(&safetensors("{}", &[])), "no error");
    assert_eq!(error_of(&one(&format!(r#""__metadata__":{{"format":"pt"}},{q}"#), &[0; 24])), "no error");
}

#[test]
fn broken_archives_are_refused() {
    let array = npy_of("'<f4'", "(2, 3)", &[7; 24]);
    let sound = archive(&[stored("q.npy", &array), stored("k.npy", &array), stored("readme.txt", b"text")]);
    assert_eq!(error_of(&sound), "no error");
    refused(&sound[..sound.len() - 30], "the zip archive is broken or truncated");
    refused(b"PK\x03\x04", "the zip archive is broken or truncated");
    refused(&golden("refused_twice.npz"), "two members of the archive have one name");
    refused(&archive(&[stored("q.npy", &array), stored("q.npy", &array)]), "two members of the archive have one name");
    refused(&archive(&[stored("readme.txt", b"text")]), "a zip archive without .npy (it has 'readme.txt')");
    let with = |change: &dyn Fn(&mut Member)| {
        let mut member = stored("q.npy", &array);
        change(&mut member);
        archive(&[member])
    };
    refused(&with(&|member| member.name = b"\xff\xfe.npy"), "the name of a member is not UTF-8");
    refused(&with(&|member| member.method = 12), "'q': compressed by");
    refused(&with(&|member| member.flags = 1), "'q': encrypted");
    refused(&with(&|member| member.crc ^= 1), "'q': the checksum of the member is wrong: the file is damaged");
    refused(&with(&|member| member.length += 1), "'q': stored in");
    refused(&with(&|member| member.name = b"q\n\x1b[31m.npy; \x07.npy"), "no error");
}

#[test]
fn names_with_control_characters_stay_on_one_line() {
    let array = npy_of("'<f4'", "(2, 3)", &[7; 23]);
    refused(&archive(&[stored("a\n\u{1b}[31m.npy", &array)]), "'a\\n\\u{1b}[31m': the header promises 24");
    refused(&archive(&[stored(&format!("{}.npy", "a".repeat(5000)), &array)]), "aaa…': the header promises 24");
}

#[test]
fn an_archive_that_promises_more_than_it_can_become_is_refused() {
    use std::io::Write as _;
    let deflate = |content: &[u8]| {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(content).expect("written");
        encoder.finish().expect("finished")
    };
    let zeros = npy_of("'<f4'", "(1000, 1000)", &vec![0; 4_000_000]);
    let (packed, mut crc) = (deflate(&zeros), flate2::Crc::new());
    crc.update(&zeros);
    assert!(packed.len() < 5000, "{}", packed.len());
    let member = |packed, length: usize| Member {
        name: b"q.npy",
        method: 8,
        flags: 0,
        crc: crc.sum(),
        packed,
        length: u32::try_from(length).expect("short"),
    };
    assert_eq!(error_of(&archive(&[member(&packed, zeros.len())])), "no error");
    refused(
        &archive(&[member(&packed, 4_000_000_000)]),
        "bytes in the archive cannot become the 4000000000 it promises",
    );
    // The length that the archive gives and the length that the array's header gives must be the same.
    refused(&archive(&[member(&packed, zeros.len() + 1)]), "the header of the array");
    let squares: Vec<u8> = (0..4_000_000_u32).map(|index| (index.wrapping_mul(index) >> 7) as u8).collect();
    let lying = deflate(&npy_of("'<f4'", "(1000, 1000)", &squares[..3_000_000]));
    refused(&archive(&[member(&lying, zeros.len())]), "the deflated data are broken or truncated");
    refused(&archive(&[member(&lying[..lying.len() / 2], zeros.len())]), "the deflated data are broken or truncated");
    // Packed data that go on after the promised length are not the member the archive describes.
    let longer = deflate(&[&zeros[..], &[1, 2, 3]].concat());
    refused(&archive(&[member(&longer, zeros.len())]), "the deflated data go on");
}

/// Numbers without a pattern (splitmix64, Steele et al. 2014).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// What the text of a header may be replaced by.
const WORDS: [&[u8]; 22] = [
    b"0",
    b"1",
    b"-1",
    b"99999999999999999999",
    b"4294967296",
    b"18446744073709551615",
    b"(",
    b")",
    b"[",
    b"]",
    b"{",
    b"}",
    b"'",
    b"\"",
    b",",
    b":",
    b"True",
    b"|O",
    b"<f8",
    b"|V2",
    b"\"F64\"",
    b"\xff",
];

fn mutate(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..1 + dice.below(4) {
        // Headers are at the beginning, an archive's directory at the end.
        let length = bytes.len();
        let at = match dice.below(3) {
            0 => dice.below(length.min(160)),
            1 => length.saturating_sub(1 + dice.below(length.min(400))),
            _ => dice.below(length),
        };
        let end = |count: usize| (at + count).min(length);
        match dice.below(7) {
            0 if length > 0 => bytes[at] ^= 1 << dice.below(8),
            1 if length > 0 => bytes[at] = dice.next() as u8,
            2 => bytes.truncate(at),
            3 => {
                let extreme = [0, 1, 0x7f, 0x80, 0xff, 0xfe][dice.below(6)];
                bytes[at..end([2, 4, 8][dice.below(3)])].fill(extreme);
            }
            4 => {
                let word = WORDS[dice.below(WORDS.len())];
                let replaced = end(dice.below(4));
                bytes.splice(at..replaced, word.iter().copied());
            }
            5 => drop(bytes.drain(at..end(1 + dice.below(12)))),
            _ => {
                let copied = bytes[at..end(1 + dice.below(60))].to_vec();
                let to = dice.below(length);
                bytes.splice(to..to, copied);
            }
        }
    }
}

/// Opens the bytes and reads everything in them; nothing may panic, an error is one line, and what is read has the size it
/// should have and that the file can justify. Returns whether anything could be read.
fn survive(bytes: Vec<u8>) -> bool {
    let length = bytes.len();
    let file = match TensorFile::from_bytes("x.bin", bytes, VoidType::default()) {
        Ok(file) => file,
        Err(error) => {
            line(&error);
            return false;
        }
    };
    let most = if file.format() == FileFormat::Npz { length * 1033 } else { length };
    let mut read_any = false;
    for name in file.names() {
        let info = match file.info(name) {
            Ok(info) => info,
            Err(error) => {
                line(&error);
                continue;
            }
        };
        assert!(info.bytes() <= most, "{} bytes of {length}", info.bytes());
        match file.read(name) {
            Ok(tensor) => {
                assert_eq!(tensor.shape, info.shape);
                assert_eq!(tensor.values.len(), info.len());
                read_any = true;
            }
            Err(error) => drop(line(&error)),
        }
        let inside = info.shape.first().is_some_and(|&length| length > 0);
        match file.read_block(name, &[0]) {
            Ok(block) => assert!(inside && block.shape == info.shape[1..]),
            Err(error) => drop(line(&error)),
        }
        if let Err(error) = file.read_rows(name, &[], 1..2) {
            line(&error);
        }
    }
    read_any
}

/// 20,000 broken files made from sound ones.
fn fuzz(seed: u64, files: &[&str]) {
    let sound: Vec<Vec<u8>> = files.iter().map(|file| golden(file)).collect();
    assert!(sound.iter().all(|bytes| survive(bytes.clone())), "what is sound is read");
    let mut dice = Dice(seed);
    let mut read = 0;
    for _ in 0..20_000 {
        let mut bytes = sound[dice.below(sound.len())].clone();
        mutate(&mut bytes, &mut dice);
        read += usize::from(survive(bytes));
    }
    // Neither harmless nor hopeless: the changes reach what is behind the headers.
    assert!((1000..19_000).contains(&read), "{read} of 20,000 were read");
}

#[test]
fn twenty_thousand_broken_npy_do_no_harm() {
    fuzz(
        1,
        &[
            "c_4d.npy",
            "fortran_3d.npy",
            "fortran_4d.npy",
            "f2_big.npy",
            "i8_little.npy",
            "bf16_void.npy",
            "version2.npy",
            "bool.npy",
        ],
    );
}

#[test]
fn twenty_thousand_broken_npz_do_no_harm() {
    fuzz(2, &["stored.npz", "deflated.npz"]);
}

#[test]
fn twenty_thousand_broken_safetensors_do_no_harm() {
    fuzz(3, &["all.safetensors"]);
}
