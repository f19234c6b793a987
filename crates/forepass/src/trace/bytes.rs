//! The bytes of a trace, decompressed where they are gzipped, with damage reported where it stands.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::GzDecoder;

use super::ahead::Ahead;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Bytes taken from the file, or decompressed, at a time; more of them make no difference.
pub(super) const CHUNK: usize = 64 << 10;

/// Bytes of the fixed part of a gzip header.
const GZIP_HEADER: usize = 10;

/// The bytes of a trace.
///
/// A place where compressed data break off or are damaged gives one error of the kind
/// `InvalidData`; reading on goes on with the next gzip member, if there is one. What other errors
/// say comes from the device.
pub(super) struct Bytes {
    text: Unread<Box<dyn BufRead + Send>>,
    bytes_read: Arc<AtomicU64>,
}

impl Bytes {
    pub(super) fn new(input: impl Read + Send + 'static) -> io::Result<Self> {
        let bytes_read = Arc::default();
        let counting = Counting { input, bytes_read: Arc::clone(&bytes_read) };
        let mut input = Unread::new(BufReader::with_capacity(CHUNK, counting));
        let gzip = input.peek(GZIP_MAGIC.len())?.starts_with(&GZIP_MAGIC);
        let text: Box<dyn BufRead + Send> = if gzip {
            Box::new(Ahead::new(Members { state: State::Between(input, true) })?)
        } else {
            Box::new(input)
        };
        Ok(Self { text: Unread::new(text), bytes_read })
    }

    /// No bytes at all.
    pub(super) fn empty() -> Self {
        let nothing: Box<dyn BufRead + Send> = Box::new(io::empty());
        Self { text: Unread::new(nothing), bytes_read: Arc::default() }
    }

    /// At least `count` of the next bytes, which stay unread; fewer only where they end or break.
    pub(super) fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        self.text.peek(count)
    }

    /// Passes over what was looked at and the damage behind it, and tells why that is some.
    pub(super) fn skip_break(&mut self) -> Option<String> {
        let error = self.text.error.take()?;
        self.text.skip(usize::MAX);
        Some(error.to_string())
    }

    /// Bytes of the file read so far, before decompression.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.text.read(buffer)
    }
}

impl BufRead for Bytes {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.text.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.text.consume(count);
    }
}

/// Whether the error tells that compressed data are damaged or break off.
pub(super) fn is_damage(error: &io::Error) -> bool {
    error.kind() == ErrorKind::InvalidData
}

fn damage(reason: &impl ToString) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason.to_string())
}

/// An input some of whose bytes were looked at and given back.
struct Unread<R> {
    pending: Vec<u8>,
    start: usize,
    /// What stopped the look ahead, to be met again behind the pending bytes.
    error: Option<io::Error>,
    input: R,
}

impl<R: BufRead> Unread<R> {
    fn new(input: R) -> Self {
        Self { pending: Vec::new(), start: 0, error: None, input }
    }

    fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        self.pending.drain(..std::mem::take(&mut self.start));
        while self.pending.len() < count && self.error.is_none() {
            match self.input.fill_buf() {
                Ok([]) => break,
                Ok(more) => {
                    let taken = more.len();
                    self.pending.extend_from_slice(more);
                    self.input.consume(taken);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_damage(&error) => self.error = Some(error),
                Err(error) => return Err(error),
            }
        }
        Ok(&self.pending)
    }

    /// Passes over bytes that were looked at.
    fn skip(&mut self, count: usize) {
        self.start = self.start.saturating_add(count).min(self.pending.len());
    }
}

/// Reads what a reader has in its buffer, as far as there is room.
pub(super) fn read_buffered(reader: &mut impl BufRead, buffer: &mut [u8]) -> io::Result<usize> {
    let available = reader.fill_buf()?;
    let count = available.len().min(buffer.len());
    buffer[..count].copy_from_slice(&available[..count]);
    reader.consume(count);
    Ok(count)
}

impl<R: BufRead> Read for Unread<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read_buffered(self, buffer)
    }
}

impl<R: BufRead> BufRead for Unread<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.start < self.pending.len() {
            return Ok(&self.pending[self.start..]);
        }
        match self.error.take() {
            Some(error) => Err(error),
            None => self.input.fill_buf(),
        }
    }

    fn consume(&mut self, count: usize) {
        if self.start < self.pending.len() {
            self.start += count;
        } else {
            self.input.consume(count);
        }
    }
}

/// Gzip members, one after the other; a damaged one ends with an error, and the next is looked for.
struct Members<R: BufRead> {
    state: State<R>,
}

enum State<R: BufRead> {
    /// Before the first member, or behind one that ended well.
    Between(Unread<R>, bool),
    Inside(Box<GzDecoder<Member<R>>>),
    /// Behind damage: the next header is to be found.
    Lost(Unread<R>),
    End,
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(&mut self.state, State::End) {
                State::End => return Ok(0),
                State::Between(mut input, first) => {
                    let header = input.peek(GZIP_HEADER)?;
                    if header.is_empty() {
                        return Ok(0);
                    }
                    if !first && !header.starts_with(&GZIP_MAGIC) {
                        self.state = State::Lost(input);
                        return Err(damage(&"what follows is no gzip member"));
                    }
                    self.state = State::Inside(Box::new(GzDecoder::new(Member::new(input))));
                }
                State::Inside(mut member) => match member.read(buffer) {
                    Ok(0) if !buffer.is_empty() => {
                        self.state = State::Between((*member).into_inner().input, false);
                    }
                    Ok(count) => {
                        self.state = State::Inside(member);
                        return Ok(count);
                    }
                    // The decoder reports its own faults with these kinds, the device with others.
                    Err(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::UnexpectedEof
                                | ErrorKind::InvalidInput
                                | ErrorKind::InvalidData
                        ) =>
                    {
                        self.state = State::Lost((*member).into_inner().input);
                        return Err(damage(&error));
                    }
                    Err(error) => {
                        self.state = State::Inside(member);
                        return Err(error);
                    }
                },
                State::Lost(mut input) => {
                    if find_header(&mut input)? {
                        self.state = State::Between(input, false);
                    }
                }
            }
        }
    }
}

/// The bytes up to the next gzip header: a member that is cut does not run into the next one.
struct Member<R> {
    input: Unread<R>,
    /// How many of the next bytes are known to hold no header.
    safe: usize,
    /// Whether the next byte opens the member's own header.
    first: bool,
}

impl<R: BufRead> Member<R> {
    fn new(input: Unread<R>) -> Self {
        Self { input, safe: 0, first: true }
    }
}

impl<R: BufRead> Read for Member<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read_buffered(self, buffer)
    }
}

impl<R: BufRead> BufRead for Member<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.safe == 0 {
            let own = usize::from(self.first);
            let ahead = self.input.peek(own + GZIP_HEADER)?;
            self.safe = match ahead.windows(GZIP_HEADER).skip(own).position(is_header) {
                Some(place) => own + place,
                None if ahead.len() < own + GZIP_HEADER => ahead.len(),
                None => ahead.len() - (GZIP_HEADER - 1),
            };
        }
        let available = self.input.fill_buf()?;
        Ok(&available[..self.safe.min(available.len())])
    }

    fn consume(&mut self, count: usize) {
        self.first &= count == 0;
        self.safe -= count.min(self.safe);
        self.input.consume(count);
    }
}

/// Goes to the next gzip header; false where there is none.
fn find_header<R: BufRead>(input: &mut Unread<R>) -> io::Result<bool> {
    loop {
        let ahead = input.peek(GZIP_HEADER)?;
        if ahead.len() < GZIP_HEADER {
            return Ok(false);
        }
        if let Some(place) = ahead.windows(GZIP_HEADER).position(is_header) {
            input.skip(place);
            return Ok(true);
        }
        let passed = ahead.len() - (GZIP_HEADER - 1);
        input.skip(passed);
    }
}

/// Whether the bytes are a gzip header, and no chance product of compression: besides the magic
/// number, flags, level and system are ones that writers use, which leaves one chance in 10^12.
fn is_header(bytes: &[u8]) -> bool {
    bytes[..3] == [0x1f, 0x8b, 8]
        && matches!(bytes[3], 0 | 4 | 8)
        && matches!(bytes[8], 0 | 2 | 4)
        && matches!(bytes[9], 0..=13 | 255)
}

/// Counts what is read, for whoever watches the progress.
struct Counting<R> {
    input: R,
    bytes_read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.bytes_read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
