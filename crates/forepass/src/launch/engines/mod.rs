//! Reads the options that an operator gives to vLLM, SGLang or TensorRT-LLM, as the engine reads
//! them, and resolves how deep it will speculate.
//!
//! Options come as [arguments, a command line or a mapping](EngineOptions), in every spelling that
//! the engine takes. Each is one of three: it tells what is drafted; it is known and changes
//! nothing of that, and is listed as ignored; or it is not known, and is warned of. What is drafted
//! is put as a speculation block, and judged by [`resolve_replay`] alone. A number that the engine
//! takes from a checkpoint is not guessed: the refusal says which option sets it.
//! [`engine_methods`] lists what comes of each method of each engine.

mod argv;
mod dialect;
mod matrix;
mod options;
#[cfg(test)]
mod properties;
mod reading;
mod sglang;
mod shell;
#[cfg(test)]
mod tests;
mod tree;
mod trtllm;
mod vllm;

use dialect::Dialect;
use options::Options;
use reading::{Quantity, Reading};

pub use matrix::{EngineMethod, engine_methods};
pub use options::EngineOptions;

use crate::codes::{self, E_BACKEND, E_PARAM};
use crate::error::{Error, Result};
use crate::launch::LaunchReport;
use crate::speculation::{Backend, resolve_replay};

/// Resolves the options of an engine as [`resolve_launch`](crate::resolve_launch) does a launch.
///
/// There is no launch in the report: it is in order where the depth is resolved. Options that
/// change neither depth nor acceptance are listed as ignored, those that are not known as warnings;
/// `strict` makes those errors.
///
/// ```
/// use forepass::launch::engines::{EngineOptions, resolve_engine_options};
/// use forepass::speculation::Backend;
///
/// let command = "vllm serve a/b --speculative-config '{\"method\": \"ngram\", \
///     \"num_speculative_tokens\": 3}'";
/// let options = EngineOptions::CommandLine(command.to_owned());
/// let report = resolve_engine_options(Backend::Vllm, &options, true);
/// assert_eq!((report.kind.as_deref(), report.depth), (Some("ngram"), Some(3)));
/// assert_eq!(
///     report.provenance["depth"],
///     "--speculative-config.num_speculative_tokens"
/// );
/// ```
pub fn resolve_engine_options(
    engine: Backend,
    options: &EngineOptions,
    strict: bool,
) -> LaunchReport {
    match resolve(engine, options, strict) {
        Ok(resolved) => resolved.report(engine),
        Err(error) => LaunchReport::refused(error),
    }
}

/// What an engine's options come to.
struct Resolved {
    reading: Reading,
    depth: Result<u32>,
    ignored: Vec<String>,
    warnings: Vec<String>,
}

impl Resolved {
    fn report(self, engine: Backend) -> LaunchReport {
        let Self { reading, depth, ignored, warnings } = self;
        let mut report = LaunchReport { ignored, warnings, ..LaunchReport::default() };
        let within = |quantity: &Quantity| quantity.value.and_then(|n| u32::try_from(n).ok());
        report.kind = reading.kind.map(str::to_owned);
        report.depth = within(&reading.depth);
        report.decode_width = within(&reading.width);
        report.tree = Some(reading.tree);
        report.note("backend", &engine);
        report.note("depth", &reading.depth.source);
        report.note("decode_width", &reading.width.source);
        if let Some(method) = &reading.method {
            report.note("kind", &format!("{} {}", method.source, method.value));
        }
        if let Some(draft) = &reading.draft {
            report.note("draft_model_path", &draft.source);
        }
        if let Ok(Some(acceptance)) = reading.acceptance {
            report.note("acceptance_rates", &format!("synthetic: {}", acceptance.source));
            report.acceptance_rates = Some(acceptance.value);
        }
        report.dynamic = reading.dynamic;
        report.speculation = reading.config;
        match depth {
            Ok(depth) => report.aic_nextn = (depth > 0).then_some(depth),
            Err(refusal) => report.error = Some(refusal),
        }
        report
    }
}

/// Resolves the options of an engine; `strict` refuses options that are not known.
fn resolve(engine: Backend, options: &EngineOptions, strict: bool) -> Result<Resolved> {
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
    let chosen = || fault(E_PARAM, dialect(engine).depth, "absent: set it".to_owned());
    let replay = reading.config.as_ref().ok_or_else(chosen);
    let replay = replay.and_then(|config| resolve_replay(config, &[engine]).1);
    let depth = replay.unwrap_or_else(|error| {
        refusals.push(seen_from_engine(error, engine, &reading));
        0
    });
    // The first fault in the order of the checks; the engine's own before the scheme's.
    let first = refusals.into_iter().min_by_key(|refusal| codes::order(refusal.code()));
    let depth = first.map_or(Ok(depth), Err);
    let Options { ignored, warnings, .. } = options;
    Ok(Resolved { reading, depth, ignored, warnings })
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
