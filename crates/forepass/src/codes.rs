//! The codes of what can be wrong with a launch: stable names, listed in the order of the checks.

/// The engine's own options: malformed, out of range or contradicting each other.
pub const E_ENGINE: &str = "E_ENGINE";
/// The launch around the engine: malformed, out of range, or not a launch at all.
pub const E_LAUNCH_FIELD: &str = "E_LAUNCH_FIELD";
/// The configuration of the performance model: malformed or contradicting itself.
pub const E_PERF_CONFIG: &str = "E_PERF_CONFIG";
/// Parallelism that the launch and the performance model see differently, or pipeline stages.
pub const E_TOPOLOGY: &str = "E_TOPOLOGY";
/// A role that the engine and the performance model see differently.
pub const E_ROLE: &str = "E_ROLE";
/// A speculation scheme of this name is not known.
pub const E_KIND: &str = "E_KIND";
/// A parameter of the scheme: missing, unknown, of the wrong type or contradicting another.
pub const E_PARAM: &str = "E_PARAM";
/// The scheme is not available on this backend.
pub const E_BACKEND: &str = "E_BACKEND";
/// The draft is a tree, or its verify width is not its depth + 1.
pub const E_TREE: &str = "E_TREE";
/// The depth is outside of what can be replayed.
pub const E_RANGE: &str = "E_RANGE";
/// The scheme is registered, but what resolves it cannot run here.
pub const E_RUNTIME: &str = "E_RUNTIME";
/// Two places give different depths.
pub const E_DEPTH_CONFLICT: &str = "E_DEPTH_CONFLICT";
/// Speculation without acceptance.
pub const E_ACCEPT_MISSING: &str = "E_ACCEPT_MISSING";
/// Acceptance that is no acceptance of this depth.
pub const E_ACCEPT_INVALID: &str = "E_ACCEPT_INVALID";
/// Speculation without an authored KV capacity.
pub const E_CAPACITY: &str = "E_CAPACITY";

/// All codes, in the order of the checks.
pub const ALL: [&str; 15] = [
    E_ENGINE,
    E_LAUNCH_FIELD,
    E_PERF_CONFIG,
    E_TOPOLOGY,
    E_ROLE,
    E_KIND,
    E_PARAM,
    E_BACKEND,
    E_TREE,
    E_RANGE,
    E_RUNTIME,
    E_DEPTH_CONFLICT,
    E_ACCEPT_MISSING,
    E_ACCEPT_INVALID,
    E_CAPACITY,
];

/// Where the check of this code stands in their order.
pub(crate) fn order(code: &str) -> usize {
    ALL.iter().position(|known| *known == code).unwrap_or(ALL.len())
}
