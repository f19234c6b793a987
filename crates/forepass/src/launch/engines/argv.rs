//! Tells flags from their values in an engine's argument list.

use super::dialect::{CONTAINER, Class, Dialect, Takes};
use super::fault;
use crate::codes::{E_ENGINE, E_PARAM};
use crate::error::Result;

/// An argument list taken apart.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Arguments {
    /// `NAME=VALUE` before the engine's command.
    pub(super) environment: Vec<(String, String)>,
    /// Each flag as it is spelled, with its value where it has one.
    pub(super) flags: Vec<(String, Option<String>)>,
    /// What is neither a flag nor a flag's value.
    pub(super) positional: Vec<String>,
}

/// Takes a whole command, or the options alone, apart.
///
/// `others` are the engines that the command must not start.
pub(super) fn parse(words: &[String], dialect: &Dialect, others: &[&Dialect]) -> Result<Arguments> {
    let entry = dialect.entry(words);
    if entry.is_none() {
        if let Some(other) = others.iter().find(|other| other.entry(words).is_some()) {
            return Err(fault(
                E_ENGINE,
                "",
                format!(
                    "the command starts {}, and the engine is said to be {}: name that one",
                    other.engine, dialect.engine
                ),
            ));
        }
    }
    let (start, after) = entry.unwrap_or_else(|| {
        let start = words.iter().take_while(|word| assignment(word).is_some()).count();
        (start, start + usize::from(words.get(start).is_some_and(|word| word == "serve")))
    });
    let mut arguments = Arguments {
        environment: words[..start].iter().filter_map(|word| assignment(word)).collect(),
        ..Arguments::default()
    };
    let mut rest = words[after..].iter().peekable();
    while let Some(word) = rest.next() {
        if word == "--" {
            arguments.positional.extend(rest.by_ref().cloned());
        } else if !is_flag(word) {
            arguments.positional.push(word.clone());
        } else if let Some((flag, value)) = word.split_once('=') {
            arguments.flags.push((flag.to_owned(), Some(value.to_owned())));
        } else if let Some((flag, value)) = joined(word, dialect) {
            arguments.flags.push((flag, Some(value)));
        } else {
            let spelling = spelling(word);
            let (name, takes) = match spelling.split_once('.') {
                Some((head, _)) => (dialect.name(head), Takes::One),
                None => (dialect.name(&spelling), dialect.takes(dialect.name(&spelling))),
            };
            let value = match takes {
                Takes::Nothing => None,
                _ => rest.next_if(|next| !is_flag(next)).cloned(),
            };
            if value.is_none() && takes == Takes::One && speculates(dialect, name) {
                return Err(fault(E_PARAM, word, "has no value: write one after it".to_owned()));
            }
            arguments.flags.push((word.clone(), value));
            if takes == Takes::Many {
                while rest.next_if(|next| !is_flag(next)).is_some() {}
            }
        }
    }
    Ok(arguments)
}

/// The name that a flag or a key spells: underscores, no dashes before it.
pub(super) fn spelling(flag: &str) -> String {
    flag.trim_start_matches('-').replace('-', "_")
}

fn speculates(dialect: &Dialect, name: &str) -> bool {
    name == CONTAINER || matches!(dialect.class(name), Class::Field(_) | Class::Foreign(_))
}

/// Whether a word is a flag; a negative number is a value.
fn is_flag(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next() == Some('-') && chars.next().is_some_and(|c| !c.is_ascii_digit() && c != '.')
}

/// A flag of one letter with its value joined to it, such as `-O3`.
fn joined(word: &str, dialect: &Dialect) -> Option<(String, String)> {
    let (letter, digits) = word.strip_prefix('-')?.split_at_checked(1)?;
    let known = dialect.aliases.iter().any(|(alias, _)| *alias == letter);
    (known && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
        .then(|| (format!("-{letter}"), digits.to_owned()))
}

fn assignment(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let mut chars = name.chars();
    let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    (starts && chars.all(|c| c.is_ascii_alphanumeric() || c == '_'))
        .then(|| (name.to_owned(), value.to_owned()))
}
