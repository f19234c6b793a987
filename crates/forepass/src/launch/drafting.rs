//! Who says that the engine drafts tokens, how many, and how many of them are accepted.

use super::engine::EngineConfig;
use super::report::LaunchReport;
use super::{ENGINE, PERFORMANCE};
use crate::codes::{E_ACCEPT_MISSING, E_BACKEND, E_DEPTH_CONFLICT, E_TREE};
use crate::config::ForwardPassPerfModelConfig;
use crate::error::{Error, Result, join};
use crate::speculation::{AcceptanceRates, Backend, Draft, NONE, Source, resolve_replay};

/// The scheme of which a depth without a scheme is the older spelling.
const NEXTN_KIND: &str = "mtp";

/// Who says that the engine drafts tokens.
pub(super) enum Drafting {
    /// The performance model cannot be read, and might say anything.
    Unknown,
    /// The speculation block of the performance model, if it can be replayed.
    Canonical(Result<Draft>),
    /// The performance model, in the older spelling.
    Nextn(Draft),
    /// The engine alone, or nobody.
    Engine(Draft),
}

impl Drafting {
    /// Finds out who says it, and tells the report what.
    pub(super) fn of(engine: &EngineConfig, readable: bool, report: &mut LaunchReport) -> Self {
        let nothing = || Draft::chain(NONE, 0, Source::Default);
        let drafting = match engine.timing_model.performance() {
            _ if !readable => return Self::Unknown,
            Some(config) if config.speculation.is_some() => {
                return Self::Canonical(canonical(engine.backend, config, report));
            }
            Some(config) if config.nextn > 0 => {
                let source = Source::path(join(PERFORMANCE, "nextn"));
                Self::Nextn(Draft::chain(NEXTN_KIND, config.nextn, source))
            }
            Some(_) => Self::Nextn(nothing()),
            None => Self::Engine(engine.aic_nextn.map_or_else(nothing, |depth| {
                Draft::chain(NEXTN_KIND, depth, Source::path(join(ENGINE, "aic_nextn")))
            })),
        };
        if let Self::Nextn(draft) | Self::Engine(draft) = &drafting {
            report.describe(draft);
        }
        drafting
    }

    /// Whether tokens are drafted, where that can be told.
    pub(super) fn drafts(&self, engine: &EngineConfig) -> Option<bool> {
        match self {
            _ if engine.aic_nextn.is_some() => Some(true),
            Self::Canonical(Ok(draft)) | Self::Nextn(draft) | Self::Engine(draft) => {
                Some(draft.depth > 0)
            }
            Self::Canonical(Err(_)) | Self::Unknown => None,
        }
    }

    /// Whether a speculation block says it.
    pub(super) fn is_canonical(&self) -> bool {
        matches!(self, Self::Canonical(_))
    }

    /// What the engine drafts, if all agree.
    pub(super) fn settle(self, engine: &EngineConfig) -> Result<Draft> {
        let draft = match self {
            Self::Canonical(draft) => draft?,
            Self::Nextn(draft) | Self::Engine(draft) => draft,
            Self::Unknown => Draft::chain(NONE, 0, Source::Default),
        };
        if let Some(authored) = engine.aic_nextn.filter(|authored| *authored != draft.depth) {
            let (depth, source) = (draft.depth, &draft.depth_source);
            let message = if depth == 0 {
                format!("{authored}, but {PERFORMANCE} drafts nothing: leave it out")
            } else {
                format!("{authored}, but {source} gives depth {depth}: leave it out")
            };
            return Err(Error::launch(E_DEPTH_CONFLICT, join(ENGINE, "aic_nextn"), message));
        }
        let width = draft.verify_width;
        match engine.aic_verify_width.filter(|authored| *authored != width) {
            None => Ok(draft),
            Some(authored) => Err(Error::launch(
                E_TREE,
                join(ENGINE, "aic_verify_width"),
                format!("{authored}: must be the depth + 1, {width}, as a replay needs a chain"),
            )),
        }
    }
}

/// What the speculation block of a performance model drafts, if it can be replayed.
fn canonical(
    backend: Backend,
    config: &ForwardPassPerfModelConfig,
    report: &mut LaunchReport,
) -> Result<Draft> {
    let Some(speculation) = &config.speculation else {
        return Ok(Draft::chain(NONE, 0, Source::Default));
    };
    let path = join(PERFORMANCE, "speculation");
    report.kind = Some(speculation.kind.clone());
    report.note("kind", &join(&path, "kind"));
    let modelled = config.backend.parse();
    let backends = [backend, modelled.clone().unwrap_or(backend)];
    let (draft, depth) = resolve_replay(speculation, &backends);
    let draft = draft.map(|draft| draft.within(&path));
    if let Some(draft) = &draft {
        report.describe(draft);
    }
    let depth = depth.map_err(|error| error.within(&path))?;
    if depth > 0 {
        modelled.map_err(|error: Error| {
            Error::launch(E_BACKEND, join(PERFORMANCE, "backend"), error.message())
        })?;
    }
    Ok(draft.unwrap_or_else(|| Draft::chain(&speculation.kind, depth, Source::Default)))
}

/// How many of the drafts are accepted; a speculation block leaves nothing of it to assume.
pub(super) fn acceptance(
    engine: &EngineConfig,
    draft: &Draft,
    canonical: bool,
    report: &mut LaunchReport,
) -> Result<AcceptanceRates> {
    if draft.depth == 0 {
        report.acceptance_rates = Some(AcceptanceRates::default());
        return Ok(AcceptanceRates::default());
    }
    let path = join(ENGINE, "aic_nextn_accept_rates");
    let (depth, kind) = (draft.depth, &draft.kind);
    let rates = match engine.rates() {
        None if canonical => {
            return Err(Error::launch(
                E_ACCEPT_MISSING,
                path,
                format!(
                    "absent: {kind} of depth {depth} needs {depth} conditional acceptance rates"
                ),
            ));
        }
        Some(text) if canonical => {
            text.parse::<AcceptanceRates>().and_then(|rates| rates.exactly(depth))
        }
        text => AcceptanceRates::legacy(text, depth),
    };
    let rates = rates.map_err(|error| error.within(&path))?;
    match engine.rates() {
        None => {
            report.note("acceptance_rates", "default");
            report.warnings.push(format!("{path}: absent: {rates} is assumed"));
        }
        Some(text) => {
            report.note("acceptance_rates", &path);
            let given = text.split(',').count();
            if given != depth as usize {
                report
                    .warnings
                    .push(format!("{path}: {given} rates for depth {depth}: {rates} is used"));
            }
        }
    }
    report.acceptance_rates = Some(rates.clone());
    Ok(rates)
}
