//! From one role of a deployment and its engine options to the launch of that role's engine.

use serde_json::{Map, Value};

use super::authored::AuthoredSpeculation;
use super::config::EngineLaunchConfig;
use super::report::LaunchReport;
use super::timing::is_performance_provider;
use super::{ENGINE, config, legacy, nextn, recoded, relocated};
use crate::codes::{
    E_BACKEND, E_DEPTH_CONFLICT, E_LAUNCH_FIELD, E_PERF_CONFIG, E_ROLE, E_TOPOLOGY,
};
use crate::config::{ForwardPassPerfModelConfig, SpeculationConfig};
use crate::error::{Error, Result};
use crate::speculation::{Backend, resolve_speculation};
use crate::workload::WorkerType;

/// The nested form of an engine; it excludes flat options.
pub(super) const RANK: &str = "rank";

/// The largest integer that every reader of JSON holds exactly.
const MAX_EXACT_INTEGER: u64 = 1 << 53;

/// Spellings of each parallel size: in the options, then in the deployment's parallelism.
const TOPOLOGY: [(&str, [&str; 2], [&str; 3]); 2] = [
    (
        "tensor_parallel_size",
        ["tensor_parallel_size", "aic_tp_size"],
        ["tensor_parallel_size", "tp", "tp_size"],
    ),
    (
        "dp_size",
        ["dp_size", "aic_attention_dp_size"],
        ["dp_size", "attention_dp", "attention_dp_size"],
    ),
];

/// The launch of the engine of one role of a deployment.
///
/// The options are flat, in any spelling of the [older form](super::canonical_launch), or nested
/// under `rank`. A `speculation` block in them says what is drafted together with how much of it
/// is accepted; what is drafted goes to the performance model, the rest to the engine.
///
/// # Errors
/// Options that contradict the deployment, its parallelism, its role or each other; then as
/// [`EngineLaunchConfig::from_value`]. Paths are those of `options`.
pub fn materialize_engine_launch_config(
    deployment_backend: &str,
    deployment_backend_version: Option<&str>,
    parallel_config: &Value,
    options: Value,
    role: WorkerType,
) -> Result<EngineLaunchConfig> {
    let backend: Backend = deployment_backend.parse()?;
    let Value::Object(mut options) = options else {
        return Err(Error::launch(E_LAUNCH_FIELD, "", "the options must be an object"));
    };
    settle_topology(&mut options, parallel_config)?;
    check_graph_bytes(&options)?;
    let deployment = Deployment { backend, version: deployment_backend_version, role };
    let mut report = LaunchReport::default();
    let Some(rank) = options.remove(RANK) else {
        let depth = deployment.settle(&mut options)?;
        return legacy::resolve(options.into(), &mut report)
            .map_err(|error| authored_depth(error, nextn::AIC_NEXTN, depth));
    };
    if let Some(flat) = options.keys().find(|name| !legacy::LAUNCH.contains(&name.as_str())) {
        let message = format!("beside {RANK}: give all options of the engine in one form");
        return Err(Error::launch(E_LAUNCH_FIELD, flat, message));
    }
    let Value::Object(mut rank) = rank else {
        return Err(Error::launch(E_LAUNCH_FIELD, RANK, "must be an object"));
    };
    let depth = deployment.settle(&mut rank).map_err(|error| error.within(RANK))?;
    options.insert(ENGINE.to_owned(), rank.into());
    config::resolve(options.into(), &mut report).map_err(|error| {
        let error = relocated(error, |path| match path.strip_prefix(ENGINE) {
            Some(rest) => format!("{RANK}{rest}"),
            None => path.to_owned(),
        });
        authored_depth(error, &format!("{RANK}.{}", nextn::AIC_NEXTN), depth)
    })
}

/// A fault of the depth at the spelling that its author gave it.
fn authored_depth(error: Error, path: &str, depth: Option<nextn::Depth>) -> Error {
    match depth.filter(|_| error.path() == path) {
        Some(depth) => error.at(path.replace(nextn::AIC_NEXTN, depth.name)),
        None => error,
    }
}

/// The configuration of a performance model in its normal form, for a worker of this role.
///
/// `model_path` is another spelling of `model`, and an absent `worker_type` is the role.
///
/// # Errors
/// `E_ROLE` for another role, `E_PERF_CONFIG` for anything else that is wrong by itself.
pub fn canonical_performance_config(
    mut config: Value,
    worker_type: WorkerType,
) -> Result<ForwardPassPerfModelConfig> {
    complete_performance(&mut config, worker_type)?;
    let refused = |error: Error| recoded(&error, E_PERF_CONFIG, "");
    let config = ForwardPassPerfModelConfig::from_value(config).map_err(refused)?;
    config.check_launch().map_err(refused)?;
    if config.worker_type != worker_type {
        let (found, role) = (config.worker_type.name(), worker_type.name());
        return Err(Error::launch(E_ROLE, "worker_type", format!("{found}: must be {role}")));
    }
    Ok(config)
}

/// Gives a performance model its role, and its model the canonical spelling.
fn complete_performance(config: &mut Value, role: WorkerType) -> Result<()> {
    let Value::Object(fields) = config else {
        return Ok(());
    };
    if let Some(path) = fields.remove("model_path") {
        if fields.contains_key("model") {
            let message = "given both as `model` and as `model_path`: give one";
            return Err(Error::launch(E_PERF_CONFIG, "model_path", message));
        }
        fields.insert("model".to_owned(), path);
    }
    fields.entry("worker_type").or_insert_with(|| role.name().into());
    Ok(())
}

/// Brings all spellings of the parallel sizes together, those of the deployment included.
fn settle_topology(options: &mut Map<String, Value>, parallel: &Value) -> Result<()> {
    let deployment = match parallel {
        Value::Null => Map::new(),
        Value::Object(sizes) => sizes.clone(),
        other => {
            let message = format!("{other}: must be an object");
            return Err(Error::launch(E_TOPOLOGY, "parallel_config", message));
        }
    };
    let known = |name: &String| TOPOLOGY.iter().any(|(.., names)| names.contains(&name.as_str()));
    let stages = ["pp", "pp_size", "pipeline_parallel_size"];
    for (name, value) in &deployment {
        let path = format!("parallel_config.{name}");
        if stages.contains(&name.as_str()) {
            if *value != 1 {
                return Err(Error::launch(E_TOPOLOGY, path, format!("{value}: must be 1")));
            }
        } else if !known(name) {
            let message = "no such size: give tensor_parallel_size and dp_size";
            return Err(Error::launch(E_TOPOLOGY, path, message));
        }
    }
    for (canonical, spellings, names) in TOPOLOGY {
        let mut size: Option<(String, Value)> = None;
        let given =
            spellings.into_iter().filter_map(|name| Some((name.into(), options.remove(name)?)));
        let given: Vec<(String, Value)> = given.collect();
        let outside = names.into_iter().filter_map(|name| {
            Some((format!("parallel_config.{name}"), deployment.get(name)?.clone()))
        });
        for (path, value) in given.into_iter().chain(outside).filter(|(_, size)| !size.is_null()) {
            match &size {
                Some((other, before)) if *before != value => {
                    let message = format!("{value}, but {other} is {before}: must be equal");
                    return Err(Error::launch(E_TOPOLOGY, path, message));
                }
                Some(_) => {}
                None => size = Some((path, value)),
            }
        }
        options.extend(size.map(|(_, value)| (canonical.to_owned(), value)));
    }
    Ok(())
}

fn check_graph_bytes(options: &Map<String, Value>) -> Result<()> {
    let name = "cuda_graph_reserved_bytes";
    match options.get(name).and_then(Value::as_u64) {
        Some(bytes) if bytes > MAX_EXACT_INTEGER => {
            let message = format!("{bytes}: must be at most {MAX_EXACT_INTEGER}");
            Err(Error::launch(E_LAUNCH_FIELD, name, message))
        }
        _ => Ok(()),
    }
}

/// What a deployment says about the engines of one role.
struct Deployment<'a> {
    backend: Backend,
    version: Option<&'a str>,
    role: WorkerType,
}

impl Deployment<'_> {
    /// Brings the options of an engine together with the deployment, and with each other; gives a
    /// depth in an older spelling.
    fn settle(&self, engine: &mut Map<String, Value>) -> Result<Option<nextn::Depth>> {
        nextn::exclude_duplicates(engine)?;
        for (name, right, code) in [
            ("engine_type", self.backend.name(), E_BACKEND),
            ("aic_backend", self.backend.name(), E_BACKEND),
            ("backend", self.backend.name(), E_BACKEND),
            ("worker_type", self.role.name(), E_ROLE),
        ] {
            let value = engine.remove(name).filter(|value| !value.is_null());
            if let Some(value) = value.filter(|value| !says(value, right)) {
                let message = format!("{value}: the deployment is for {right:?}");
                return Err(Error::launch(code, name, message));
            }
        }
        engine.insert("backend".to_owned(), self.backend.name().into());
        engine.insert("worker_type".to_owned(), self.role.name().into());
        for (path, config) in performance_configs(engine) {
            self.complete(config).map_err(|error| error.within(path))?;
        }
        match engine.remove("speculation").filter(|block| !block.is_null()) {
            Some(block) => self.speculate(block, engine).map(|()| None),
            None => nextn::settle(engine),
        }
    }

    /// Gives a performance model the role and the version of the deployment.
    fn complete(&self, config: &mut Value) -> Result<()> {
        complete_performance(config, self.role)?;
        let (Value::Object(fields), Some(version)) = (config, self.version) else {
            return Ok(());
        };
        let found = fields.entry("backend_version").or_insert_with(|| version.into());
        if found != version && !found.is_null() {
            let message = format!("{found}: the deployment is for {version:?}");
            return Err(Error::launch(E_PERF_CONFIG, "backend_version", message));
        }
        Ok(())
    }

    /// Lowers a speculation block: the scheme to the performance model, the rest to the engine.
    fn speculate(&self, block: Value, engine: &mut Map<String, Value>) -> Result<()> {
        let speculation = AuthoredSpeculation::read(block, self.backend)
            .map_err(|error| error.within("speculation"))?;
        let kind = &speculation.scheme.kind;
        nextn::exclude(engine, kind)?;
        if speculation.depth == 0 {
            return Ok(());
        }
        // Every key is a string and every number came from JSON: this does not fail.
        let scheme = serde_json::to_value(&speculation.scheme).unwrap_or_default();
        let mut modelled = false;
        for (path, config) in performance_configs(engine) {
            modelled = true;
            let Value::Object(fields) = config else { continue };
            match fields.get("speculation").filter(|other| !other.is_null()) {
                None => {
                    fields.insert("speculation".to_owned(), scheme.clone());
                }
                Some(other) if drafts_the_same(other, &speculation.scheme) => {}
                Some(other) => {
                    return Err(Error::launch(
                        E_DEPTH_CONFLICT,
                        "speculation",
                        format!("{scheme}, but {path}.speculation is {other}: give one of them"),
                    ));
                }
            }
        }
        if !modelled {
            if kind != "ngram" {
                return Err(Error::launch(
                    E_PERF_CONFIG,
                    "timing_model",
                    format!("{kind} needs an external timing model of provider ais or aic"),
                ));
            }
            engine.insert(nextn::AIC_NEXTN.to_owned(), speculation.depth.into());
        }
        engine.insert(nextn::RATES[0].to_owned(), speculation.acceptance.to_string().into());
        engine.insert(nextn::SEEDS[0].to_owned(), speculation.seed.into());
        Ok(())
    }
}

/// Whether a value is this name, in any case.
pub(super) fn says(value: &Value, name: &str) -> bool {
    value.as_str().is_some_and(|text| text.eq_ignore_ascii_case(name))
}

/// Whether a speculation block drafts the same as this scheme, whatever its spelling.
fn drafts_the_same(block: &Value, scheme: &SpeculationConfig) -> bool {
    let drafted = |config: &SpeculationConfig| {
        let draft = resolve_speculation(config).ok()?;
        Some((draft.kind, draft.depth, draft.verify_width))
    };
    let other = SpeculationConfig::from_value(block.clone()).ok();
    other.and_then(|other| drafted(&other)).is_some_and(|other| drafted(scheme) == Some(other))
}

/// The configurations of performance models among the options, with their paths.
fn performance_configs(engine: &mut Map<String, Value>) -> Vec<(&'static str, &mut Value)> {
    let mut configs = Vec::new();
    for (name, value) in engine.iter_mut() {
        if name == "ais_perf_config" && !value.is_null() {
            configs.push(("ais_perf_config", value));
        } else if name == "timing_model" {
            let provider = value.get("provider").and_then(Value::as_str);
            if provider.is_some_and(is_performance_provider) {
                configs
                    .extend(value.get_mut("config").map(|config| ("timing_model.config", config)));
            }
        }
    }
    configs
}
