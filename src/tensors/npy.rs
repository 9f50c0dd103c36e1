//! The header of .npy (NumPy Enhancement Proposal 1, format versions 1.0 to 3.0).
//!
//! Magic `\x93NUMPY`, two bytes of version, the length of the header (two bytes in version 1, four after it, little-endian), and
//! the header: a Python dictionary of exactly three entries,
//! `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`, padded with spaces. The entries of the array follow.
//!
//! It is read by a parser of these dictionaries alone and not of Python literals: nothing can nest, nothing is evaluated. (The
//! crate npyz parses literals in general, by pest, whose stack guard compiles assembler with the system's C compiler.)

use anyhow::{Result, anyhow, bail, ensure};

use super::dtype::{ByteOrder, DType, Order, SUPPORTED, TensorInfo, VoidType};

/// What every .npy begins with.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// The longest header that is read. NumPy writes some hundred bytes, longer ones for structured types only.
const LARGEST_HEADER: usize = 1 << 16;

/// The bytes from which [`head_length`] tells how long the header is.
pub(super) const PREFIX: usize = 12;

/// How many bytes [`read_header`] needs of an array that begins with `prefix`; no more than it would read.
pub(super) fn head_length(prefix: &[u8]) -> usize {
    match prefix.get(6..PREFIX) {
        Some([1, _, low, high, ..]) => 10 + usize::from(u16::from_le_bytes([*low, *high])),
        Some([_, _, length @ ..]) => {
            let length = u32::from_le_bytes(length.try_into().unwrap_or_default());
            PREFIX + usize::try_from(length).unwrap_or(LARGEST_HEADER).min(LARGEST_HEADER)
        }
        _ => prefix.len(),
    }
}

/// What the header says.
#[derive(Debug)]
pub(super) struct NpyHeader {
    /// Where in the file the entries begin.
    pub data_start: u64,
    /// The array, or why it cannot be read.
    pub info: Result<TensorInfo>,
}

/// Reads the header from `head`, the first bytes of an array of `length` bytes.
///
/// # Errors
/// There is no such header. A header of an array that is not supported is no error here: see [`NpyHeader::info`].
pub(super) fn read_header(head: &[u8], length: u64, void: VoidType) -> Result<NpyHeader> {
    ensure!(head.starts_with(MAGIC), "no .npy: it does not begin with \\x93NUMPY");
    let prefix = |end: usize| head.get(..end).ok_or_else(|| anyhow!("ends within the header, after {length} bytes"));
    let (major, minor) = (prefix(8)?[6], head[7]);
    let (text_start, text_length) = match (major, minor) {
        (1, 0) => (10, usize::from(u16::from_le_bytes([prefix(10)?[8], head[9]]))),
        (2 | 3, 0) => {
            let bytes = [prefix(12)?[8], head[9], head[10], head[11]];
            (12, usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(usize::MAX))
        }
        _ => bail!("version {major}.{minor} of .npy; 1.0, 2.0 and 3.0 are read"),
    };
    ensure!(text_length <= LARGEST_HEADER, "a header of {text_length} bytes; up to {LARGEST_HEADER} are read");
    let text = &prefix(text_start + text_length)?[text_start..];
    let fields = Fields::parse(text)?;
    let data_start = (text_start + text_length) as u64;
    let info = fields.info(void).and_then(|mut info| {
        let held = length.saturating_sub(data_start);
        let needed = info.bytes() as u64;
        ensure!(
            held >= needed,
            "the header promises {needed} bytes of data, the file holds {held}: it is truncated or its header is wrong"
        );
        if held > needed {
            info.notices.push(format!("{} bytes after the array are not read", held - needed));
        }
        Ok(info)
    });
    Ok(NpyHeader { data_start, info })
}

/// The header of version 1.0 that NumPy would write, padded so that the entries begin at a multiple of 64.
pub(super) fn header(descr: &str, shape: &[usize]) -> Vec<u8> {
    let shape = super::dtype::shown_shape(shape);
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    text.extend(std::iter::repeat_n(' ', length - 1 - text.len()));
    text.push('\n');
    let length = u16::try_from(length).expect("four axes of twenty digits are far below 65536");
    [MAGIC, &[1, 0], &length.to_le_bytes(), text.as_bytes()].concat()
}

/// The three entries of the dictionary.
#[derive(Debug)]
struct Fields {
    descr: Descr,
    order: Order,
    shape: Option<Vec<usize>>,
}

/// The type as written.
#[derive(Debug)]
enum Descr {
    /// `<f4`
    Simple(String),
    /// A list or a tuple: several fields, or an array in each entry.
    Structured,
}

impl Fields {
    fn parse(text: &[u8]) -> Result<Self> {
        let unreadable =
            |reason: &str| anyhow!("the header is no dictionary of descr, fortran_order and shape: {reason}");
        let text = std::str::from_utf8(text).ok().filter(|text| text.is_ascii());
        let mut parser = Parser { rest: text.ok_or_else(|| unreadable("it is not ASCII"))? };
        let (mut descr, mut order, mut shape) = (None, None, None);
        let mut parse = || -> std::result::Result<(), &'static str> {
            parser.expect('{')?;
            while !parser.accept('}') {
                let key = parser.string()?;
                parser.expect(':')?;
                let twice = match key {
                    "descr" if parser.peek('[') || parser.peek('(') => {
                        // The end of the list would take a parser of all of Python's literals, to refuse it after all.
                        descr = Some(Descr::Structured);
                        return Ok(());
                    }
                    "descr" => descr.replace(Descr::Simple(parser.string()?.to_string())).is_some(),
                    "fortran_order" => order.replace(parser.order()?).is_some(),
                    "shape" => shape.replace(parser.shape()?).is_some(),
                    _ => return Err("another key"),
                };
                if twice {
                    return Err("a key comes twice");
                }
                if !parser.accept(',') && !parser.peek('}') {
                    return Err("no comma between entries");
                }
            }
            if !parser.rest.trim().is_empty() {
                return Err("something after the dictionary");
            }
            Ok(())
        };
        parse().map_err(unreadable)?;
        if let Some(Descr::Structured) = descr {
            return Ok(Self { descr: Descr::Structured, order: Order::C, shape: None });
        }
        match (descr, order, shape) {
            (Some(descr), Some(order), Some(shape)) => Ok(Self { descr, order, shape }),
            (None, ..) => Err(unreadable("descr is missing")),
            (_, None, _) => Err(unreadable("fortran_order is missing")),
            (_, _, None) => Err(unreadable("shape is missing")),
        }
    }

    fn info(self, void: VoidType) -> Result<TensorInfo> {
        let Descr::Simple(descr) = self.descr else {
            bail!("a structured type, several values an entry; supported are {SUPPORTED}, one array a type");
        };
        let shape = self.shape.ok_or_else(|| anyhow!("the shape has an axis longer than any memory"))?;
        let (dtype, byte_order) = entry_type(&descr, void)?;
        let mut info = TensorInfo::new(dtype, shape, self.order, byte_order)?;
        if descr.ends_with("V2") {
            info.notices.insert(0, format!("two-byte voids ({descr}) are read as {dtype}; --void-as bf16|f16 chooses"));
        }
        Ok(info)
    }
}

/// `<f4` → f32, little-endian.
fn entry_type(descr: &str, void: VoidType) -> Result<(DType, ByteOrder)> {
    let shown: String = descr.chars().take(20).collect();
    let mut letters = descr.chars();
    let first = letters.next();
    let (byte_order, name) = match first {
        Some('<') => (Some(ByteOrder::Little), letters.as_str()),
        Some('>') => (Some(ByteOrder::Big), letters.as_str()),
        Some('=') => {
            (Some(if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little }), letters.as_str())
        }
        Some('|') => (None, letters.as_str()),
        _ => (None, descr),
    };
    let dtype = match name {
        "f8" => DType::F64,
        "f4" => DType::F32,
        "f2" => DType::F16,
        "V2" => void.dtype(),
        "b1" | "?" => DType::Bool,
        "i1" => DType::I8,
        "i2" => DType::I16,
        "i4" => DType::I32,
        "i8" => DType::I64,
        "u1" => DType::U8,
        "u2" => DType::U16,
        "u4" => DType::U32,
        "u8" => DType::U64,
        "O" => bail!("Python objects ({shown}): a pickle, which is never run; supported are {SUPPORTED}"),
        _ => bail!("type '{shown}'; supported are {SUPPORTED}"),
    };
    match byte_order {
        Some(byte_order) => Ok((dtype, byte_order)),
        None if dtype.size() == 1 || name == "V2" => Ok((dtype, ByteOrder::Little)),
        None => bail!("type '{shown}' does not say which byte comes first: < or >"),
    }
}

/// What is left of the header.
struct Parser<'a> {
    rest: &'a str,
}

type Parsed<T> = std::result::Result<T, &'static str>;

impl<'a> Parser<'a> {
    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn peek(&mut self, character: char) -> bool {
        self.skip_spaces();
        self.rest.starts_with(character)
    }

    fn accept(&mut self, character: char) -> bool {
        let found = self.peek(character);
        if found {
            self.rest = &self.rest[character.len_utf8()..];
        }
        found
    }

    fn expect(&mut self, character: char) -> Parsed<()> {
        if self.accept(character) { Ok(()) } else { Err("a bracket, colon or quote is missing") }
    }

    /// `'text'` or `"text"`, without escapes.
    fn string(&mut self) -> Parsed<&'a str> {
        let quote = if self.peek('"') { '"' } else { '\'' };
        self.expect(quote)?;
        let (text, rest) = self.rest.split_once(quote).ok_or("a string does not end")?;
        if text.contains('\\') {
            return Err("a string has a backslash");
        }
        self.rest = rest;
        Ok(text)
    }

    fn order(&mut self) -> Parsed<Order> {
        self.skip_spaces();
        for (word, order) in [("True", Order::Fortran), ("False", Order::C)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(order);
            }
        }
        Err("fortran_order is neither True nor False")
    }

    /// `(3, 4)`, `(3,)`, `()`; `None` if an axis is too long to count. Python 2 wrote `3L`.
    fn shape(&mut self) -> Parsed<Option<Vec<usize>>> {
        self.expect('(')?;
        let mut axes = Vec::new();
        let mut countable = true;
        while !self.accept(')') {
            self.skip_spaces();
            let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 {
                return Err("an axis of the shape is no natural number");
            }
            let (number, rest) = self.rest.split_at(digits);
            self.rest = rest.strip_prefix('L').unwrap_or(rest);
            match number.parse() {
                Ok(axis) => axes.push(axis),
                Err(_) => countable = false,
            }
            let comma = self.accept(',');
            if !comma && (!self.peek(')') || axes.len() == 1) {
                return Err("no comma in the shape");
            }
        }
        Ok(countable.then_some(axes))
    }
}
