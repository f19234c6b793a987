//! Members, damage between and inside them, and looking ahead.

use std::io::{Cursor, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// What is read up to the end, with `|` where compressed data are damaged.
fn read(bytes: &[u8]) -> String {
    let mut input = Bytes::new(Cursor::new(bytes.to_vec())).unwrap();
    let mut all = Vec::new();
    loop {
        match input.fill_buf() {
            Ok([]) => break,
            Ok(text) => {
                let count = text.len();
                all.extend_from_slice(text);
                input.consume(count);
            }
            Err(error) => {
                assert!(is_damage(&error), "{error}");
                all.push(b'|');
            }
        }
    }
    assert_eq!(input.bytes_read(), bytes.len() as u64);
    String::from_utf8(all).unwrap()
}

#[test]
fn members_are_one_text() {
    assert_eq!(read(&[gzip(b"a\nb"), gzip(b""), gzip(b"c\n")].concat()), "a\nbc\n");
    assert_eq!(read(b"plain\n"), "plain\n");
    assert_eq!(read(b""), "");
}

#[test]
fn a_damaged_member_does_not_take_the_next_ones_along() {
    let (first, last) = (gzip(b"first\n"), gzip(b"last\n"));
    let mut checksum = first.clone();
    let place = checksum.len() - 8;
    checksum[place] ^= 1;
    assert_eq!(read(&[&checksum[..], &last].concat()), "first\n|last\n");
    // A member of random text, cut short: what is lost is its end alone.
    let mut noise = 1_u64;
    let long: Vec<u8> = std::iter::repeat_with(|| {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        b'a' + u8::try_from((noise >> 33) % 26).unwrap()
    })
    .take(50_000)
    .collect();
    let cut = gzip(&long);
    for cut in [&cut[..20_000], &cut[..12], &cut[..10]] {
        let text = read(&[&gzip(b"first\n")[..], cut, &last, &last].concat());
        assert!(text.starts_with("first\n"), "{}", &text[..6]);
        assert!(text.ends_with("|last\nlast\n"), "{}", text.len());
    }
}

#[test]
fn what_is_between_members_is_passed_over() {
    let (first, last) = (gzip(b"first\n"), gzip(b"last\n"));
    for between in [&b"x"[..], b"not gzip at all", &[0x1f; 40], &[0x1f, 0x8b, 8, 0xff, 0]] {
        let text = read(&[&first[..], between, &last].concat());
        assert_eq!(text, "first\n|last\n", "{between:?}");
        assert_eq!(read(&[&first[..], between].concat()), "first\n|");
    }
}

#[test]
fn a_look_ahead_takes_nothing_away() {
    let bytes = [&gzip(b"abc")[..], b"junk"].concat();
    let mut input = Bytes::new(Cursor::new(bytes)).unwrap();
    assert_eq!(input.peek(100).unwrap(), b"abc");
    let mut text = Vec::new();
    assert!(is_damage(&input.read_to_end(&mut text).unwrap_err()));
    assert_eq!(text, b"abc");
    assert_eq!(input.read_to_end(&mut text).unwrap(), 0);
}

#[test]
fn a_failing_device_is_not_a_damaged_text() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the device is gone"))
        }
    }
    let mut input = Bytes::new(Cursor::new(gzip(b"a\n")).take(12).chain(Failing)).unwrap();
    let error = input.read_to_end(&mut Vec::new()).unwrap_err();
    assert!(!is_damage(&error), "{error}");
}
