//! Where a simulated engine takes the time of a forward pass from.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::config::{ForwardPassPerfModelConfig, document, range};
use crate::error::Result;

/// Providers whose configuration is that of a performance model of this crate's form.
const PERFORMANCE_PROVIDERS: [&str; 2] = ["ais", "aic"];

/// Where a simulated engine takes the time of a forward pass from.
///
/// In JSON the kind is the field `kind`, or `type` as another spelling of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum TimingModel {
    /// A polynomial of the engine's own.
    #[default]
    Polynomial,
    /// The same times for every pass.
    Fixed {
        /// Time of a prefill pass, in milliseconds; finite and at least 0.
        prefill_ms: f64,
        /// Time of a decode pass, in milliseconds; finite and at least 0.
        decode_ms: f64,
    },
    /// A performance model outside of the engine.
    External {
        /// Name of the provider; not blank.
        provider: String,
        /// What the provider is configured with.
        config: ExternalConfig,
    },
}

/// The configuration of an external performance model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum ExternalConfig {
    /// The canonical form, of the providers `ais` and `aic`.
    Performance(Box<ForwardPassPerfModelConfig>),
    /// The form of another provider, kept as authored.
    Other(Value),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Polynomial,
    Fixed,
    External,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Authored {
    #[serde(alias = "type")]
    kind: Kind,
    prefill_ms: Option<f64>,
    decode_ms: Option<f64>,
    provider: Option<String>,
    config: Option<Value>,
}

impl<'de> Deserialize<'de> for TimingModel {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Authored { kind, prefill_ms, decode_ms, provider, config } =
            Authored::deserialize(from)?;
        let given = [
            ("prefill_ms", prefill_ms.is_some()),
            ("decode_ms", decode_ms.is_some()),
            ("provider", provider.is_some()),
            ("config", config.is_some()),
        ];
        let only = |known: &'static [&'static str]| match given
            .iter()
            .find(|(name, given)| *given && !known.contains(name))
        {
            Some((name, _)) => Err(D::Error::unknown_field(name, known)),
            None => Ok(()),
        };
        match kind {
            Kind::Polynomial => {
                only(&[])?;
                Ok(Self::Polynomial)
            }
            Kind::Fixed => {
                only(&["prefill_ms", "decode_ms"])?;
                Ok(Self::Fixed {
                    prefill_ms: prefill_ms.ok_or_else(|| D::Error::missing_field("prefill_ms"))?,
                    decode_ms: decode_ms.ok_or_else(|| D::Error::missing_field("decode_ms"))?,
                })
            }
            Kind::External => {
                only(&["provider", "config"])?;
                Ok(Self::External {
                    provider: provider.ok_or_else(|| D::Error::missing_field("provider"))?,
                    config: ExternalConfig::Other(
                        config.ok_or_else(|| D::Error::missing_field("config"))?,
                    ),
                })
            }
        }
    }
}

impl TimingModel {
    /// Checks what does not depend on the provider's configuration.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Polynomial => Ok(()),
            Self::Fixed { prefill_ms, decode_ms } => {
                range::finite_nonnegative("prefill_ms", *prefill_ms)?;
                range::finite_nonnegative("decode_ms", *decode_ms)
            }
            Self::External { provider, .. } => range::not_blank("provider", provider),
        }
    }

    /// Reads the configuration of a performance model, where the provider's is one; leaves it as
    /// it is where it cannot be read.
    pub(super) fn read_performance(&mut self) -> Result<()> {
        if let Self::External { provider, config } = self {
            if let ExternalConfig::Other(value) = config {
                if is_performance_provider(provider) {
                    let read = document::from_ref(value)?;
                    *config = ExternalConfig::Performance(Box::new(read));
                }
            }
        }
        Ok(())
    }

    /// The configuration of the performance model, where the provider's is one.
    pub fn performance(&self) -> Option<&ForwardPassPerfModelConfig> {
        match self {
            Self::External { config: ExternalConfig::Performance(config), .. } => Some(config),
            _ => None,
        }
    }
}

/// Whether providers of this name are configured with the canonical form.
pub(super) fn is_performance_provider(provider: &str) -> bool {
    PERFORMANCE_PROVIDERS.contains(&provider)
}
