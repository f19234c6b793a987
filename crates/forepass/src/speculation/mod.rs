//! What a speculation scheme drafts: its depth, its verify width and where both come from.
//!
//! Every depth in this crate comes from here. A [`SpeculationConfig`] names a scheme and its
//! parameters; [`resolve_speculation`] finds the scheme, which gives a [`Draft`]:
//!
//! | Kind | Parameters (required in bold) | Depth | Verify width | Backends of a replay |
//! |---|---|---|---|---|
//! | `none` | | 0 | 1 | all |
//! | `mtp` | **`depth`** or `num_speculative_tokens` | it | depth + 1 | vllm, sglang |
//! | `ngram` | **`num_speculative_tokens`**, `trigger_rate` (1) | it | depth + 1 | vllm |
//! | `eagle3` | `num_speculative_tokens` (3) or `tree_shape`, `verify_token_budget` | levels | the budget, or 1 + the nodes | vllm, sglang |
//! | `draft_model` | **`num_speculative_tokens`**, `draft_tp_size` | it | depth + 1 | vllm |
//! | `dflash` | `num_draft_tokens` (block size - 1) | it | depth + 1 | vllm |
//! | `dspark` | `num_draft_tokens` (block size), `num_draft_layers` | it | depth + 1 | vllm, sglang |
//!
//! A block size is that of `draft_config`; no checkpoint is read. Further schemes are
//! [registered](register_scheme) by name. What can be *replayed* is narrower
//! than what can be drafted: a chain of depth 1 to [`MAX_REPLAY_DEPTH`], or none;
//! [`Draft::replay_depth`] and [`SpeculationConfig::replay_depth`] tell. Each refusal is an
//! [`Error::Speculation`] with one of the [`codes`](crate::codes).
//!
//! ```
//! use forepass::config::SpeculationConfig;
//!
//! let speculation = SpeculationConfig::from_json(
//!     br#"{"kind": "eagle3", "params": {"tree_shape": [1, 1, 1]}, "draft_model_path": "a/b"}"#,
//! )?;
//! let draft = forepass::resolve_speculation(&speculation)?;
//! assert_eq!((draft.depth, draft.verify_width), (3, 4));
//! assert_eq!(draft.depth_source.to_string(), "params.tree_shape");
//! assert_eq!(speculation.replay_depth()?, 3);
//! # Ok::<(), forepass::Error>(())
//! ```

mod acceptance;
mod backend;
mod builtin;
mod draft;
mod params;
mod registry;
#[cfg(test)]
mod tests;

pub use acceptance::{AcceptanceRates, DEFAULT_ACCEPTANCE, decode_rows};
pub use backend::Backend;
pub use draft::{Draft, MAX_REPLAY_DEPTH, Source};
pub use registry::{
    SpeculationScheme, register_scheme, scheme_backends, scheme_names, unregister_scheme,
};

use crate::codes::{E_BACKEND, E_KIND, E_PARAM};
use crate::config::SpeculationConfig;
use crate::error::{Error, Result};

/// The kind of a configuration that drafts nothing.
pub const NONE: &str = "none";

/// What the configured scheme drafts, whether or not it can be replayed.
///
/// # Errors
/// `E_KIND` for a scheme that is not known, `E_PARAM` or `E_RANGE` for its parameters, and
/// `E_RUNTIME` for a depth that is in a checkpoint, or for a registered scheme that cannot run here.
pub fn resolve_speculation(config: &SpeculationConfig) -> Result<Draft> {
    registry::with_scheme(&config.kind, |scheme| scheme.resolve(config))?
}

/// What the scheme drafts, where that can be told, and the depth at which a deployment replays it.
///
/// The deployment may name its backend in several places, and the scheme must be available on
/// each. Checks run in the order of the [`codes`](crate::codes): a parameter that means nothing
/// comes before the backend, and the backend before a depth that cannot be replayed.
pub fn resolve_replay(
    config: &SpeculationConfig,
    backends: &[Backend],
) -> (Option<Draft>, Result<u32>) {
    let judged = registry::with_scheme(&config.kind, |scheme| {
        let drafted = scheme.resolve(config);
        let elsewhere = backends.iter().find(|backend| !scheme.backends().contains(backend));
        (drafted, elsewhere.map(|backend| unavailable(&config.kind, scheme.backends(), *backend)))
    });
    match judged {
        Err(unknown) => (None, Err(unknown)),
        Ok((Err(fault), elsewhere)) => match elsewhere {
            Some(elsewhere) if !matches!(fault.code(), E_KIND | E_PARAM) => (None, Err(elsewhere)),
            _ => (None, Err(fault)),
        },
        Ok((Ok(draft), Some(elsewhere))) => (Some(draft), Err(elsewhere)),
        Ok((Ok(draft), None)) => {
            let depth = draft.replay_depth();
            (Some(draft), depth)
        }
    }
}

fn unavailable(kind: &str, available: &[Backend], backend: Backend) -> Error {
    let names: Vec<_> = available.iter().map(|backend| backend.name()).collect();
    Error::speculation(
        E_BACKEND,
        "kind",
        format!("{kind} is not available on {backend}: use it on {}", names.join(" or ")),
    )
}

impl SpeculationConfig {
    /// The depth at which this is replayed: 0 for the kind `none`, or 1 to [`MAX_REPLAY_DEPTH`].
    ///
    /// # Errors
    /// As [`resolve_speculation`]; then `E_TREE` for anything but a chain, and `E_RANGE` for a
    /// chain that is too deep.
    pub fn replay_depth(&self) -> Result<u32> {
        resolve_speculation(self)?.replay_depth()
    }
}
