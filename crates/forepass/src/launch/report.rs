//! What a launch resolves to, and what keeps it from it: the document `forepass.launch.v1`.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::capacity::Capacity;
use super::config::EngineLaunchConfig;
use super::{config, legacy, retold};
use crate::codes::E_LAUNCH_FIELD;
use crate::config::{SpeculationConfig, document};
use crate::error::{Error, Result};
use crate::speculation::{AcceptanceRates, Backend, Draft, resolve_replay};

/// Name and version of the document's form.
pub const SCHEMA: &str = "forepass.launch.v1";

/// What a launch resolves to; where it is refused, as much as could be told, and why.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct LaunchReport {
    /// Kind of the scheme that drafts.
    pub kind: Option<String>,
    /// Most draft tokens that one step can accept.
    pub depth: Option<u32>,
    /// Tokens of a sequence that one decode step verifies.
    pub decode_width: Option<u32>,
    /// Whether drafts branch.
    pub tree: Option<bool>,
    /// How the depth changes while the engine runs, if it does.
    pub dynamic: Option<String>,
    /// Depth of the scheduler's ranks; absent where nothing is drafted.
    pub aic_nextn: Option<u32>,
    /// Conditional acceptance of each level of the draft.
    pub acceptance_rates: Option<AcceptanceRates>,
    /// The speculation block that the engine's own options mean.
    pub speculation: Option<SpeculationConfig>,
    /// Size of the KV cache.
    pub capacity: Option<Capacity>,
    /// Where each number comes from: a path of the input, or words.
    pub provenance: BTreeMap<String, String>,
    /// What the input says without effect, and why.
    pub ignored: Vec<String>,
    /// What the input's author should know.
    pub warnings: Vec<String>,
    /// Why there is no launch.
    pub error: Option<Error>,
    /// The launch in its normal form.
    pub launch: Option<EngineLaunchConfig>,
}

impl LaunchReport {
    /// What a speculation block alone resolves to on a backend; paths are those of the block.
    pub fn of_speculation(config: &SpeculationConfig, backend: Backend) -> Self {
        let mut report = Self { kind: Some(config.kind.clone()), ..Self::default() };
        let (draft, depth) = resolve_replay(config, &[backend]);
        if let Some(draft) = &draft {
            report.describe(draft);
        }
        match depth {
            Ok(depth) => report.aic_nextn = (depth > 0).then_some(depth),
            Err(error) => report.error = Some(error),
        }
        report
    }

    /// The report of an input that could not be read that far.
    pub fn refused(error: Error) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    /// Whether nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.error.is_none()
    }

    /// Notes what is drafted, and where its numbers come from.
    pub fn describe(&mut self, draft: &Draft) {
        self.kind = Some(draft.kind.clone());
        self.depth = Some(draft.depth);
        self.decode_width = Some(draft.verify_width);
        self.tree = Some(draft.tree);
        self.note("depth", &draft.depth_source);
        self.note("decode_width", &draft.verify_width_source);
    }

    /// Notes where a number comes from.
    pub fn note(&mut self, name: impl Into<String>, source: &(impl ToString + ?Sized)) {
        self.provenance.insert(name.into(), source.to_string());
    }

    /// Puts other paths into the place of those that the report names.
    pub(super) fn relocate(&mut self, place: impl Fn(&str) -> String) {
        for source in self.provenance.values_mut() {
            *source = place(source);
        }
        for remark in self.ignored.iter_mut().chain(&mut self.warnings) {
            if let Some((path, what)) = remark.split_once(": ") {
                *remark = format!("{}: {}", place(path), retold(what, &place));
            }
        }
    }

    /// The document as compact JSON.
    pub fn to_json(&self) -> String {
        document::to_json(self)
    }
}

impl Serialize for LaunchReport {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Document<'a> {
            schema: &'static str,
            ok: bool,
            kind: &'a Option<String>,
            depth: Option<u32>,
            decode_width: Option<u32>,
            tree: Option<bool>,
            dynamic: &'a Option<String>,
            aic_nextn: Option<u32>,
            acceptance_rates: &'a Option<AcceptanceRates>,
            speculation: &'a Option<SpeculationConfig>,
            capacity: Option<Capacity>,
            provenance: &'a BTreeMap<String, String>,
            ignored: &'a [String],
            warnings: &'a [String],
            error: Option<Fault>,
            launch: &'a Option<EngineLaunchConfig>,
        }

        #[derive(Serialize)]
        struct Fault {
            code: &'static str,
            path: String,
            message: String,
        }

        Document {
            schema: SCHEMA,
            ok: self.is_ok(),
            kind: &self.kind,
            depth: self.depth,
            decode_width: self.decode_width,
            tree: self.tree,
            dynamic: &self.dynamic,
            aic_nextn: self.aic_nextn,
            acceptance_rates: &self.acceptance_rates,
            speculation: &self.speculation,
            capacity: self.capacity,
            provenance: &self.provenance,
            ignored: &self.ignored,
            warnings: &self.warnings,
            error: self.error.as_ref().map(|error| Fault {
                code: error.code(),
                path: error.path(),
                message: error.message(),
            }),
            launch: &self.launch,
        }
        .serialize(to)
    }
}

/// Resolves a launch, in its canonical form or in the older flat one, from JSON text.
///
/// It never fails: what is wrong is in the report, beside whatever could be told all the same.
pub fn resolve_launch(json: &str) -> LaunchReport {
    let mut report = LaunchReport::default();
    let resolved = document::from_json(json.as_bytes())
        .map_err(|error| Error::launch(E_LAUNCH_FIELD, error.path(), error.message()))
        .and_then(|value| {
            if legacy::is_flat(&value) {
                report.note("form", "legacy flat");
                legacy::resolve(value, &mut report)
            } else {
                report.note("form", "canonical");
                config::resolve(value, &mut report)
            }
        });
    match resolved {
        Ok(launch) => report.launch = Some(launch),
        Err(error) => report.error = Some(error),
    }
    report
}
