"""Forecasts how long an LLM engine's next forward pass takes, learning from its own metrics."""

from forepass._core import TRACE_FORMATS, Forecast, __version__
from forepass.config import EstimatorConfig, ForwardPassPerfModelConfig
from forepass.errors import ConfigError, ForepassError, MetricsError, TraceError
from forepass.model import ForwardPassModel
from forepass.replay import inspect, replay, sample_path
from forepass.replay_result import FitResult, ReplayInput, ReplayResult, Stats

__all__ = [
    "TRACE_FORMATS",
    "ConfigError",
    "EstimatorConfig",
    "FitResult",
    "Forecast",
    "ForepassError",
    "ForwardPassModel",
    "ForwardPassPerfModelConfig",
    "MetricsError",
    "ReplayInput",
    "ReplayResult",
    "Stats",
    "TraceError",
    "__version__",
    "inspect",
    "replay",
    "sample_path",
]
