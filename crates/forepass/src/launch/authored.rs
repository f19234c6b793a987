//! Speculation as an engine's author writes it: a scheme, how much of it is accepted, and a seed.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::engine::DEFAULT_SEED;
use crate::codes::{E_ACCEPT_INVALID, E_ACCEPT_MISSING, E_PARAM};
use crate::config::{SpeculationConfig, document};
use crate::error::{Error, Result};
use crate::speculation::{AcceptanceRates, Backend, NONE, resolve_replay};

/// The block as written. What is drafted is either a count or the parameters of the scheme.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {
    kind: String,
    num_speculative_tokens: Option<Value>,
    params: Option<Map<String, Value>>,
    draft_model_path: Option<String>,
    draft_config: Option<Map<String, Value>>,
    #[serde(alias = "conditional_acceptance_rates")]
    acceptance_rates: Option<Vec<f64>>,
    expected_accepted_tokens: Option<f64>,
    #[serde(default = "seed")]
    seed: u64,
}

fn seed() -> u64 {
    DEFAULT_SEED
}

/// The code of a value of the wrong type: acceptance has one of its own.
fn code_at(path: &str) -> &'static str {
    let acceptance = path.contains("acceptance_rates") || path == "expected_accepted_tokens";
    if acceptance { E_ACCEPT_INVALID } else { E_PARAM }
}

/// Speculation of an engine: what is drafted, and the two things that only a replay needs.
pub(super) struct AuthoredSpeculation {
    pub(super) scheme: SpeculationConfig,
    pub(super) depth: u32,
    pub(super) acceptance: AcceptanceRates,
    pub(super) seed: u64,
}

impl AuthoredSpeculation {
    /// Reads a block for a backend; paths are within the block.
    pub(super) fn read(block: Value, backend: Backend) -> Result<Self> {
        let block: Block = document::from_value(block).map_err(|error| {
            Error::speculation(code_at(&error.path()), error.path(), error.message())
        })?;
        let mut scheme = SpeculationConfig::new(block.kind, block.params.unwrap_or_default());
        let flat = block.num_speculative_tokens.is_some();
        if let Some(tokens) = block.num_speculative_tokens {
            if !scheme.params.is_empty() {
                return Err(Error::speculation(
                    E_PARAM,
                    "num_speculative_tokens",
                    format!("{tokens}, beside params: give one of them"),
                ));
            }
            scheme.params.insert("num_speculative_tokens".to_owned(), tokens);
        }
        scheme.draft_model_path = block.draft_model_path;
        scheme.draft_config = block.draft_config;
        let (_, depth) = resolve_replay(&scheme, &[backend]);
        let depth = depth.map_err(|error| match error {
            Error::Speculation { code, path, message } if flat => {
                let path = path.strip_prefix("params.").unwrap_or(&path);
                Error::speculation(code, path, message)
            }
            other => other,
        })?;
        let acceptance = match (block.acceptance_rates, block.expected_accepted_tokens) {
            (Some(_), Some(mean)) => {
                return Err(Error::speculation(
                    E_ACCEPT_INVALID,
                    "expected_accepted_tokens",
                    format!("{mean}, beside acceptance_rates: give one of them"),
                ));
            }
            (Some(rates), None) => AcceptanceRates::new(rates)
                .and_then(|rates| rates.exactly(depth))
                .map_err(|error| error.within("acceptance_rates"))?,
            (None, Some(mean)) => AcceptanceRates::from_mean_accepted(mean, depth)
                .map_err(|error| error.within("expected_accepted_tokens"))?,
            (None, None) if scheme.kind == NONE => AcceptanceRates::default(),
            (None, None) => {
                return Err(Error::speculation(
                    E_ACCEPT_MISSING,
                    "acceptance_rates",
                    format!(
                        "absent: give {depth} conditional rates, or expected_accepted_tokens from \
                         0 to {depth}"
                    ),
                ));
            }
        };
        if depth == 0 && block.seed != DEFAULT_SEED {
            let seed = block.seed;
            let message = format!("{seed}: must be {DEFAULT_SEED}, as no tokens are drafted");
            return Err(Error::speculation(E_PARAM, "seed", message));
        }
        Ok(Self { scheme, depth, acceptance, seed: block.seed })
    }
}
