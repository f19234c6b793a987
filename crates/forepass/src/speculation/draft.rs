//! What a scheme drafts in one step, and what of it can be replayed.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::codes::{E_RANGE, E_TREE};
use crate::error::{Error, Result, join};

/// The deepest chain that can be replayed.
pub const MAX_REPLAY_DEPTH: u32 = 5;

/// What a scheme drafts in one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Draft {
    /// Kind of the scheme.
    pub kind: String,
    /// Most draft tokens that one step can accept.
    pub depth: u32,
    /// Tokens of a sequence that the target model verifies in one step; at least 1.
    pub verify_width: u32,
    /// Whether drafts branch.
    pub tree: bool,
    /// Where the depth comes from.
    pub depth_source: Source,
    /// Where the verify width comes from.
    pub verify_width_source: Source,
}

/// Where a number comes from; shown as a JSON path, or in words.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The value at this path of the speculation block, such as `params.tree_shape`.
    Path(String),
    /// The default of the scheme.
    Default,
    /// The depth of the same draft, plus one.
    Depth,
    /// A registered scheme.
    Scheme,
}

impl Source {
    /// A path of the speculation block.
    pub fn path(path: impl Into<String>) -> Self {
        Self::Path(path.into())
    }

    /// The same source seen from an enclosing document: `prefix` is put before a path.
    #[must_use]
    pub fn within(self, prefix: &str) -> Self {
        match self {
            Self::Path(path) => Self::Path(join(prefix, &path)),
            other => other,
        }
    }

    /// The path to show for a fault of the number; empty for the block where no value gave it.
    fn at(&self) -> &str {
        match self {
            Self::Path(path) => path,
            _ => "",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(match self {
            Self::Path(path) => path,
            Self::Default => "default",
            Self::Depth => "depth + 1",
            Self::Scheme => "registered scheme",
        })
    }
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl Draft {
    /// A chain: one draft token a level, all of them verified beside the one before them.
    pub fn chain(kind: impl Into<String>, depth: u32, source: Source) -> Self {
        Self {
            kind: kind.into(),
            depth,
            verify_width: depth.saturating_add(1),
            tree: false,
            depth_source: source,
            verify_width_source: Source::Depth,
        }
    }

    /// The same draft with this verify width.
    #[must_use]
    pub fn with_verify_width(mut self, verify_width: u32, source: Source) -> Self {
        self.verify_width = verify_width;
        self.verify_width_source = source;
        self
    }

    /// The same draft, branching or not.
    #[must_use]
    pub fn with_tree(mut self, tree: bool) -> Self {
        self.tree = tree;
        self
    }

    /// The same draft seen from a document that encloses its speculation block.
    #[must_use]
    pub fn within(mut self, prefix: &str) -> Self {
        self.depth_source = self.depth_source.within(prefix);
        self.verify_width_source = self.verify_width_source.within(prefix);
        self
    }

    /// Whether each verified position but the first is one level of the draft.
    pub fn is_chain(&self) -> bool {
        !self.tree && self.depth.checked_add(1) == Some(self.verify_width)
    }

    /// The depth at which this is replayed.
    ///
    /// # Errors
    /// `E_TREE` unless this is a chain; `E_RANGE` unless it is of depth 1 to
    /// [`MAX_REPLAY_DEPTH`], or of depth 0 and the kind `none`.
    pub fn replay_depth(&self) -> Result<u32> {
        let Self { kind, depth, verify_width, .. } = self;
        if !self.is_chain() {
            let shape = if self.tree { "branches" } else { "is no chain" };
            return Err(Error::speculation(
                E_TREE,
                self.verify_width_source.at(),
                format!(
                    "{kind} {shape}: depth {depth}, verify width {verify_width}; a replay needs a \
                     chain, whose verify width is its depth + 1"
                ),
            ));
        }
        if *depth > MAX_REPLAY_DEPTH || (*depth == 0 && kind != super::NONE) {
            return Err(Error::speculation(
                E_RANGE,
                self.depth_source.at(),
                format!(
                    "depth {depth} of {kind} cannot be replayed: must be 1 to {MAX_REPLAY_DEPTH}"
                ),
            ));
        }
        Ok(*depth)
    }
}
