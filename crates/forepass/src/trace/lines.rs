//! From the bytes of a file, compressed or not, to its numbered lines.

use std::io::{self, BufRead, Read};

use super::bytes::{Bytes, is_damage};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Bytes kept of one line; what is longer is no record, and must not fill the memory.
pub(super) const MAX_LINE: u64 = 16 << 20;

/// One line, or one entry of a document.
#[derive(Debug)]
pub(super) struct Line<'a> {
    /// The text without surrounding blanks.
    pub(super) text: &'a [u8],
    /// Its number in the uncompressed text, from 1.
    pub(super) number: u64,
    /// Which entry of the document it is, from 1, where its number does not tell that: where
    /// another entry starts on the same line before it.
    pub(super) entry: Option<u64>,
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

/// The lines of a text.
///
/// Where compressed data break off or are damaged, the line ends and `broken` tells why; the next
/// line is the first one behind the damage.
pub(super) struct Lines {
    bytes: Bytes,
    line: Vec<u8>,
    number: u64,
    end: LineEnd,
    finished: bool,
    /// Why the text broke at the end of the present line, if it has.
    pub(super) broken: Option<String>,
}

impl Lines {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self {
            bytes,
            line: Vec::new(),
            number: 0,
            end: LineEnd::Newline,
            finished: false,
            broken: None,
        }
    }

    /// The next line; blank ones and the remains at a break may be empty.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        if !self.advance()? {
            return Ok(None);
        }
        Ok(Some(Line { text: self.text(), number: self.number, entry: None, end: self.end }))
    }

    /// Number of the present line.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes.bytes_read()
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
            Err(error) if is_damage(&error) => {
                self.broken = Some(error.to_string());
                LineEnd::Break
            }
            Err(error) => {
                self.finished = true;
                return Err(error);
            }
        };
        self.finished = self.end == LineEnd::EndOfText;
        if self.line.is_empty() {
            return Ok(!self.finished);
        }
        self.number += 1;
        Ok(true)
    }

    fn read_line(&mut self) -> io::Result<()> {
        let mut text = self.bytes.by_ref().take(MAX_LINE);
        text.read_until(b'\n', &mut self.line)?;
        if text.limit() == 0 && !self.line.ends_with(b"\n") {
            self.bytes.skip_until(b'\n')?;
            self.line.push(b'\n');
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn lines(input: impl Read + Send + 'static) -> Lines {
        Lines::new(Bytes::new(input).unwrap())
    }

    /// The lines that are not blank, and why the text broke.
    fn read(bytes: &[u8]) -> (Vec<(u64, String, LineEnd)>, Option<String>) {
        let mut lines = lines(Cursor::new(bytes.to_vec()));
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            let text = String::from_utf8_lossy(line.text).into_owned();
            if !text.is_empty() {
                all.push((line.number, text, line.end));
            }
        }
        assert_eq!(lines.bytes_read(), bytes.len() as u64);
        (all, lines.broken)
    }

    #[test]
    fn lines_are_numbered() {
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
    fn a_line_runs_over_the_ends_of_members() {
        let bytes = [gzip(b"a\nb"), gzip(b""), gzip(b"c\nd\n")].concat();
        let (lines, broken) = read(&bytes);
        let texts: Vec<_> = lines.iter().map(|(n, text, _)| (*n, &**text)).collect();
        assert_eq!(texts, [(1, "a"), (2, "bc"), (3, "d")]);
        assert_eq!(broken, None);
    }

    #[test]
    fn an_endless_line_does_not_fill_the_memory() {
        let input = io::repeat(b'x').take(3 * MAX_LINE).chain(Cursor::new(b"\nb\n"));
        let mut lines = lines(input);
        let line = lines.next().unwrap().unwrap();
        assert_eq!(line.text.len() as u64, MAX_LINE);
        assert_eq!(line.end, LineEnd::Newline);
        let line = lines.next().unwrap().unwrap();
        assert_eq!((line.text, line.number), (&b"b"[..], 2));
    }

    #[test]
    fn damage_ends_a_line_and_not_the_text() {
        let mut damaged = gzip(b"a\nb");
        let checksum = damaged.len() - 8;
        damaged[checksum] ^= 1;
        let (lines, broken) = read(&[&damaged[..], &gzip(b"c\n")].concat());
        let found: Vec<_> = lines.iter().map(|(n, text, end)| (*n, &**text, *end)).collect();
        assert_eq!(
            found,
            [(1, "a", LineEnd::Newline), (2, "b", LineEnd::Break), (3, "c", LineEnd::Newline)]
        );
        assert!(broken.unwrap().contains("checksum"));
    }

    #[test]
    fn a_failing_device_ends_the_text() {
        struct Failing;
        impl Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the device is gone"))
            }
        }
        let mut lines = lines(Cursor::new(gzip(b"a\n")).take(12).chain(Failing));
        assert!(lines.next().is_err());
        assert!(lines.next().unwrap().is_none());
    }
}
