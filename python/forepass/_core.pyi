"""Types of the compiled core. The package's other modules are its public face."""

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

__all__ = [
    "BASELINES",
    "COLUMN_NAMES",
    "LAUNCH_CODES",
    "PROTOCOLS",
    "TRACE_FORMATS",
    "CoreModel",
    "Forecast",
    "Progress",
    "__version__",
    "acceptance_from_mean",
    "acceptance_from_unconditional",
    "canonical_performance_config",
    "capacity_estimation_options",
    "decode_rows",
    "engine_methods",
    "estimator_from_legacy",
    "expected_progress",
    "find_traces",
    "inspect",
    "learn",
    "materialize_engine_launch_config",
    "normalize_config",
    "normalize_speculation_engine_args",
    "register_scheme",
    "replay",
    "replay_depth",
    "resolve_engine_options",
    "resolve_launch",
    "resolve_speculation",
    "scheme_backends",
    "speculation_report_metadata",
    "unregister_scheme",
    "worker_config",
]

__version__: str
"""The version of the package, which is that of the core."""

@final
class Forecast:
    """A forecast of one iteration, or an honest "not known".

    Forecasts can be compared, hashed and pickled.
    """

    def __new__(
        cls,
        ms: float | None,
        source: str | None,
        kind: str,
        reason: str | None,
        low_ms: float | None = None,
        high_ms: float | None = None,
    ) -> Forecast: ...
    def __getnewargs__(
        self,
    ) -> tuple[float | None, str | None, str, str | None, float | None, float | None]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def ms(self) -> float | None:
        """Latency in milliseconds; None where it is not known."""

    @property
    def source(self) -> str | None:
        """What answered, such as "tracked_spline", or "idle" where there is no work; else None."""

    @property
    def kind(self) -> str:
        """Kind of work, such as "pure_decode"; "idle" where there is none."""

    @property
    def reason(self) -> str | None:
        """Why there is no answer, or a caution about the one there is, such as "extrapolating"."""

    @property
    def low_ms(self) -> float | None:
        """Where the interval begins, in milliseconds; None unless it was asked for and is known."""

    @property
    def high_ms(self) -> float | None:
        """Where the interval ends, in milliseconds; None unless it was asked for and is known."""

@final
class CoreModel:
    """The forecaster; safe to share between threads."""

    def __new__(cls, config_json: str) -> CoreModel: ...
    def observe(self, iteration: Any) -> str:
        """Learn one iteration; "learned", "idle" or the reason of its rejection."""

    def observe_batch(self, iterations: Sequence[Any]) -> None:
        """Learn iterations in order, all or none of them."""

    def observe_columns(self, columns: Mapping[str, npt.NDArray[np.float64]]) -> None:
        """Learn single-rank iterations given as contiguous columns, all or none of them."""

    def predict(self, iteration: Any) -> float | None:
        """Latency in milliseconds; None where it is not known."""

    def forecast(self, iteration: Any, level: float | None = None) -> Forecast:
        """Latency, what says so, and why it may not be known; its interval at a level."""

    def predict_columns(
        self, columns: Mapping[str, npt.NDArray[np.float64]]
    ) -> npt.NDArray[np.float64]:
        """Latency in milliseconds of each row, NaN where it is not known."""

    def diagnostics_json(self) -> str:
        """The state of the model as JSON."""

    def config_json(self) -> str:
        """The configuration in canonical normal form, as JSON."""

    def copy(self) -> CoreModel:
        """A model with the same state that goes its own way."""

@final
class Progress:
    """How far the reading of traces has come."""

    def __new__(cls) -> Progress: ...
    @property
    def bytes(self) -> int:
        """Bytes of the input files read so far."""

    def cancel(self) -> None:
        """Ask the reading to stop."""

COLUMN_NAMES: tuple[str, ...]
TRACE_FORMATS: tuple[str, ...]
"""The names of the formats of traces that can be read."""
BASELINES: tuple[str, ...]
LAUNCH_CODES: tuple[str, ...]
"""The codes of what can be wrong with a launch, in the order of the checks."""
PROTOCOLS: tuple[str, ...]

def normalize_config(config_json: str) -> str:
    """Check a configuration and put it into canonical normal form."""

def worker_config(worker_type: str, estimator_json: str) -> str:
    """The configuration of a model without deployment identity, in canonical normal form."""

def estimator_from_legacy(options_json: str, explicit_json: str | None) -> str:
    """The estimator configuration that flat options of older programs stand for."""

def find_traces(
    paths: Sequence[str],
) -> list[tuple[str, list[str], list[str], str | None]]:
    """The traces that paths name.

    Of each its name, its files, what is missing of it, and the SHA-256 that its manifest tells.
    """

def replay(
    sources: Sequence[tuple[str, Sequence[str], Sequence[str]]],
    contenders: Sequence[tuple[str, str | None]],
    reading: Mapping[str, Any],
    *,
    protocol: str,
    warmup: int,
    threads: int,
    by_worker: bool,
    predictions: bool,
    timeline: bool,
    progress: Progress,
) -> tuple[str, bytes]:
    """Replay traces; the report as JSON, and the predictions as CSV where asked for.

    A source is a name, its files, and what is missing of it. A contender is a name and a
    configuration as JSON, or the name of a baseline and None. How to read is told by `strict`,
    `trace_format` and `join_ranks`.
    """

def inspect(
    sources: Sequence[tuple[str, Sequence[str], Sequence[str]]],
    reading: Mapping[str, Any],
    *,
    progress: Progress,
) -> str:
    """What is in traces, as JSON."""

def learn(
    trace: tuple[str, Sequence[str], Sequence[str]],
    config_json: str,
    reading: Mapping[str, Any],
    *,
    progress: Progress,
) -> str:
    """Diagnostics of one model for each worker after learning a trace, as JSON by worker."""

def resolve_launch(launch_json: str) -> str:
    """Resolve a launch; the report as JSON."""

def resolve_engine_options(engine: str, options_json: str, strict: bool) -> str:
    """Resolve the options of an engine, which are JSON; the report as JSON."""

def engine_methods() -> str:
    """What comes of each method of each engine, as JSON."""

def resolve_speculation(speculation_json: str) -> str:
    """What a speculation block drafts, as JSON."""

def replay_depth(speculation_json: str) -> int:
    """The depth at which a speculation block is replayed."""

def register_scheme(kind: str, backends: Sequence[str]) -> None:
    """Make a scheme known, for which `forepass.schemes.answer` answers."""

def unregister_scheme(kind: str) -> bool:
    """Forget a registered scheme; whether there was one."""

def scheme_backends() -> list[tuple[str, list[str]]]:
    """The names of all schemes, each with the backends on which a launch can use it."""

def materialize_engine_launch_config(
    backend: str,
    version: str | None,
    parallel_json: str,
    options_json: str,
    worker_type: str,
) -> str:
    """The launch of the engine of one role, as JSON."""

def canonical_performance_config(config_json: str, worker_type: str) -> str:
    """The configuration of a performance model in its normal form, as JSON."""

def normalize_speculation_engine_args(options_json: str, worker_type: str) -> str:
    """The engine options of one role with their speculation in one spelling, as JSON."""

def speculation_report_metadata(launch_json: str) -> str:
    """What a report says about the speculation of a launch, as JSON."""

def capacity_estimation_options(launch_json: str) -> str:
    """What an estimate of the KV capacity of a launch needs to know, as JSON."""

def acceptance_from_unconditional(rates: Sequence[float]) -> list[float]:
    """Conditional acceptance rates from unconditional ones."""

def acceptance_from_mean(mean: float, depth: int) -> list[float]:
    """The steadiest conditional acceptance rates with this mean of accepted drafts."""

def expected_progress(rates: Sequence[float]) -> float:
    """Mean number of tokens by which a step advances a sequence."""

def decode_rows(batch: int, depth: int) -> int:
    """Rows of a decode step."""
