//! The older flat form of a launch, brought into the canonical one.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::config::{self, EngineLaunchConfig};
use super::report::LaunchReport;
use super::{ENGINE, PERFORMANCE, relocated};
use crate::codes::{self, E_DEPTH_CONFLICT, E_ENGINE, E_LAUNCH_FIELD};
use crate::error::{Error, Result, join};

/// Fields of the launch around the engine, under the same names in both forms.
pub(super) const LAUNCH: [&str; 8] = [
    "dp_size",
    "tensor_parallel_size",
    "startup_time",
    "num_gpu_blocks_is_explicit",
    "gpu_memory_utilization",
    "mem_fraction_static",
    "free_gpu_memory_fraction",
    "cuda_graph_reserved_bytes",
];

/// Fields of the engine that have an older name; both may stand if they agree.
pub(super) const RENAMED: [(&str, &str); 5] = [
    ("engine_type", "backend"),
    ("ais_nextn", "aic_nextn"),
    ("ais_nextn_accept_rates", "aic_nextn_accept_rates"),
    ("ais_mtp_seed", "aic_mtp_seed"),
    ("kv_bytes_per_token", "kv_transfer_bytes_per_token"),
];

/// Fields of the engine whose values are names, in any case.
const NAMES: [&str; 4] = ["backend", "worker_type", "preemption_mode", "kv_transfer_timing_mode"];

/// Whether a launch is in the flat form: no engine of its own, and fields of one around it.
pub(super) fn is_flat(value: &Value) -> bool {
    value.as_object().is_some_and(|fields| {
        !fields.contains_key(ENGINE) && fields.keys().any(|name| !LAUNCH.contains(&name.as_str()))
    })
}

/// Reads a launch in the flat form; all paths are those of that form.
pub(super) fn resolve(value: Value, report: &mut LaunchReport) -> Result<EngineLaunchConfig> {
    let mut translation = Translation::default();
    let canonical = translation.translate(value)?;
    let mut inner = LaunchReport::default();
    let launch = config::resolve(canonical, &mut inner);
    inner.relocate(|path| translation.authored(path));
    inner.provenance.append(&mut report.provenance);
    inner.ignored.append(&mut translation.ignored);
    *report = inner;
    launch.map_err(|error| relocated(error, |path| translation.authored(path)))
}

/// Brings a launch from the flat form into the canonical one.
///
/// # Errors
/// What has no canonical meaning; where values contradict each other, all that do.
pub fn canonical_launch(flat: Value) -> Result<Value> {
    Translation::default().translate(flat)
}

/// A translation under way: the canonical launch so far, and where each field of it comes from.
#[derive(Default)]
struct Translation {
    launch: Map<String, Value>,
    engine: Map<String, Value>,
    /// Flat path of each canonical path.
    origins: BTreeMap<String, String>,
    faults: Vec<Error>,
    ignored: Vec<String>,
}

impl Translation {
    fn translate(&mut self, flat: Value) -> Result<Value> {
        let Value::Object(mut fields) = flat else {
            return Err(Error::launch(E_LAUNCH_FIELD, "", "must be an object"));
        };
        for name in LAUNCH {
            match fields.remove(name) {
                None => {}
                Some(Value::Null) if name == "tensor_parallel_size" => {}
                Some(value) => {
                    self.launch.insert(name.to_owned(), value);
                }
            }
        }
        for (older, name) in RENAMED {
            if let Some(value) = fields.remove(older) {
                self.set(name, older, lowercase(name, value));
            }
        }
        let role = (fields.remove("is_prefill"), fields.remove("is_decode"));
        let performance = fields.remove("ais_perf_config");
        let blocks = (fields.remove("sglang"), fields.remove("trtllm"));
        let timing = fields.remove("timing_model");
        for (name, value) in fields {
            let unset = match name.as_str() {
                "block_size" => value.as_u64() == Some(0),
                "num_gpu_blocks" => value.is_null(),
                _ => false,
            };
            if !unset {
                let value = lowercase(&name, value);
                self.set(&name, &name, value);
            }
        }
        self.role(role.0, role.1);
        self.sglang(blocks.0);
        if let Some(trtllm) = blocks.1.filter(|block| !block.is_null()) {
            self.set("trtllm", "trtllm", without_nulls(trtllm));
        }
        self.timing(timing.filter(|timing| !timing.is_null()), performance);
        self.finish()
    }

    /// Sets a field of the engine, which another spelling may have set already.
    fn set(&mut self, name: &str, origin: &str, value: Value) {
        let path = join(ENGINE, name);
        match self.engine.get(name) {
            Some(other) if *other != value => {
                let before = self.origins.get(&path).map_or("", String::as_str);
                let code = if name == "aic_nextn" { E_DEPTH_CONFLICT } else { E_LAUNCH_FIELD };
                self.faults.push(Error::launch(
                    code,
                    origin,
                    format!("{origin} is {value}, but {before} is {other}"),
                ));
            }
            Some(_) => {}
            None => {
                self.engine.insert(name.to_owned(), value);
                self.origins.insert(path, origin.to_owned());
            }
        }
    }

    /// The role, from two older flags where it has no name.
    fn role(&mut self, prefill: Option<Value>, decode: Option<Value>) {
        let named = self.engine.contains_key("worker_type");
        let mut flags = [false; 2];
        for (flag, (name, value)) in
            flags.iter_mut().zip([("is_prefill", prefill), ("is_decode", decode)])
        {
            match value {
                None => {}
                Some(_) if named => {
                    self.ignored.push(format!("{name}: worker_type is given"));
                }
                Some(Value::Bool(value)) => *flag = value,
                Some(other) => self.faults.push(Error::launch(
                    E_ENGINE,
                    name,
                    format!("{name} is {other}: must be true or false"),
                )),
            }
        }
        match flags {
            [true, true] => self.faults.push(Error::launch(
                E_LAUNCH_FIELD,
                "is_decode",
                "is_decode is true, but is_prefill is true",
            )),
            [true, false] => self.set("worker_type", "is_prefill", json!("prefill")),
            [false, true] => self.set("worker_type", "is_decode", json!("decode")),
            [false, false] => {}
        }
    }

    /// The block of SGLang's options, in which the block size has a name of its own.
    fn sglang(&mut self, block: Option<Value>) {
        let Some(block) = block.filter(|block| !block.is_null()) else {
            return;
        };
        let mut block = without_nulls(block);
        if let Value::Object(fields) = &mut block {
            if let Some(page_size) = fields.remove("page_size") {
                self.set("block_size", "sglang.page_size", page_size);
            }
            if let Some(Value::String(policy)) = fields.get_mut("schedule_policy") {
                policy.make_ascii_lowercase();
                if policy == "fcfs" {
                    "fifo".clone_into(policy);
                }
            }
        }
        if block.as_object().is_none_or(|fields| !fields.is_empty()) {
            self.set("sglang", "sglang", block);
        }
    }

    /// Where the time of a pass comes from, from a block of its own or from a performance model.
    fn timing(&mut self, timing: Option<Value>, performance: Option<Value>) {
        if let Some(mut timing) = timing {
            if let Value::Object(fields) = &mut timing {
                if !fields.contains_key("kind") {
                    let kind = fields.remove("type").map(|kind| ("kind".to_owned(), kind));
                    fields.extend(kind);
                }
                if fields.get("kind").is_some_and(|kind| kind == "default") {
                    fields.insert("kind".to_owned(), json!("polynomial"));
                }
                let provider = fields.get("provider");
                if performance.is_some() && provider.is_some_and(|provider| provider == "aic") {
                    fields.insert("provider".to_owned(), json!("ais"));
                }
            }
            self.set("timing_model", "timing_model", timing);
        }
        if let Some(config) = performance.filter(|config| !config.is_null()) {
            let timing = json!({"kind": "external", "provider": "ais", "config": config});
            let agrees = self.engine.get("timing_model").is_none_or(|other| *other == timing);
            if agrees {
                self.origins.insert(PERFORMANCE.to_owned(), "ais_perf_config".to_owned());
            }
            self.set("timing_model", "ais_perf_config", timing);
        }
    }

    /// The canonical launch, unless something is wrong with the flat one.
    fn finish(&mut self) -> Result<Value> {
        let mut faults = std::mem::take(&mut self.faults);
        faults.sort_by_key(|fault| codes::order(fault.code()));
        if let Some(first) = faults.first() {
            let all: Vec<_> = faults.iter().map(Error::message).collect();
            return Err(Error::launch(first.code(), first.path(), all.join("; ")));
        }
        let mut launch = std::mem::take(&mut self.launch);
        launch.insert(ENGINE.to_owned(), std::mem::take(&mut self.engine).into());
        Ok(launch.into())
    }

    /// The flat path of a canonical one.
    fn authored(&self, path: &str) -> String {
        let within = |outer: &str| {
            path.strip_prefix(outer).filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let longest = self
            .origins
            .iter()
            .filter_map(|(canonical, flat)| Some((canonical.len(), flat, within(canonical)?)))
            .max_by_key(|(length, ..)| *length);
        match longest {
            Some((_, flat, rest)) => format!("{flat}{rest}"),
            None => path.strip_prefix("engine.").unwrap_or(path).to_owned(),
        }
    }
}

/// A value of this field, in lower case where it is a name.
fn lowercase(name: &str, mut value: Value) -> Value {
    if let Value::String(text) = &mut value {
        if NAMES.contains(&name) {
            text.make_ascii_lowercase();
        }
    }
    value
}

/// A block without the options that are null.
fn without_nulls(mut block: Value) -> Value {
    if let Value::Object(fields) = &mut block {
        fields.retain(|_, value| !value.is_null());
    }
    block
}
