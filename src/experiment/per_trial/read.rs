//! Per-trial files held against the layout that a run would give them.
//!
//! Every field but the values is compared as text, so a file of other parameters, of another version or with a damaged line is found here.
//! Errors are phrases without the file's name.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use csv::{ByteRecord, Position, Reader};

use super::{FIRST, LAST, Layout, SHARED, trials_of};
use crate::experiment::Shard;
use crate::report::command_line;

/// Successive trials of one point that stand together in a file.
#[derive(Debug, Clone)]
pub struct Stretch {
    /// Which point of the run.
    pub point: usize,
    /// Which trials.
    pub trials: Range<u64>,
    /// The planned number of trials of the point.
    pub plan: u64,
    /// Where the first row begins.
    pub position: Position,
}

/// What a file holds.
#[derive(Debug, Clone)]
pub struct Scan {
    /// The shard that its rows name; None where they name none, or there are none.
    pub shard: Option<Shard>,
    /// Its rows, in order of points and trials.
    pub stretches: Vec<Stretch>,
}

impl Scan {
    /// Whether the file has no row: a shard of fewer trials than shards.
    pub fn is_empty(&self) -> bool {
        self.stretches.is_empty()
    }

    /// Checks that the file holds all trials of its shard at every point, the plans of all points being known.
    ///
    /// # Errors
    /// In words, what is missing.
    pub fn check_whole(&self, layout: &Layout, plans: &[u64]) -> Result<(), String> {
        if self.is_empty() {
            return Ok(());
        }
        for (point, &plan) in plans.iter().enumerate() {
            let whole = trials_of(self.shard, plan);
            let found =
                self.stretches.iter().find(|stretch| stretch.point == point).map(|stretch| stretch.trials.clone());
            let found = found.unwrap_or(whole.start..whole.start);
            if found != whole && !(found.is_empty() && whole.is_empty()) {
                let what = self.shard.map_or("the whole run".to_string(), |shard| format!("shard {shard}"));
                return Err(format!(
                    "truncated: it has {} of the {} trials of {what} at {}",
                    found.end - found.start,
                    whole.end - whole.start,
                    layout.point(point)
                ));
            }
        }
        Ok(())
    }
}

/// What of a file a run goes on from.
#[derive(Debug, Clone)]
pub struct Prefix {
    /// The rows that are kept, in order of points and trials.
    pub stretches: Vec<Stretch>,
    /// The length of the file up to the end of the last of them; 0 if not even the header is whole.
    pub bytes: u64,
    /// Whether they are all rows of the run and nothing follows.
    pub whole: bool,
}

fn reader<R: Read>(source: R) -> Reader<R> {
    // The header is compared as any other record; rows of another length are told apart here.
    csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(source)
}

/// What is said of a file that does not end with a line break.
pub const TRUNCATED: &str = "truncated: its last line has no end";

/// How a file ends.
#[derive(Debug, Clone, Copy)]
pub struct End {
    length: u64,
    is_whole: bool,
}

impl End {
    /// Looks at the last byte of `source`, and goes back to its beginning.
    ///
    /// # Errors
    /// Those of `source`.
    pub fn of<R: Read + Seek>(source: &mut R) -> std::io::Result<Self> {
        let length = source.seek(SeekFrom::End(0))?;
        let mut last = [b'\n'];
        if length > 0 {
            source.seek(SeekFrom::Start(length - 1))?;
            source.read_exact(&mut last)?;
        }
        source.seek(SeekFrom::Start(0))?;
        Ok(Self { length, is_whole: last == *b"\n" })
    }

    /// Whether the record that was read up to `position` is the last line and has no end.
    pub fn cuts(self, position: &Position) -> bool {
        !self.is_whole && position.byte() == self.length
    }
}

/// Reads a whole file: the trials of a run, or of one of its shards.
///
/// # Errors
/// The file cannot be read, is of another run, is cut off or damaged.
pub fn scan<R: Read + Seek>(layout: &Layout, mut source: R) -> Result<Scan, String> {
    let end = End::of(&mut source).map_err(|error| error.to_string())?;
    let (mut reader, mut record) = (reader(source), ByteRecord::new());
    check_header(layout, &mut reader, end)?;
    let mut scan = Scan { shard: None, stretches: Vec::new() };
    while reader.read_byte_record(&mut record).map_err(|error| error.to_string())? {
        let position = record.position().cloned().unwrap_or_else(Position::new);
        // What is cut off can look like anything.
        if end.cuts(reader.position()) {
            break;
        }
        let named = |reason: String| format!("line {}: {reason}", position.line());
        let from = scan.stretches.last().map_or(0, |stretch| stretch.point);
        let found = layout.locate(&record, from).map_err(named)?;
        layout.values(found.point, &record).map_err(named)?;
        match scan.stretches.last_mut() {
            Some(_) if found.shard != scan.shard => {
                return Err(named("its shard is not that of the lines before".to_string()));
            }
            Some(last) if last.point == found.point => {
                if (last.trials.end, last.plan) != (found.trial, found.plan) {
                    return Err(named(format!(
                        "trial {} of {} stands where trial {} of {} should",
                        found.trial, found.plan, last.trials.end, last.plan
                    )));
                }
                last.trials.end += 1;
            }
            _ => {
                scan.shard = found.shard;
                let trials = found.trial..found.trial + 1;
                scan.stretches.push(Stretch { point: found.point, trials, plan: found.plan, position });
            }
        }
    }
    if end.is_whole { Ok(scan) } else { Err(TRUNCATED.to_string()) }
}

/// Reads as much of an interrupted file as is whole: the rows of the run from the first on, `plans` being the trials of every point.
/// What follows the first line that is cut off or damaged is not kept, for it can be drawn again.
///
/// # Errors
/// The file cannot be read, or is of another run.
pub fn prefix<R: Read + Seek>(layout: &Layout, plans: &[u64], mut source: R) -> Result<Prefix, String> {
    let file_end = End::of(&mut source).map_err(|error| error.to_string())?;
    let mut prefix = Prefix { stretches: Vec::new(), bytes: 0, whole: false };
    let mut start = Vec::new();
    let header = written_header(layout);
    source.by_ref().take(header.len() as u64).read_to_end(&mut start).map_err(|error| error.to_string())?;
    if start.len() < header.len() && header.starts_with(&start) {
        return Ok(prefix);
    }
    source.seek(SeekFrom::Start(0)).map_err(|error| error.to_string())?;
    let (mut reader, mut record) = (reader(source), ByteRecord::new());
    check_header(layout, &mut reader, file_end)?;
    prefix.bytes = header.len() as u64;
    for (point, &plan) in plans.iter().enumerate() {
        for trial in layout.trials(plan) {
            let more = reader.read_byte_record(&mut record).map_err(|error| error.to_string())?;
            let end = reader.position().byte();
            if !more || file_end.cuts(reader.position()) {
                return Ok(prefix);
            }
            let is_next = layout.locate(&record, point).and_then(|found| {
                let next = (found.point, found.plan, found.trial, found.shard) == (point, plan, trial, layout.shard);
                let next = next.then_some(()).ok_or_else(|| {
                    let (shard, own) = (shard_words(found.shard), shard_words(layout.shard));
                    format!(
                        "it begins with trial {} of {} of {shard}, not with trial {trial} of {plan} of {own}",
                        found.trial, found.plan
                    )
                });
                next.and_then(|()| layout.values(point, &record).map(drop))
            });
            match is_next {
                Ok(()) => {}
                // A first line that is whole says what the file is.
                Err(reason) if prefix.stretches.is_empty() && record.len() == layout.header.len() => {
                    return Err(reason);
                }
                Err(_) => return Ok(prefix),
            }
            prefix.bytes = end;
            match prefix.stretches.last_mut() {
                Some(last) if last.point == point => last.trials.end += 1,
                _ => {
                    let position = record.position().cloned().unwrap_or_else(Position::new);
                    prefix.stretches.push(Stretch { point, trials: trial..trial + 1, plan, position });
                }
            }
        }
    }
    prefix.whole = prefix.bytes == file_end.length;
    Ok(prefix)
}

fn shard_words(shard: Option<Shard>) -> String {
    shard.map_or("the whole run".to_string(), |shard| format!("shard {shard}"))
}

/// Hands the values of a stretch's trials to `each`, in order.
///
/// # Errors
/// The file has changed since it was read, a field is no number, or `each` fails.
pub fn replay<R: Read + Seek>(
    layout: &Layout,
    stretch: &Stretch,
    source: R,
    mut each: impl FnMut(u64, &[f64]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (mut reader, mut record) = (reader(source), ByteRecord::new());
    reader.seek(stretch.position.clone())?;
    for trial in stretch.trials.clone() {
        let line = reader.position().line();
        let values = reader.read_byte_record(&mut record).map_err(|error| error.to_string()).and_then(|more| {
            let found = if more { layout.locate(&record, stretch.point)? } else { return Err("is gone".to_string()) };
            let same = (found.point, found.trial) == (stretch.point, trial);
            if same { layout.values(stretch.point, &record) } else { Err("has changed".to_string()) }
        });
        each(trial, &values.map_err(|reason| anyhow::anyhow!("line {line}: {reason}"))?)?;
    }
    Ok(())
}

/// The header as [`super::PerTrialWriter`] writes it.
fn written_header(layout: &Layout) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // A vector takes every byte; an empty header would be found by the comparison that follows.
    writer.write_record(&layout.header).map(|()| writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

/// Compares the header; where it differs the first row says why.
fn check_header<R: Read>(layout: &Layout, reader: &mut Reader<R>, end: End) -> Result<(), String> {
    let mut header = ByteRecord::new();
    reader.read_byte_record(&mut header).map_err(|error| error.to_string())?;
    if header.iter().eq(layout.header.iter().map(String::as_bytes)) {
        return Ok(());
    }
    let mut row = ByteRecord::new();
    let of_run =
        header.iter().next() == Some(FIRST[0].as_bytes()) && header.iter().next_back() == Some(LAST[2].as_bytes());
    let is_read = of_run && reader.read_byte_record(&mut row).is_ok_and(|more| more);
    if is_read && row.len() == header.len() && !end.cuts(reader.position()) {
        layout.check_invocation(&row)?;
    }
    Err(if of_run { "its columns are those of another run" } else { "is no per-trial file" }.to_string())
}

/// Where a row stands in the run.
struct Found {
    point: usize,
    plan: u64,
    trial: u64,
    shard: Option<Shard>,
}

impl Layout {
    /// Finds out which trial a row is of, `from` being the first point that it may belong to.
    fn locate(&self, record: &ByteRecord, from: usize) -> Result<Found, String> {
        let fields = self.header.len();
        if record.len() != fields {
            return Err(format!("{} fields where the header has {fields}", record.len()));
        }
        self.check_invocation(record)?;
        let text = |column: usize| String::from_utf8_lossy(&record[column]);
        let differs =
            |point: usize| (0..SHARED).find(|&column| record[column] != *self.points[point].head[column].as_bytes());
        let Some(point) = (from..self.points.len()).find(|&point| differs(point).is_none()) else {
            let column = differs(from).unwrap_or(0);
            let own = &self.points[from].head[column];
            return Err(format!("{} is '{}', not '{own}'", FIRST[column], text(column)));
        };
        let inputs = fields - LAST.len();
        if record[inputs] != *self.inputs.as_bytes() {
            return Err(format!("a file that the run read was another one: {}, not {}", text(inputs), self.inputs));
        }
        let number =
            |column: usize| text(column).parse::<u64>().map_err(|_| format!("{} is '{}'", FIRST[column], text(column)));
        let (plan, trial) = (number(SHARED)?, number(SHARED + 1)?);
        if trial >= plan {
            return Err(format!("trial {trial} of {plan}"));
        }
        let shard = Some(text(inputs + 1)).filter(|shard| !shard.is_empty());
        let shard = shard.map(|shard| shard.parse().map_err(|rule| format!("shard {shard}: {rule}"))).transpose()?;
        Ok(Found { point, plan, trial, shard })
    }

    fn check_invocation(&self, record: &ByteRecord) -> Result<(), String> {
        let invocation = record.iter().next_back().unwrap_or_default();
        if invocation == self.invocation.as_bytes() {
            return Ok(());
        }
        Err(command_line::difference(&String::from_utf8_lossy(invocation), &self.invocation))
    }

    /// The values of a row's measures; NaN where a field is empty.
    fn values(&self, point: usize, record: &ByteRecord) -> Result<Vec<f64>, String> {
        let value = |&column: &usize| {
            let field = &record[FIRST.len() + column];
            if field.is_empty() {
                return Ok(f64::NAN);
            }
            // What is infinite or no number is written as an empty field.
            let number = std::str::from_utf8(field).ok().and_then(|text| text.parse().ok());
            let number = number.filter(|number: &f64| number.is_finite());
            number
                .ok_or_else(|| format!("{} is '{}'", self.header[FIRST.len() + column], String::from_utf8_lossy(field)))
        };
        self.points[point].columns.iter().map(value).collect()
    }
}
