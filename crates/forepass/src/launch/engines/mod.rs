//! Reads the options that an operator gives to vLLM, SGLang or TensorRT-LLM, as the engine reads
//! them, and resolves how deep it will speculate.

mod argv;
mod dialect;
mod matrix;
mod options;
mod reading;
mod sglang;
mod shell;
mod tree;
mod trtllm;
mod vllm;

use dialect::Dialect;
use options::Options;
use reading::Reading;

pub use matrix::{EngineMethod, engine_methods};
pub use options::EngineOptions;

use crate::codes::{self, E_BACKEND, E_PARAM};
use crate::error::{Error, Result};
use crate::speculation::{Backend, Draft, resolve_replay};

/// What an engine's options come to.
pub(super) struct Resolved {
    reading: Reading,
    /// What the scheme drafts, where that can be told.
    draft: Option<Draft>,
    depth: Result<u32>,
    ignored: Vec<String>,
    warnings: Vec<String>,
}

/// Resolves the options of an engine; `strict` refuses options that are not known.
pub(super) fn resolve(engine: Backend, options: &EngineOptions, strict: bool) -> Result<Resolved> {
    let all = [dialect(Backend::Vllm), dialect(Backend::Sglang), dialect(Backend::Trtllm)];
    let mut options = Options::read(options, dialect(engine), &all)?;
    if let (true, Some(unknown)) = (strict, options.unknown.first()) {
        return Err(fault(
            E_PARAM,
            unknown,
            format!("{}: correct it or leave it out", unknown_to(engine)),
        ));
    }
    let mut reading = match engine {
        Backend::Vllm => vllm::read(&mut options),
        Backend::Sglang => sglang::read(&mut options),
        Backend::Trtllm => trtllm::read(&mut options),
    }?;
    let unknown = options.unknown.iter();
    options.warnings.extend(unknown.map(|option| format!("{option}: {}", unknown_to(engine))));
    let mut refusals = std::mem::take(&mut reading.refusals);
    refusals.extend(reading.acceptance.as_ref().err().cloned());
    let (draft, replay) = match &reading.config {
        Some(config) => resolve_replay(config, &[engine]),
        None => (None, Ok(0)), // refused already
    };
    let depth = replay.unwrap_or_else(|error| {
        refusals.push(seen_from_engine(error, engine, &reading));
        0
    });
    // The first fault in the order of the checks; the engine's own before the scheme's.
    let first = refusals.into_iter().min_by_key(|refusal| order(refusal.code()));
    let depth = first.map_or(Ok(depth), Err);
    let Options { ignored, warnings, .. } = options;
    Ok(Resolved { reading, draft, depth, ignored, warnings })
}

fn dialect(engine: Backend) -> &'static Dialect {
    match engine {
        Backend::Vllm => &vllm::DIALECT,
        Backend::Sglang => &sglang::DIALECT,
        Backend::Trtllm => &trtllm::DIALECT,
    }
}

fn unknown_to(engine: Backend) -> String {
    format!("no option of {engine} that is known here")
}

fn order(code: &str) -> usize {
    codes::ALL.iter().position(|known| *known == code).unwrap_or(codes::ALL.len())
}

/// A fault of the speculation block, told by the option that stands behind its path.
fn seen_from_engine(error: Error, engine: Backend, reading: &Reading) -> Error {
    let Error::Speculation { code, path, message } = error else {
        return error;
    };
    let launchable =
        if code == E_BACKEND && engine == Backend::Trtllm && reading.kind == Some("mtp") {
            "; a launch for trtllm states this depth as engine.aic_nextn"
        } else {
            ""
        };
    Error::Speculation {
        code,
        path: reading.origin(&path),
        message: format!("{}: {message}{launchable}", reading.words()),
    }
}

/// A fault of an engine's options, at the option as it was spelled.
fn fault(code: &'static str, option: &str, message: String) -> Error {
    Error::launch(code, option, message)
}
