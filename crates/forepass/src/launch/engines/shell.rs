//! Splits one string into words as a POSIX shell does, without expanding anything.

use super::fault;
use crate::codes::E_PARAM;
use crate::error::Result;

/// The words of a command line.
///
/// Quotes and backslashes work as in `sh`; `$NAME`, globs and braces stay as they are written. What
/// a shell would not hand to the command, such as a pipe, is refused, for the options after it are
/// not the engine's.
pub(super) fn split(text: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = text.chars().enumerate().peekable();
    while let Some((at, c)) = rest.next() {
        match c {
            c if c.is_ascii_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next() {
                        Some((_, '\'')) => break,
                        Some((_, c)) => word.push(c),
                        None => return Err(unbalanced('\'', at)),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next() {
                        Some((_, '"')) => break,
                        Some((_, '\\')) => match rest.next() {
                            Some((_, '\n')) => {}
                            Some((_, c @ ('"' | '\\' | '$' | '`'))) => word.push(c),
                            Some((_, c)) => word.extend(['\\', c]),
                            None => return Err(unbalanced('"', at)),
                        },
                        Some((_, c)) => word.push(c),
                        None => return Err(unbalanced('"', at)),
                    }
                }
            }
            '\\' => {
                rest.next_if(|(_, c)| *c == '\r'); // a continued line of a file from Windows
                match rest.next() {
                    None | Some((_, '\n')) => {} // the line goes on
                    Some((_, c)) => word.get_or_insert_default().push(c),
                }
            }
            '|' | '&' | ';' | '<' | '>' | '(' | ')' => {
                return Err(fault(
                    E_PARAM,
                    "",
                    format!(
                        "`{c}` at character {} is for the shell and no option of the engine: give \
                         the engine's command alone, and quote the character where it belongs to \
                         a value",
                        at + 1
                    ),
                ));
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

fn unbalanced(quote: char, at: usize) -> crate::Error {
    fault(
        E_PARAM,
        "",
        format!("the quote {quote} at character {} is never closed: close it", at + 1),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refusal(text: &str) -> String {
        split(text).unwrap_err().to_string()
    }

    #[test]
    fn words_are_separated_by_any_white_space() {
        assert_eq!(split(" a \t b\r\nc ").unwrap(), ["a", "b", "c"]);
        assert!(split(" \n").unwrap().is_empty());
    }

    #[test]
    fn quotes_keep_json_whole_and_join_with_their_neighbours() {
        assert_eq!(
            split(r#"-sc '{"method": "mtp"}' --a="x y" "" "#).unwrap(),
            ["-sc", r#"{"method": "mtp"}"#, "--a=x y", ""]
        );
        assert_eq!(
            split(r#""{\"a\": 1}" "a\nb\\" 'a\'"#).unwrap(),
            [r#"{"a": 1}"#, r"a\nb\", r"a\"]
        );
    }

    #[test]
    fn a_backslash_escapes_a_character_and_continues_a_line() {
        assert_eq!(split("a\\ b --x \\\n 1 \\\r\n 2 \\").unwrap(), ["a b", "--x", "1", "2"]);
        assert_eq!(split("\"a\\\nb\"").unwrap(), ["ab"]);
    }

    #[test]
    fn an_open_quote_is_refused_with_its_place() {
        assert!(refusal("ab 'c").contains("' at character 4 is never closed"));
        assert!(refusal(r#"ab "c\""#).contains("\" at character 4 is never closed"));
        assert!(refusal("\"\\").contains("\" at character 1 is never closed"));
    }

    #[test]
    fn what_the_shell_would_keep_is_refused_unless_quoted() {
        for operator in ["|", "&", ";", "<", ">", "(", ")"] {
            assert!(refusal(&format!("a {operator}b")).contains("at character 3"), "{operator}");
            assert_eq!(split(&format!("'{operator}'")).unwrap(), [operator]);
        }
    }

    proptest! {
        #[test]
        fn quoted_words_come_back_as_they_were(words in proptest::collection::vec(".*", 0..6)) {
            let quoted: Vec<_> =
                words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
            prop_assert_eq!(split(&quoted.join(" ")).unwrap(), words);
        }

        #[test]
        fn any_text_is_split_or_refused_the_same_way_twice(text in ".*") {
            prop_assert_eq!(split(&text), split(&text));
        }
    }
}
