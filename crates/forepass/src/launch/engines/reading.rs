//! What an engine's own options say of speculation, and the speculation block that they mean.

use serde_json::{Map, Value};

use super::options::Sourced;
use crate::config::SpeculationConfig;
use crate::error::{Error, Result};
use crate::speculation::AcceptanceRates;

/// The source of a number that the engine takes from a checkpoint.
pub(super) const ENGINE_DEFAULT: &str = "engine default (needs the architecture)";

/// The deepest draft that is written out level by level, so that no depth takes all memory.
pub(super) const DEEPEST: u64 = 1024;

/// A number, none where the engine alone knows it, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Quantity {
    pub(super) value: Option<u64>,
    pub(super) source: String,
    /// The option that is at fault where the number is.
    option: Option<String>,
}

impl Quantity {
    pub(super) fn new(value: u64, source: impl Into<String>) -> Self {
        Self { value: Some(value), source: source.into(), option: None }
    }

    /// The same number, for which this option answers.
    pub(super) fn of(mut self, option: &str) -> Self {
        self.option = Some(option.to_owned());
        self
    }

    /// A number that follows from this one.
    pub(super) fn derived(&self, value: u64, source: impl Into<String>) -> Self {
        Self { option: self.option.clone(), ..Self::new(value, source) }
    }

    /// A number that only the engine knows.
    pub(super) fn of_engine() -> Self {
        Self { value: None, source: ENGINE_DEFAULT.to_owned(), option: None }
    }

    /// A number that was given, or else only the engine knows it.
    pub(super) fn given(number: Option<&Sourced<u64>>) -> Self {
        number.map_or_else(Self::of_engine, |number| {
            Self::new(number.value, &number.source).of(&number.source)
        })
    }

    /// The number and one more.
    pub(super) fn plus_one(&self) -> Self {
        match self.value {
            Some(value) => self.derived(value.saturating_add(1), format!("{} + 1", self.source)),
            None => self.clone(),
        }
    }

    /// The number as words say it.
    fn words(&self) -> String {
        self.value.map_or_else(|| "of the engine's choice".to_owned(), |value| value.to_string())
    }
}

/// What the options of an engine say of speculation.
#[derive(Debug, PartialEq)]
pub(super) struct Reading {
    /// The engine's name of the method, none where nothing is drafted.
    pub(super) method: Option<Sourced<String>>,
    /// Our kind of scheme, where there is one.
    pub(super) kind: Option<&'static str>,
    /// Most draft tokens that one step can accept.
    pub(super) depth: Quantity,
    /// Tokens of a sequence that one step verifies.
    pub(super) width: Quantity,
    /// Whether drafts branch.
    pub(super) tree: bool,
    /// How the depth changes while the engine runs, if it does.
    pub(super) dynamic: Option<String>,
    /// Checkpoint of the draft model.
    pub(super) draft: Option<Sourced<String>>,
    /// Acceptance that the engine is told to pretend.
    pub(super) acceptance: Result<Option<Sourced<AcceptanceRates>>>,
    /// The speculation block that the options mean.
    pub(super) config: Option<SpeculationConfig>,
    /// Which option stands behind a path of that block.
    pub(super) origins: Vec<(String, String)>,
    /// Why the options cannot mean a block, or mean one that cannot be replayed.
    pub(super) refusals: Vec<Error>,
}

impl Reading {
    /// Nothing is drafted.
    pub(super) fn nothing(source: &str) -> Self {
        Self {
            kind: Some("none"),
            depth: Quantity::new(0, source),
            width: Quantity::new(1, source),
            config: Some(SpeculationConfig::new("none", Map::new())),
            ..Self::of(None)
        }
    }

    /// A method of which nothing else is known yet.
    pub(super) fn of(method: Option<Sourced<String>>) -> Self {
        Self {
            method,
            kind: None,
            depth: Quantity::of_engine(),
            width: Quantity::of_engine(),
            tree: false,
            dynamic: None,
            draft: None,
            acceptance: Ok(None),
            config: None,
            origins: Vec::new(),
            refusals: Vec::new(),
        }
    }

    /// A chain of this depth.
    pub(super) fn chain(mut self, depth: Quantity) -> Self {
        self.width = depth.plus_one();
        self.depth = depth;
        self
    }

    /// The depth, where acceptance can be told for each of its levels.
    pub(super) fn rated_depth(&self) -> Option<u32> {
        let depth = self.depth.value.filter(|depth| *depth <= DEEPEST);
        depth.and_then(|depth| u32::try_from(depth).ok())
    }

    /// Adds a reason.
    pub(super) fn refuse(&mut self, refusal: Error) {
        self.refusals.push(refusal);
    }

    /// The block of this kind, whose depth stands under the parameter of this name; none where the
    /// depth is the engine's choice, for a scheme may have a default of its own.
    pub(super) fn lower(&mut self, kind: &'static str, parameter: &str) {
        let Some(depth) = self.depth.value else {
            return;
        };
        let mut config = SpeculationConfig::new(kind, Map::new());
        config.params.insert(parameter.to_owned(), depth.into());
        let option = self.depth.option.clone();
        self.origins.extend(option.map(|option| (format!("params.{parameter}"), option)));
        if let Some(draft) = &self.draft {
            config.draft_model_path = Some(draft.value.clone());
            self.origins.push(("draft_model_path".to_owned(), draft.source.clone()));
        }
        if let Some(method) = &self.method {
            self.origins.push(("kind".to_owned(), method.source.clone()));
        }
        self.config = Some(config);
    }

    /// Gives the block what is verified of a tree and, where they are known, the widths of its
    /// levels in place of their number.
    pub(super) fn branch(&mut self, levels: &[u64]) {
        if let Some(config) = &mut self.config {
            if !levels.is_empty() {
                config.params.clear();
                config.params.insert("tree_shape".to_owned(), levels.into());
                let option = self.depth.option.clone();
                self.origins.extend(option.map(|option| ("params.tree_shape".to_owned(), option)));
            }
            if let Some(width) = self.width.value {
                config.params.insert("verify_token_budget".to_owned(), Value::from(width));
                let option = self.width.option.clone();
                let path = "params.verify_token_budget".to_owned();
                self.origins.extend(option.map(|option| (path, option)));
            }
        }
    }

    /// The option behind a path of the block, or the method's.
    pub(super) fn origin(&self, path: &str) -> String {
        let origin = self.origins.iter().find(|(known, _)| known == path);
        match (origin, &self.method) {
            (Some((_, source)), _) => source.clone(),
            (None, Some(method)) => method.source.clone(),
            (None, None) => path.to_owned(),
        }
    }

    /// What was read, in words.
    pub(super) fn words(&self) -> String {
        let Self { method, kind, depth, width, tree, .. } = self;
        let method = method.as_ref().map_or("no speculation", |method| method.value.as_str());
        format!(
            "{method} ({}{}, depth {}, decode width {})",
            kind.map_or_else(|| "no kind here".to_owned(), |kind| format!("kind {kind}")),
            if *tree { ", a tree" } else { "" },
            depth.words(),
            width.words(),
        )
    }
}
