//! The engines that a launch can be for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::codes::E_BACKEND;
use crate::error::{Error, Result};

/// An inference engine.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Backend {
    /// vLLM.
    #[default]
    Vllm,
    /// SGLang.
    Sglang,
    /// TensorRT-LLM.
    Trtllm,
}

impl Backend {
    /// All backends.
    pub const ALL: [Self; 3] = [Self::Vllm, Self::Sglang, Self::Trtllm];

    /// The stable name: `vllm`, `sglang` or `trtllm`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Trtllm => "trtllm",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Backend {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|backend| backend.name() == name).ok_or_else(|| {
            Error::launch(
                E_BACKEND,
                "backend",
                format!("no backend {name:?}: use vllm, sglang or trtllm"),
            )
        })
    }
}
