//! What one engine's command line knows: its names, which of them take a value, which speculate.

/// The options of one engine, by their names with underscores and without dashes.
pub(super) struct Dialect {
    /// Our name of the engine.
    pub(super) engine: &'static str,
    /// Words that start the engine; what stands before them is a launcher's.
    pub(super) entries: &'static [&'static [&'static str]],
    /// Other spellings, and the names that they stand for.
    pub(super) aliases: &'static [(&'static str, &'static str)],
    /// Environment variables that change what is accepted, and the names that they stand for.
    pub(super) environment: &'static [(&'static str, &'static str)],
    /// The option that holds the draft depth.
    pub(super) depth: &'static str,
    /// Options that tell what is drafted and how much of it is accepted.
    pub(super) fields: &'static [&'static str],
    /// Options of speculation that change neither.
    pub(super) inert: &'static [&'static str],
    /// Whether the engine itself refuses unknown names within `speculative_config`.
    pub(super) closed: bool,
    /// Options that name a file of further options.
    pub(super) files: &'static [&'static str],
    /// Flags that stand alone, of speculation and else.
    pub(super) switches: &'static [&'static str],
    /// Flags that take a value or not.
    pub(super) optional: &'static [&'static str],
    /// Flags that take several values.
    pub(super) lists: &'static [&'static str],
    /// Other flags, each with one value.
    pub(super) values: &'static [&'static str],
}

/// What follows a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    One,
    /// A value unless another flag comes; also for a flag that is not known.
    Perhaps,
    Many,
}

/// The object under which engines keep the options of speculation.
pub(super) const CONTAINER: &str = "speculative_config";

/// Spellings of the draft depth that an engine's neighbours use.
const DEPTH_SPELLINGS: [&str; 7] = [
    "num_speculative_tokens",
    "speculative_num_steps",
    "speculative_token_num",
    "max_draft_len",
    "num_nextn_predict_layers",
    "num_draft_tokens",
    "depth",
];

/// What an option is to the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// It tells what is drafted.
    Field(&'static str),
    /// It tells the depth as another engine spells it.
    Foreign(&'static str),
    /// The engine knows it, and it changes no depth.
    Inert,
    Unknown,
}

impl Dialect {
    /// The name that a spelling stands for.
    pub(super) fn name<'a>(&self, spelling: &'a str) -> &'a str {
        self.aliases.iter().find(|(alias, _)| *alias == spelling).map_or(spelling, |(_, name)| name)
    }

    /// What the option of this name is to the engine.
    pub(super) fn class(&self, name: &str) -> Class {
        if let Some(field) = self.fields.iter().find(|field| **field == name) {
            return Class::Field(field);
        }
        let known = [self.inert, self.switches, self.optional, self.lists, self.values, self.files];
        if known.iter().any(|names| names.contains(&name)) || self.negates(name) {
            return Class::Inert;
        }
        let spelling = name.strip_prefix("speculative_config.").unwrap_or(name);
        if DEPTH_SPELLINGS.contains(&spelling) {
            return Class::Foreign(self.depth);
        }
        Class::Unknown
    }

    /// What follows the flag of this name.
    pub(super) fn takes(&self, name: &str) -> Takes {
        if self.switches.contains(&name) || self.negates(name) {
            Takes::Nothing
        } else if self.lists.contains(&name) {
            Takes::Many
        } else if self.optional.contains(&name)
            || (self.class(name) == Class::Unknown && name != CONTAINER)
        {
            Takes::Perhaps
        } else {
            Takes::One
        }
    }

    fn negates(&self, name: &str) -> bool {
        name.strip_prefix("no_").is_some_and(|name| self.switches.contains(&name))
    }

    /// Where the engine's own command begins: the index of its entry, and of what follows it.
    pub(super) fn entry(&self, words: &[String]) -> Option<(usize, usize)> {
        (0..words.len()).find_map(|start| {
            let matching = self.entries.iter().filter(|entry| begins(&words[start..], entry));
            matching.map(|entry| entry.len()).max().map(|length| (start, start + length))
        })
    }
}

/// Whether words begin with an entry, whose first word may be a path or an image with its tag.
fn begins(words: &[String], entry: &[&str]) -> bool {
    words.len() >= entry.len()
        && words.iter().zip(entry).enumerate().all(|(index, (word, expected))| {
            let name = word.rsplit('/').next().unwrap_or(word);
            let name = name.split(':').next().unwrap_or(name);
            word == expected || (index == 0 && name == *expected)
        })
}
