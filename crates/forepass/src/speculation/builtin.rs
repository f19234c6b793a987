//! The schemes whose depth follows from their parameters alone.

use serde_json::Value;

use super::backend::Backend;
use super::draft::{Draft, Source};
use super::params::{
    count, count_of, depth, has_draft_path, no_draft_model, only, param, required_depth,
};
use super::registry::SpeculationScheme;
use crate::codes::E_RUNTIME;
use crate::config::SpeculationConfig;
use crate::error::{Error, Result};

const DEFAULT_EAGLE3_DEPTH: u32 = 3;

/// The scheme of this kind, if it is one of those built in.
pub(super) fn scheme(kind: &str) -> Option<&'static dyn SpeculationScheme> {
    SCHEMES.into_iter().find(|scheme| scheme.kind() == kind)
}

/// All schemes built in.
pub(super) const SCHEMES: [&dyn SpeculationScheme; 7] =
    [&Nothing, &Mtp, &Ngram, &Eagle3, &DraftModel, &Dflash, &Dspark];

/// No drafting.
struct Nothing;
/// Multi-token prediction: layers of the target model draft.
struct Mtp;
/// Drafts looked up in the text so far.
struct Ngram;
/// A small model that reads the target's hidden states drafts a chain or a tree.
struct Eagle3;
/// A small language model drafts.
struct DraftModel;
/// A block is denoised at once; its first position is the token that is already there.
struct Dflash;
/// A block is drafted at once, all of it new.
struct Dspark;

impl SpeculationScheme for Nothing {
    fn kind(&self) -> &'static str {
        super::NONE
    }

    fn backends(&self) -> &[Backend] {
        &Backend::ALL
    }

    fn resolve(&self, config: &SpeculationConfig) -> Result<Draft> {
        only(config, &[])?;
        no_draft_model(config)?;
        Ok(Draft::chain(self.kind(), 0, Source::Path("kind".to_owned())))
    }
}

impl SpeculationScheme for Mtp {
    fn kind(&self) -> &'static str {
        "mtp"
    }

    fn backends(&self) -> &[Backend] {
        &[Backend::Vllm, Backend::Sglang]
    }

    fn resolve(&self, config: &SpeculationConfig) -> Result<Draft> {
        only(config, &["depth", "num_speculative_tokens"])?;
        no_draft_model(config)?;
        let spellings = (depth(config, "depth")?, depth(config, "num_speculative_tokens")?);
        let (depth, source) = match spellings {
            (Some((depth, _)), Some((tokens, _))) if depth != tokens => {
                return Err(param(
                    "params.num_speculative_tokens",
                    format!("{tokens}, but params.depth, its other spelling, is {depth}: give one"),
                ));
            }
            (Some(given), _) | (None, Some(given)) => given,
            (None, None) => {
                return Err(param(
                    "params.depth",
                    "absent: mtp requires depth or num_speculative_tokens",
                ));
            }
        };
        Ok(Draft::chain(self.kind(), depth, source))
    }
}

impl SpeculationScheme for Ngram {
    fn kind(&self) -> &'static str {
        "ngram"
    }

    fn backends(&self) -> &[Backend] {
        &[Backend::Vllm]
    }

    fn resolve(&self, config: &SpeculationConfig) -> Result<Draft> {
        only(config, &["num_speculative_tokens", "trigger_rate"])?;
        no_draft_model(config)?;
        if let Some(rate) = config.params.get("trigger_rate") {
            if rate.as_f64() != Some(1.0) {
                return Err(param(
                    "params.trigger_rate",
                    format!("{rate}: must be 1, as every step is taken to draft"),
                ));
            }
        }
        let (depth, source) = required_depth(config, "num_speculative_tokens")?;
        Ok(Draft::chain(self.kind(), depth, source))
    }
}

impl SpeculationScheme for Eagle3 {
    fn kind(&self) -> &'static str {
        "eagle3"
    }

    fn backends(&self) -> &[Backend] {
        &[Backend::Vllm, Backend::Sglang]
    }

    fn resolve(&self, config: &SpeculationConfig) -> Result<Draft> {
        only(config, &["num_speculative_tokens", "tree_shape", "verify_token_budget"])?;
        if !has_draft_path(config)? && config.draft_config.is_none() {
            return Err(param("draft_config", "absent: eagle3 requires it or draft_model_path"));
        }
        let budget = count(config, "verify_token_budget", 2)?;
        let tokens = depth(config, "num_speculative_tokens")?;
        let draft = if let Some(shape) = config.params.get("tree_shape") {
            self.shaped(shape, tokens.map(|(tokens, _)| tokens))?
        } else {
            let (depth, source) = tokens.unwrap_or((DEFAULT_EAGLE3_DEPTH, Source::Default));
            Draft::chain(self.kind(), depth, source)
        };
        Ok(match budget {
            Some(width) => {
                draft.with_verify_width(width, Source::path("params.verify_token_budget"))
            }
            None => draft,
        })
    }
}

impl Eagle3 {
    /// The draft with these widths of its levels, as many as `tokens` says if it says anything.
    fn shaped(&self, shape: &Value, tokens: Option<u32>) -> Result<Draft> {
        let path = "params.tree_shape";
        let levels = shape.as_array().filter(|levels| !levels.is_empty()).ok_or_else(|| {
            param(path, format!("{shape}: must be a list of the widths of the levels"))
        })?;
        let widths: Vec<u32> = (0..)
            .zip(levels)
            .map(|(index, width)| count_of(width, &format!("{path}[{index}]"), 1))
            .collect::<Result<_>>()?;
        let nodes = widths.iter().map(|width| u64::from(*width)).sum::<u64>();
        let sizes = u32::try_from(widths.len()).ok().zip(u32::try_from(nodes + 1).ok());
        let (depth, verify_width) =
            sizes.ok_or_else(|| param(path, format!("{nodes} nodes: too many to verify")))?;
        if let Some(tokens) = tokens.filter(|tokens| *tokens != depth) {
            return Err(param(
                "params.num_speculative_tokens",
                format!("{tokens}, but params.tree_shape has {depth} levels: give one of them"),
            ));
        }
        Ok(Draft::chain(self.kind(), depth, Source::path(path))
            .with_verify_width(verify_width, Source::path(path))
            .with_tree(widths.iter().any(|width| *width > 1)))
    }
}

impl SpeculationScheme for DraftModel {
    fn kind(&self) -> &'static str {
        "draft_model"
    }

    fn backends(&self) -> &[Backend] {
        &[Backend::Vllm]
    }

    fn resolve(&self, config: &SpeculationConfig) -> Result<Draft> {
        only(config, &["num_speculative_tokens", "draft_tp_size"])?;
        count(config, "draft_tp_size", 1)?;
        if !has_draft_path(config)? {
            return Err(param("draft_model_path", "absent: draft_model requires it"));
        }
        let (depth, source) = required_depth(config, "num_speculative_tokens")?;
        Ok(Draft::chain(self.kind(), depth, source))
    }
}

impl SpeculationScheme for Dflash {
    fn kind(&self) -> &'static str {
        "dflash"
    }

    fn backends(&self) -> &[Backend] {
        &[Backend::Vllm]
    }

    fn resolve(&self, config: &SpeculationConfig) -> Result<Draft> {
        only(config, &["num_draft_tokens"])?;
        has_draft_path(config)?;
        let (depth, source) = if let Some(given) = depth(config, "num_draft_tokens")? {
            given
        } else {
            let (block, source) = block_size(config, 2)?;
            (block - 1, source)
        };
        Ok(Draft::chain(self.kind(), depth, source))
    }
}

impl SpeculationScheme for Dspark {
    fn kind(&self) -> &'static str {
        "dspark"
    }

    fn backends(&self) -> &[Backend] {
        &[Backend::Vllm, Backend::Sglang]
    }

    fn resolve(&self, config: &SpeculationConfig) -> Result<Draft> {
        only(config, &["num_draft_tokens", "num_draft_layers"])?;
        count(config, "num_draft_layers", 1)?;
        has_draft_path(config)?;
        let (depth, source) = match depth(config, "num_draft_tokens")? {
            Some(given) => given,
            None => block_size(config, 1)?,
        };
        Ok(Draft::chain(self.kind(), depth, source))
    }
}

/// The block size of the draft checkpoint, from whichever place its configuration has it in.
fn block_size(config: &SpeculationConfig, least: u32) -> Result<(u32, Source)> {
    let kind = &config.kind;
    let (nested, prefixed) = (format!("{kind}_config"), format!("{kind}_block_size"));
    let draft = config.draft_config.as_ref();
    let of = |name: &str| draft.and_then(|draft| draft.get(name));
    let places = [
        ("draft_config.block_size".to_owned(), of("block_size")),
        (format!("draft_config.{prefixed}"), of(&prefixed)),
        (
            format!("draft_config.{nested}.block_size"),
            of(&nested).and_then(|nested| nested.get("block_size")),
        ),
    ];
    let mut found: Option<(u32, String)> = None;
    for (path, value) in places {
        let Some(value) = value else { continue };
        let block = count_of(value, &path, least)?;
        match &found {
            Some((first, at)) if *first != block => {
                return Err(param(path, format!("{block}, but {at} is {first}: give one")));
            }
            Some(_) => {}
            None => found = Some((block, path)),
        }
    }
    if let Some((block, path)) = found {
        return Ok((block, Source::Path(path)));
    }
    let right = "give params.num_draft_tokens or draft_config.block_size";
    Err(match &config.draft_model_path {
        Some(checkpoint) if config.draft_config.is_none() => Error::speculation(
            E_RUNTIME,
            "draft_model_path",
            format!(
                "{checkpoint:?}: no checkpoint is read here, and the depth of {kind} is in it: {right}"
            ),
        ),
        _ => param("params.num_draft_tokens", format!("absent: {right}, which {kind} requires")),
    })
}
