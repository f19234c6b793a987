//! Reading ahead on a thread of its own, so that inflating a text does not wait for its parser.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use super::bytes::{CHUNK, read_buffered};

/// Chunks that are read ahead at most.
const AHEAD: usize = 8;

/// What an input gives, bytes and errors in the same order, read by another thread.
///
/// The thread ends with the input, or when nobody reads any more; it is not waited for, since its
/// input may be a pipe into which nothing comes.
pub(super) struct Ahead {
    chunks: Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    start: usize,
    ended: bool,
}

impl Ahead {
    pub(super) fn new(mut input: impl Read + Send + 'static) -> io::Result<Self> {
        let (sender, chunks) = sync_channel(AHEAD);
        thread::Builder::new().name("forepass-inflate".to_owned()).spawn(move || {
            loop {
                let mut chunk = vec![0; CHUNK];
                let read = input.read(&mut chunk).map(|count| {
                    chunk.truncate(count);
                    chunk
                });
                let ends = read.as_ref().is_ok_and(Vec::is_empty);
                if sender.send(read).is_err() || ends {
                    break;
                }
            }
        })?;
        Ok(Self { chunks, chunk: Vec::new(), start: 0, ended: false })
    }
}

impl Read for Ahead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read_buffered(self, buffer)
    }
}

impl BufRead for Ahead {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.start == self.chunk.len() && !self.ended {
            let ended = |_| io::Error::other("the thread that reads ahead has ended");
            self.chunk = self.chunks.recv().map_err(ended)??;
            self.start = 0;
            self.ended = self.chunk.is_empty();
        }
        Ok(&self.chunk[self.start..])
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, ErrorKind};
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn bytes_and_errors_come_in_their_order() {
        /// A byte, an error, two bytes, and the end.
        struct Broken(u8);
        impl Read for Broken {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0 += 1;
                match self.0 {
                    1 | 3 => {
                        buffer[..usize::from(self.0)].fill(b'0' + self.0);
                        Ok(usize::from(self.0))
                    }
                    2 => Err(io::Error::new(ErrorKind::InvalidData, "damaged")),
                    _ => Ok(0),
                }
            }
        }
        let mut input = Ahead::new(Broken(0)).unwrap();
        let mut text = Vec::new();
        assert_eq!(input.read_to_end(&mut text).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(text, b"1");
        for _ in 0..2 {
            input.read_to_end(&mut text).unwrap();
            assert_eq!(text, b"1333");
        }
    }

    #[test]
    fn a_long_text_is_read_whole() {
        let text: Vec<u8> = (0..=u8::MAX).cycle().take(20 * CHUNK + 1).collect();
        let mut read = Vec::new();
        Ahead::new(Cursor::new(text.clone())).unwrap().read_to_end(&mut read).unwrap();
        assert!(read == text);
    }

    #[test]
    fn an_endless_input_is_left_when_nobody_reads() {
        /// Tells, when it is dropped, that its thread has ended.
        struct Endless(std::sync::mpsc::Sender<()>);
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                Ok(buffer.len())
            }
        }
        impl Drop for Endless {
            fn drop(&mut self) {
                self.0.send(()).unwrap();
            }
        }
        let (dropped, wait) = channel();
        drop(Ahead::new(Endless(dropped)).unwrap());
        wait.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
    }
}
