//! One list of an engine's options, whether they came as arguments, as a command line or as a mapping.

use serde_json::{Map, Value};

use super::argv::{self, spelling};
use super::dialect::{CONTAINER, Class, Dialect};
use super::{fault, shell};
use crate::codes::{E_DEPTH_CONFLICT, E_PARAM};
use crate::config::document::from_json;
use crate::error::{Error, Result, join};

/// Why an option of speculation is ignored.
pub(super) const INERT: &str = "changes neither depth nor acceptance";

/// Why an option is ignored that other parts of the engine read.
const ELSEWHERE: &str = "does not concern speculation";

/// Options of an engine in one of the forms in which people hold them.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum EngineOptions {
    /// The arguments, with or without the engine's command before them.
    Argv(Vec<String>),
    /// The command as it is typed into a shell, with or without the engine's name.
    CommandLine(String),
    /// The options by their names, such as the keyword arguments or the YAML file of an engine.
    Mapping(Map<String, Value>),
}

impl EngineOptions {
    /// Options from JSON text, as [`from_value`](Self::from_value).
    pub fn from_json(text: &[u8]) -> Result<Self> {
        let value =
            from_json(text).map_err(|error| fault(E_PARAM, &error.path(), error.message()))?;
        Self::from_value(value)
    }

    /// Options from JSON: a list of arguments, a command line, or an object.
    pub fn from_value(value: Value) -> Result<Self> {
        match value {
            Value::Array(words) => words
                .into_iter()
                .enumerate()
                .map(|(index, word)| match word {
                    Value::String(word) => Ok(word),
                    other => Err(fault(
                        E_PARAM,
                        &format!("[{index}]"),
                        format!("is {other}: an argument is a string"),
                    )),
                })
                .collect::<Result<_>>()
                .map(Self::Argv),
            Value::String(command) => Ok(Self::CommandLine(command)),
            Value::Object(mapping) => Ok(Self::Mapping(mapping)),
            other => Err(fault(
                E_PARAM,
                "",
                format!(
                    "is {other}: engine options are a list of arguments, a command line or an object"
                ),
            )),
        }
    }
}

/// An option's value as it was given.
#[derive(Debug, Clone, PartialEq)]
enum Given {
    /// A flag that stands alone.
    Flag,
    /// Text of a command line.
    Text(String),
    Json(Value),
}

impl Given {
    /// The value that the engine's own parser would see.
    fn value(&self) -> Value {
        match self {
            Self::Flag => Value::Bool(true),
            Self::Json(value) => value.clone(),
            Self::Text(text) => match text.as_str() {
                "True" => Value::Bool(true),
                "False" => Value::Bool(false),
                _ => serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into()),
            },
        }
    }
}

/// A value and the option that gave it, as that was spelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sourced<T> {
    pub(super) value: T,
    pub(super) source: String,
}

/// One option: the name that its spelling stands for, and its value.
struct Entry {
    name: String,
    given: Sourced<Given>,
    /// Whether the value was asked for.
    read: bool,
}

/// Everything that was given, in its order.
pub(super) struct Options {
    dialect: &'static Dialect,
    given: Vec<Entry>,
    /// Known options that change no depth, as they were spelled, and why.
    pub(super) ignored: Vec<String>,
    /// What looks wrong and stops nothing.
    pub(super) warnings: Vec<String>,
    /// Options that are not known, as they were spelled.
    pub(super) unknown: Vec<String>,
}

impl Options {
    /// Reads options for an engine; `others` are the engines whose commands are not its own.
    pub(super) fn read(
        options: &EngineOptions,
        dialect: &'static Dialect,
        others: &[&Dialect],
    ) -> Result<Self> {
        let mut read = Self {
            dialect,
            given: Vec::new(),
            ignored: Vec::new(),
            warnings: Vec::new(),
            unknown: Vec::new(),
        };
        match options {
            EngineOptions::Argv(words) => read.arguments(words, others)?,
            EngineOptions::CommandLine(command) => {
                read.arguments(&shell::split(command)?, others)?;
            }
            EngineOptions::Mapping(mapping) => read.mapping(mapping, "")?,
        }
        Ok(read)
    }

    fn arguments(&mut self, words: &[String], others: &[&Dialect]) -> Result<()> {
        let arguments = argv::parse(words, self.dialect, others)?;
        for (name, value) in arguments.environment {
            if let Some((_, field)) = self.dialect.environment.iter().find(|(key, _)| *key == name)
            {
                self.push(field, name, Given::Text(value));
            }
        }
        let mut positional = arguments.positional.into_iter();
        if let Some(model) = positional.next() {
            self.ignore(&model, ELSEWHERE);
            self.push("model", model.clone(), Given::Text(model));
        }
        self.unknown.extend(positional);
        for (flag, value) in arguments.flags {
            self.add(&flag, flag.clone(), value.map_or(Given::Flag, Given::Text))?;
        }
        Ok(())
    }

    fn mapping(&mut self, mapping: &Map<String, Value>, path: &str) -> Result<()> {
        for (key, value) in mapping {
            if !value.is_null() {
                self.add(key, join(path, key), Given::Json(value.clone()))?;
            }
        }
        Ok(())
    }

    /// Adds one option under its spelled key, which may lead into the nested object by a dot.
    fn add(&mut self, key: &str, source: String, given: Given) -> Result<()> {
        let environment = self.dialect.environment.iter().find(|(name, _)| *name == key);
        let spelled = spelling(key);
        let (head, inner) = match spelled.split_once('.') {
            Some((head, inner)) => (head, Some(inner)),
            None => (spelled.as_str(), None),
        };
        let name = self.dialect.name(head);
        if let Some((_, field)) = environment {
            self.push(field, source, given);
        } else if name == CONTAINER {
            match inner {
                Some(inner) => self.nested(inner, source, given)?,
                None => {
                    for (key, value) in object(given, &source)?.into_iter().flatten() {
                        if !value.is_null() {
                            let source = join(&source, &key);
                            self.nested(&spelling(&key), source, Given::Json(value))?;
                        }
                    }
                }
            }
        } else if self.dialect.files.contains(&name) {
            match given {
                Given::Json(Value::Object(mapping)) => self.mapping(&mapping, &source)?,
                _ => self.warnings.push(format!(
                    "{source}: the file is not read here: give its content as an object in place \
                     of its name"
                )),
            }
        } else {
            self.classify(name, source, given)?;
        }
        Ok(())
    }

    /// Adds an option of the nested object.
    fn nested(&mut self, key: &str, source: String, given: Given) -> Result<()> {
        let head = key.split('.').next().unwrap_or(key);
        let path = format!("{CONTAINER}.{head}");
        let mut name = self.dialect.name(&path);
        if !self.dialect.depth.starts_with(CONTAINER) {
            name = self.dialect.name(head); // an engine without nested names: the flag's own
        }
        if self.dialect.closed && self.dialect.class(name) == Class::Unknown {
            return Err(fault(
                E_PARAM,
                &source,
                format!("is no field of {CONTAINER}, and {} refuses it", self.dialect.engine),
            ));
        }
        self.classify(name, source, given)
    }

    fn is_field(&self, name: &str) -> bool {
        matches!(self.dialect.class(name), Class::Field(_)) || self.dialect.inert.contains(&name)
    }

    fn classify(&mut self, name: &str, source: String, given: Given) -> Result<()> {
        match self.dialect.class(name) {
            Class::Field(_) => self.push(name, source, given),
            Class::Foreign(depth) => {
                self.warnings.push(format!(
                    "{source}: {} does not spell the draft depth so; it is read as {depth}",
                    self.dialect.engine
                ));
                self.push(depth, source, given);
            }
            Class::Inert => {
                let why = if self.dialect.inert.contains(&name) { INERT } else { ELSEWHERE };
                self.ignore(&source, why);
                self.push(name, source, given);
            }
            Class::Unknown => {
                if self.is_field(&format!("{CONTAINER}.{name}")) {
                    return Err(fault(
                        E_PARAM,
                        &source,
                        format!("belongs within {CONTAINER}: write it there"),
                    ));
                }
                self.unknown.push(source);
            }
        }
        Ok(())
    }

    fn push(&mut self, name: &str, source: String, value: Given) {
        let given = Sourced { value, source };
        self.given.push(Entry { name: name.to_owned(), given, read: false });
    }

    /// The spellings of the options of speculation that were given.
    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        let fields = self.given.iter().filter(|entry| self.is_field(&entry.name));
        fields.map(|entry| entry.given.source.as_str())
    }

    /// Lists an option as one without effect.
    pub(super) fn ignore(&mut self, source: &str, why: &str) {
        let ignored = format!("{source}: {why}");
        if !self.ignored.contains(&ignored) {
            self.ignored.push(ignored);
        }
    }

    /// Lists the options of speculation that a method did not ask for.
    pub(super) fn ignore_unread(&mut self, method: &str) {
        let unread: Vec<_> = self
            .given
            .iter()
            .filter(|entry| !entry.read && self.dialect.fields.contains(&entry.name.as_str()))
            .map(|entry| entry.given.source.clone())
            .collect();
        for source in unread {
            self.ignore(&source, &format!("no effect with {method}"));
        }
    }

    /// The value of an option, on which all its spellings must agree.
    fn find(&mut self, name: &str) -> Result<Option<Sourced<Given>>> {
        let mut all = self.given.iter_mut().filter(|entry| entry.name == name).map(|entry| {
            entry.read = true;
            &entry.given
        });
        let Some(first) = all.next() else {
            return Ok(None);
        };
        let value = first.value.value();
        // The whole list is gone through, as each of its options is asked for.
        let other = all.fold(None, |found, other| {
            found.or_else(|| (other.value.value() != value).then_some(other))
        });
        if let Some(other) = other {
            let code = if name == self.dialect.depth { E_DEPTH_CONFLICT } else { E_PARAM };
            return Err(fault(
                code,
                &other.source,
                format!(
                    "is {}, but {}, which says the same, is {value}: give one",
                    other.value.value(),
                    first.source
                ),
            ));
        }
        Ok(Some(first.clone()))
    }

    /// A whole number that is not negative.
    pub(super) fn integer(&mut self, name: &str) -> Result<Option<Sourced<u64>>> {
        self.typed(name, "a whole number from 0 to 4294967295", |given| {
            let value = match given {
                Given::Text(text) if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
                Given::Json(value) => value.as_u64(),
                _ => None,
            };
            value.filter(|value| u32::try_from(*value).is_ok())
        })
    }

    /// A finite number.
    pub(super) fn real(&mut self, name: &str) -> Result<Option<Sourced<f64>>> {
        self.typed(name, "a number", |given| {
            match given {
                Given::Text(text) => text.parse().ok(),
                Given::Json(value) => value.as_f64(),
                Given::Flag => None,
            }
            .filter(|value: &f64| value.is_finite())
        })
    }

    /// Text that is not blank.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<Sourced<String>>> {
        self.typed(name, "a text", |given| match given {
            Given::Text(text) | Given::Json(Value::String(text)) if !text.trim().is_empty() => {
                Some(text.clone())
            }
            _ => None,
        })
    }

    /// A switch, which is off where it is not given.
    pub(super) fn switch(&mut self, name: &str) -> Result<Option<Sourced<bool>>> {
        self.typed(name, "true or false", |given| given.value().as_bool())
    }

    /// Any value, its JSON read where it came as text.
    pub(super) fn json(&mut self, name: &str) -> Result<Option<Sourced<Value>>> {
        self.typed(name, "a value", |given| Some(given.value()))
    }

    fn typed<T>(
        &mut self,
        name: &str,
        expected: &str,
        read: impl Fn(&Given) -> Option<T>,
    ) -> Result<Option<Sourced<T>>> {
        let Some(Sourced { value: given, source }) = self.find(name)? else {
            return Ok(None);
        };
        match read(&given) {
            Some(value) => Ok(Some(Sourced { value, source })),
            None => Err(wrong(&source, &given.value(), expected)),
        }
    }
}

/// The refusal of a value that is not what it should be.
pub(super) fn wrong(source: &str, value: &Value, expected: &str) -> Error {
    fault(E_PARAM, source, format!("is {value}: must be {expected}"))
}

/// The nested object, given as such or as its JSON; none where it is `null`.
fn object(given: Given, source: &str) -> Result<Option<Map<String, Value>>> {
    let value = match given {
        Given::Json(Value::String(text)) | Given::Text(text) => {
            from_json::<Value>(text.as_bytes()).map_err(|error| {
                let hint = if text.starts_with(['\'', '"']) {
                    "the outer quotes belong to the shell, and not to the value"
                } else {
                    "names and texts stand in double quotes, and the shell needs '...' around it all"
                };
                fault(E_PARAM, source, format!("`{text}` is no JSON object ({error}): {hint}"))
            })?
        }
        Given::Json(value) => value,
        Given::Flag => {
            return Err(fault(E_PARAM, source, "has no value: write one after it".to_owned()));
        }
    };
    match value {
        Value::Object(object) => Ok(Some(object)),
        Value::Null => Ok(None),
        other => Err(wrong(source, &other, "a JSON object")),
    }
}
