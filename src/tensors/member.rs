//! The bytes of one member of a zip archive.

use std::io::{BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use flate2::Crc;
use flate2::bufread::DeflateDecoder;

use super::store::{Section, Store};

/// The most bytes that one byte can be inflated to: a match of 258 bytes takes two bits.
const LARGEST_RATIO: u64 = 1032;

/// Bytes that are inflated and thrown away, or checked, at a time.
const CHUNK: usize = 1 << 16;

/// How a member is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    /// As it is.
    Stored,
    /// RFC 1951.
    Deflated,
}

/// Where a member lies in the archive, as the archive says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The first byte.
    pub start: u64,
    /// The bytes in the archive.
    pub packed: u64,
    /// The bytes when unpacked.
    pub length: u64,
    /// CRC-32 of the bytes when unpacked.
    pub crc: u32,
}

/// A member that can be read. What is deflated can only be read forward: each read goes on where the last one ended, or
/// starts again if that was further on.
#[derive(Debug)]
pub(super) struct Member {
    store: Arc<Store>,
    place: Place,
    method: Method,
    stream: Mutex<Option<Stream>>,
}

/// A deflated member, unpacked up to `position`.
#[derive(Debug)]
struct Stream {
    decoder: DeflateDecoder<BufReader<Section>>,
    position: u64,
    crc: Crc,
}

impl Member {
    /// # Errors
    /// The archive says more bytes than it has or than these can become.
    pub(super) fn new(store: &Arc<Store>, place: Place, method: Method) -> Result<Self> {
        let Place { start, packed, length, .. } = place;
        let inside = start.checked_add(packed).is_some_and(|end| end <= store.len());
        ensure!(inside, "the archive promises {packed} bytes from {start} on, the file has {}", store.len());
        match method {
            Method::Stored => ensure!(packed == length, "stored in {packed} bytes, but {length} long"),
            Method::Deflated => ensure!(
                length / LARGEST_RATIO <= packed,
                "{packed} bytes in the archive cannot become the {length} it promises"
            ),
        }
        Ok(Self { store: Arc::clone(store), place, method, stream: Mutex::new(None) })
    }

    /// The bytes when unpacked.
    pub(super) fn length(&self) -> u64 {
        self.place.length
    }

    /// Fills `buffer` from `offset` on; at the end of a deflated member its checksum is compared.
    ///
    /// # Errors
    /// The member ends before, is broken, or cannot be read.
    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match self.method {
            Method::Stored => {
                let inside = offset.checked_add(buffer.len() as u64).is_some_and(|end| end <= self.place.length);
                ensure!(inside, "the member ends after {} bytes", self.place.length);
                Ok(self.store.read_exact_at(self.place.start + offset, buffer)?)
            }
            Method::Deflated => {
                // A thread that panicked left at worst a stream in the middle, whose position is then wrong: start again.
                let mut kept = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
                let mut stream = match kept.take() {
                    Some(stream) if stream.position <= offset => stream,
                    _ => self.stream(),
                };
                stream
                    .skip_to(offset)
                    .and_then(|()| stream.fill(buffer))
                    .context("the deflated data are broken or truncated")?;
                if stream.position == self.place.length {
                    stream.expect_end()?;
                    self.compare(&stream.crc)?;
                }
                *kept = Some(stream);
                Ok(())
            }
        }
    }

    /// Compares the checksum of all bytes.
    ///
    /// # Errors
    /// It is another, or the member cannot be read to its end.
    pub(super) fn verify(&self) -> Result<()> {
        let (mut crc, mut buffer) = (Crc::new(), vec![0; CHUNK]);
        match self.method {
            Method::Stored => {
                for start in (0..self.place.length).step_by(CHUNK) {
                    let count = (self.place.length - start).min(CHUNK as u64) as usize;
                    self.read_at(start, &mut buffer[..count])?;
                    crc.update(&buffer[..count]);
                }
                self.compare(&crc)
            }
            // The end of the stream compares.
            Method::Deflated => self.read_at(self.place.length, &mut []),
        }
    }

    fn compare(&self, crc: &Crc) -> Result<()> {
        ensure!(crc.sum() == self.place.crc, "the checksum of the member is wrong: the file is damaged");
        Ok(())
    }

    fn stream(&self) -> Stream {
        let section = Section::new(Arc::clone(&self.store), self.place.start, self.place.packed);
        let decoder = DeflateDecoder::new(BufReader::with_capacity(CHUNK, section));
        Stream { decoder, position: 0, crc: Crc::new() }
    }
}

impl Stream {
    fn fill(&mut self, buffer: &mut [u8]) -> std::io::Result<()> {
        self.decoder.read_exact(buffer)?;
        self.position += buffer.len() as u64;
        self.crc.update(buffer);
        Ok(())
    }

    fn expect_end(&mut self) -> Result<()> {
        // The last block's end may still be unread, and broken.
        let more = self.decoder.read(&mut [0]).context("the deflated data are broken or truncated")?;
        ensure!(more == 0, "the deflated data go on after the {} bytes that the archive promises", self.position);
        Ok(())
    }

    fn skip_to(&mut self, offset: u64) -> std::io::Result<()> {
        let mut unwanted = vec![0; (offset - self.position).min(CHUNK as u64) as usize];
        while self.position < offset {
            let count = (offset - self.position).min(CHUNK as u64) as usize;
            self.fill(&mut unwanted[..count])?;
        }
        Ok(())
    }
}
