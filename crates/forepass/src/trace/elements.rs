//! From the bytes of a JSON document to the entries of its lists, one at a time.

use std::io::{self, BufRead};

use super::bytes::{Bytes, is_damage};
use super::lines::{Line, LineEnd, MAX_LINE};

/// Which values of a document are its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entries {
    /// Objects, one after the other or in lists.
    Objects,
    /// The lists in the outermost list.
    Lists,
    /// The objects in the list under this key of the outermost object.
    Under(&'static str),
}

/// The entries of a document; only one of them is in memory at a time.
///
/// What is no JSON between them counts as an entry up to the end of its line, so that it is
/// counted and told. A list of objects on lines of their own of which one is cut goes on with the
/// next line that opens an object in its first column.
pub(super) struct Elements {
    bytes: Bytes,
    scanner: Scanner,
    finished: bool,
    /// Whether the text given out last is to be dropped before reading on.
    given: bool,
    /// Entries so far, and the line on which the latest one starts.
    count: u64,
    latest: u64,
    /// Why the text ended early, if it has.
    pub(super) broken: Option<String>,
}

/// Finds the entries in the bytes, which come in pieces.
struct Scanner {
    entries: Entries,
    /// The brackets that are open, entries left out.
    open: Vec<u8>,
    /// The latest string of the outermost object, in which the keys are.
    key: Vec<u8>,
    /// The present entry, without its end.
    text: Vec<u8>,
    state: State,
    /// Line of the next byte, and of the start of the entry.
    line: u64,
    start: u64,
    /// Whether the next byte is the first of its line.
    at_line_start: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Between entries.
    Outside,
    /// In a string between entries: a key.
    Key { escaped: bool },
    /// In an entry, below so many brackets.
    Entry { depth: usize },
    /// In a string of an entry.
    Text { depth: usize, escaped: bool },
    /// In what is no JSON, up to the end of the line.
    Junk,
}

impl Elements {
    pub(super) fn new(bytes: Bytes, entries: Entries) -> Self {
        Self {
            bytes,
            scanner: Scanner {
                entries,
                open: Vec::new(),
                key: Vec::new(),
                text: Vec::new(),
                state: State::Outside,
                line: 1,
                start: 1,
                at_line_start: true,
            },
            finished: false,
            given: false,
            count: 0,
            latest: 0,
            broken: None,
        }
    }

    /// Bytes of the file read so far, before decompression.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes.bytes_read()
    }

    /// The number of the present line.
    pub(super) fn number(&self) -> u64 {
        self.scanner.line
    }

    /// Whether a list or object around the entries is not closed.
    pub(super) fn is_open(&self) -> bool {
        !self.scanner.open.is_empty()
    }

    /// The next entry.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        if std::mem::take(&mut self.given) {
            self.scanner.text.clear();
        }
        let end = loop {
            if self.finished {
                return Ok(None);
            }
            let chunk = match self.bytes.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if is_damage(&error) => {
                    self.broken = Some(error.to_string());
                    break LineEnd::Break;
                }
                Err(error) => {
                    self.finished = true;
                    return Err(error);
                }
            };
            if chunk.is_empty() {
                self.finished = true;
                break LineEnd::EndOfText;
            }
            let (count, complete) = self.scanner.scan(chunk);
            self.bytes.consume(count);
            if complete {
                break LineEnd::Newline;
            }
        };
        self.given = true;
        if end != LineEnd::Newline {
            self.scanner.state = State::Outside;
            if end == LineEnd::EndOfText && self.scanner.text.is_empty() {
                return Ok(None);
            }
        }
        let text = self.scanner.text.trim_ascii();
        let number = self.scanner.start;
        self.count += 1;
        let entry = (number == self.latest).then_some(self.count);
        self.latest = number;
        Ok(Some(Line { text, number, entry, end }))
    }
}

impl Scanner {
    /// Scans bytes up to the end of an entry; how many, and whether there is one.
    fn scan(&mut self, chunk: &[u8]) -> (usize, bool) {
        let mut copied = 0;
        for (index, &byte) in chunk.iter().enumerate() {
            let at_line_start = std::mem::replace(&mut self.at_line_start, byte == b'\n');
            let begins_anew = at_line_start && byte == b'{' && self.open.is_empty();
            let state = self.state;
            match state {
                State::Entry { .. } | State::Text { .. } if begins_anew => {
                    // The entry before was cut: it ends here, and this byte is read again.
                    self.at_line_start = true;
                    self.state = State::Outside;
                    self.keep(&chunk[copied..index]);
                    return (index, true);
                }
                State::Outside => {
                    if let Some(state) = self.outside(byte) {
                        self.state = state;
                        self.start = self.line;
                        copied = index;
                    }
                }
                State::Key { escaped: true } => self.state = State::Key { escaped: false },
                State::Key { .. } => match byte {
                    b'\\' => self.state = State::Key { escaped: true },
                    b'"' => self.state = State::Outside,
                    _ if self.key.len() < 64 => self.key.push(byte),
                    _ => {}
                },
                State::Junk => {
                    if byte == b'\n' {
                        self.line += 1;
                        self.state = State::Outside;
                        self.keep(&chunk[copied..index]);
                        return (index + 1, true);
                    }
                }
                State::Entry { depth } => match byte {
                    b'"' => self.state = State::Text { depth, escaped: false },
                    b'{' | b'[' => self.state = State::Entry { depth: depth + 1 },
                    b'}' | b']' if depth == 1 => {
                        self.state = State::Outside;
                        self.keep(&chunk[copied..=index]);
                        return (index + 1, true);
                    }
                    b'}' | b']' => self.state = State::Entry { depth: depth - 1 },
                    _ => {}
                },
                State::Text { depth, escaped } => {
                    self.state = match byte {
                        _ if escaped => State::Text { depth, escaped: false },
                        b'\\' => State::Text { depth, escaped: true },
                        b'"' => State::Entry { depth },
                        _ => state,
                    };
                }
            }
            self.line += u64::from(byte == b'\n');
        }
        if matches!(self.state, State::Entry { .. } | State::Text { .. } | State::Junk) {
            self.keep(&chunk[copied..]);
        }
        (chunk.len(), false)
    }

    /// Takes a byte between entries; the state of the entry that it opens.
    fn outside(&mut self, byte: u8) -> Option<State> {
        let entry = match (self.entries, byte, &*self.open) {
            (Entries::Objects, b'{', _) => true,
            (Entries::Lists, b'[', open) => open == b"[",
            (Entries::Under(key), b'{', open) => open == b"{[" && self.key == key.as_bytes(),
            _ => false,
        };
        match byte {
            _ if entry => return Some(State::Entry { depth: 1 }),
            b'[' | b'{' => self.open.push(byte),
            b']' | b'}' if self.open.pop().is_some() => {}
            b'"' if self.entries != Entries::Objects => {
                if self.open == b"{" {
                    self.key.clear();
                }
                self.state = State::Key { escaped: false };
            }
            b',' if !self.open.is_empty() => {}
            byte if byte.is_ascii_whitespace() => {}
            // The byte order mark; what is beside the entries of an object is not of interest.
            0xef | 0xbb | 0xbf if self.line == 1 => {}
            _ if matches!(self.entries, Entries::Under(_)) => {}
            _ => return Some(State::Junk),
        }
        None
    }

    /// Copies a piece of the entry, up to the length that no entry has.
    fn keep(&mut self, piece: &[u8]) {
        let room = usize::try_from(MAX_LINE).unwrap_or(usize::MAX).saturating_sub(self.text.len());
        self.text.extend_from_slice(&piece[..piece.len().min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn read(text: &str, entries: Entries) -> Vec<(u64, String, LineEnd)> {
        let bytes = Bytes::new(Cursor::new(text.to_owned().into_bytes())).unwrap();
        let mut elements = Elements::new(bytes, entries);
        let mut all = Vec::new();
        while let Some(line) = elements.next().unwrap() {
            let text = String::from_utf8_lossy(line.text).into_owned();
            all.push((line.number, text, line.end));
        }
        all
    }

    fn whole<'a>(entries: impl IntoIterator<Item = (u64, &'a str)>) -> Vec<(u64, String, LineEnd)> {
        let own = |(line, text): (u64, &str)| (line, text.to_owned(), LineEnd::Newline);
        entries.into_iter().map(own).collect()
    }

    #[test]
    fn objects_are_found_in_lists_and_on_lines() {
        let expected = whole([(1, r#"{"a":"}]\"["}"#), (2, "{\"b\":[{}]}"), (4, "{}")]);
        for text in [
            "{\"a\":\"}]\\\"[\"}\n{\"b\":[{}]}\n\n{}\n",
            "[{\"a\":\"}]\\\"[\"},\n{\"b\":[{}]},\n\n{}]",
            "[{\"a\":\"}]\\\"[\"}]\n[{\"b\":[{}]}]\n[]\n[{}]\n",
        ] {
            assert_eq!(read(text, Entries::Objects), expected, "{text}");
        }
        let pretty = read("[\n {\n  \"a\": 1\n },\n {}\n]\n", Entries::Objects);
        assert_eq!(pretty, whole([(2, "{\n  \"a\": 1\n }"), (5, "{}")]));
    }

    #[test]
    fn entries_that_share_a_line_are_numbered() {
        let text = b"[{}, {}, {\n}, {},\n{}]".to_vec();
        let mut elements = Elements::new(Bytes::new(Cursor::new(text)).unwrap(), Entries::Objects);
        let mut places = Vec::new();
        while let Some(line) = elements.next().unwrap() {
            places.push((line.number, line.entry));
        }
        assert_eq!(places, [(1, None), (1, Some(2)), (1, Some(3)), (2, None), (3, None)]);
    }

    #[test]
    fn lists_in_a_list_are_entries() {
        let expected = whole([(1, "[{\"a\": [1]}]"), (2, "[]")]);
        assert_eq!(read("[[{\"a\": [1]}],\n []]", Entries::Lists), expected);
    }

    #[test]
    fn entries_are_found_under_their_key_alone() {
        let text = "{\"x\": [{\"groups\": [{}]}], \"y\": {\"groups\": [{\"no\": 1}]},\n\
                    \"groups\": [{\"a\": 1}, {\"a\": 2}], \"z\": [{}], \"groups\": 5}";
        let expected = whole([(2, "{\"a\": 1}"), (2, "{\"a\": 2}")]);
        assert_eq!(read(text, Entries::Under("groups")), expected);
    }

    #[test]
    fn a_cut_entry_does_not_take_the_next_lines_along() {
        for cut in ["{\"a\": {\"b\": 1", "{\"a\": \"b", "{"] {
            let found = read(&format!("{cut}\n{{\"c\": 1}}\n"), Entries::Objects);
            assert_eq!(found, whole([(1, cut), (2, "{\"c\": 1}")]));
        }
        let end = read("{}\n{\"a\": ", Entries::Objects);
        assert_eq!(end[1], (2, "{\"a\":".to_owned(), LineEnd::EndOfText));
    }

    #[test]
    fn what_is_no_json_is_an_entry_of_its_own() {
        let found = read("curl: refused {\n{\"a\": 1}\n] x\n", Entries::Objects);
        assert_eq!(found, whole([(1, "curl: refused {"), (2, "{\"a\": 1}"), (3, "] x")]));
    }
}
