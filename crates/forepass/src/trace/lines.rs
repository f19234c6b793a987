//! From the bytes of a file, compressed or not, to its numbered lines.

use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Bytes kept of one line; what is longer is no record, and must not fill the memory.
const MAX_LINE: u64 = 16 << 20;

/// One line that is not blank.
#[derive(Debug)]
pub(super) struct Line<'a> {
    /// The text without surrounding blanks.
    pub(super) text: &'a [u8],
    /// Its number in the uncompressed text, from 1.
    pub(super) number: u64,
    pub(super) end: LineEnd,
}

/// What stands behind the last character of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// A line feed: the line is whole.
    Newline,
    /// The regular end of the text.
    EndOfText,
    /// The place where compressed data break off.
    Break,
}

/// The lines of a text, gzip members read through one after the other.
///
/// Compressed data that break off or are damaged end the text instead of failing: what stood
/// before is good, and `broken` tells why it ended.
pub(super) struct Lines {
    text: Box<dyn BufRead + Send>,
    gzip: bool,
    line: Vec<u8>,
    number: u64,
    end: LineEnd,
    again: bool,
    finished: bool,
    /// Why the text ended early, if it has.
    pub(super) broken: Option<String>,
    bytes_read: Arc<AtomicU64>,
}

impl Lines {
    pub(super) fn new(input: impl Read + Send + 'static) -> io::Result<Self> {
        let bytes_read = Arc::default();
        let mut input = BufReader::new(Counting { input, bytes_read: Arc::clone(&bytes_read) });
        let mut head = Vec::with_capacity(GZIP_MAGIC.len());
        input.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut head)?;
        let gzip = head == GZIP_MAGIC;
        let whole = Cursor::new(head).chain(input);
        Ok(Self {
            text: if gzip {
                Box::new(BufReader::new(MultiGzDecoder::new(whole)))
            } else {
                Box::new(whole)
            },
            gzip,
            line: Vec::new(),
            number: 0,
            end: LineEnd::Newline,
            again: false,
            finished: false,
            broken: None,
            bytes_read,
        })
    }

    /// The next line that is not blank.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        if !std::mem::take(&mut self.again) {
            loop {
                if !self.advance()? {
                    return Ok(None);
                }
                if !self.text().is_empty() {
                    break;
                }
            }
        }
        Ok(Some(Line { text: self.text(), number: self.number, end: self.end }))
    }

    /// Lets [`Lines::next`] give the present line once more.
    pub(super) fn give_back(&mut self) {
        self.again = true;
    }

    /// Number of the present line.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    fn text(&self) -> &[u8] {
        let line = match self.line.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) if self.number == 1 => rest,
            _ => &self.line,
        };
        line.trim_ascii()
    }

    fn advance(&mut self) -> io::Result<bool> {
        self.line.clear();
        if self.finished {
            return Ok(false);
        }
        self.end = match self.read_line() {
            Ok(()) if self.line.ends_with(b"\n") => LineEnd::Newline,
            Ok(()) => LineEnd::EndOfText,
            // The decoder reports its own faults with these kinds, the system its with others.
            Err(error)
                if self.gzip
                    && matches!(
                        error.kind(),
                        ErrorKind::UnexpectedEof | ErrorKind::InvalidInput | ErrorKind::InvalidData
                    ) =>
            {
                self.broken = Some(error.to_string());
                LineEnd::Break
            }
            Err(error) => {
                self.finished = true;
                return Err(error);
            }
        };
        self.finished = self.end != LineEnd::Newline;
        if self.line.is_empty() {
            return Ok(false);
        }
        self.number += 1;
        Ok(true)
    }

    fn read_line(&mut self) -> io::Result<()> {
        let mut text = self.text.by_ref().take(MAX_LINE);
        text.read_until(b'\n', &mut self.line)?;
        if text.limit() == 0 && !self.line.ends_with(b"\n") {
            self.text.skip_until(b'\n')?;
            self.line.push(b'\n');
        }
        Ok(())
    }
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
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> (Vec<(u64, String, LineEnd)>, Option<String>) {
        let mut lines = Lines::new(Cursor::new(bytes.to_vec())).unwrap();
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            let text = String::from_utf8_lossy(line.text).into_owned();
            all.push((line.number, text, line.end));
        }
        assert_eq!(lines.bytes_read(), bytes.len() as u64);
        (all, lines.broken)
    }

    #[test]
    fn lines_are_numbered_and_blank_ones_left_out() {
        let (lines, broken) = read(b"\xef\xbb\xbfa\r\n\r\n  \nb \n\xef\xbb\xbfc");
        let expected = [
            (1, "a", LineEnd::Newline),
            (4, "b", LineEnd::Newline),
            (5, "\u{feff}c", LineEnd::EndOfText),
        ];
        assert_eq!(lines, expected.map(|(n, text, end)| (n, text.to_owned(), end)));
        assert_eq!(broken, None);
        assert_eq!(read(b"").0, []);
        assert_eq!(read(b"\n \n").0, []);
    }

    #[test]
    fn gzip_members_are_one_text() {
        let bytes = [gzip(b"a\nb"), gzip(b""), gzip(b"c\nd\n")].concat();
        let (lines, broken) = read(&bytes);
        let texts: Vec<_> = lines.iter().map(|(n, text, _)| (*n, &**text)).collect();
        assert_eq!(texts, [(1, "a"), (2, "bc"), (3, "d")]);
        assert_eq!(broken, None);
    }

    #[test]
    fn a_line_can_be_given_back() {
        let mut lines = Lines::new(Cursor::new(b"a\nb\n")).unwrap();
        assert_eq!(lines.next().unwrap().unwrap().text, b"a");
        lines.give_back();
        assert_eq!(lines.next().unwrap().unwrap().text, b"a");
        assert_eq!(lines.next().unwrap().unwrap().text, b"b");
    }

    #[test]
    fn an_endless_line_does_not_fill_the_memory() {
        let input = io::repeat(b'x').take(3 * MAX_LINE).chain(Cursor::new(b"\nb\n"));
        let mut lines = Lines::new(input).unwrap();
        let line = lines.next().unwrap().unwrap();
        assert_eq!(line.text.len() as u64, MAX_LINE);
        assert_eq!(line.end, LineEnd::Newline);
        let line = lines.next().unwrap().unwrap();
        assert_eq!((line.text, line.number), (&b"b"[..], 2));
    }

    #[test]
    fn broken_compressed_data_end_the_text() {
        let whole = gzip(b"a\nb\n");
        let garbage = [&whole[..], b"not gzip"].concat();
        let (lines, broken) = read(&garbage[..]);
        assert_eq!(lines.len(), 2);
        assert!(broken.is_some());
        let mut damaged = whole.clone();
        let checksum = damaged.len() - 8;
        damaged[checksum] ^= 1;
        let (lines, broken) = read(&damaged);
        assert_eq!(lines.len(), 2);
        assert!(broken.unwrap().contains("checksum"));
    }

    #[test]
    fn a_failing_device_is_not_a_broken_text() {
        struct Failing;
        impl Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the device is gone"))
            }
        }
        let mut lines = Lines::new(Cursor::new(gzip(b"a\n")).take(12).chain(Failing)).unwrap();
        assert!(lines.next().is_err());
        assert!(lines.next().unwrap().is_none());
    }
}
