"""Forecasts how long an LLM engine's next forward pass takes, learning from its own metrics."""

from forepass._core import TRACE_FORMATS, Forecast, __version__
from forepass.config import EstimatorConfig, ForwardPassPerfModelConfig
from forepass.errors import (
    ConfigError,
    ForepassError,
    LaunchError,
    MetricsError,
    SpeculationError,
    TraceError,
)
from forepass.launch import (
    Draft,
    LaunchReport,
    acceptance_from_mean,
    acceptance_from_unconditional,
    canonical_performance_config,
    capacity_estimation_options,
    decode_rows,
    engine_methods,
    expected_progress,
    materialize_engine_launch_config,
    normalize_speculation_engine_args,
    replay_depth,
    resolve_engine_options,
    resolve_launch,
    resolve_speculation,
    speculation_report_metadata,
)
from forepass.model import ForwardPassModel
from forepass.replay import inspect, replay, sample_path
from forepass.replay_result import FitResult, IntervalStats, ReplayInput, ReplayResult, Stats
from forepass.schemes import register_scheme, scheme_backends, unregister_scheme

__all__ = [
    "TRACE_FORMATS",
    "ConfigError",
    "Draft",
    "EstimatorConfig",
    "FitResult",
    "Forecast",
    "ForepassError",
    "ForwardPassModel",
    "ForwardPassPerfModelConfig",
    "IntervalStats",
    "LaunchError",
    "LaunchReport",
    "MetricsError",
    "ReplayInput",
    "ReplayResult",
    "SpeculationError",
    "Stats",
    "TraceError",
    "__version__",
    "acceptance_from_mean",
    "acceptance_from_unconditional",
    "canonical_performance_config",
    "capacity_estimation_options",
    "decode_rows",
    "engine_methods",
    "expected_progress",
    "inspect",
    "materialize_engine_launch_config",
    "normalize_speculation_engine_args",
    "register_scheme",
    "replay",
    "replay_depth",
    "resolve_engine_options",
    "resolve_launch",
    "resolve_speculation",
    "sample_path",
    "scheme_backends",
    "speculation_report_metadata",
    "unregister_scheme",
]
