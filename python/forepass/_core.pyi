"""Types of the compiled core. The package's other modules are its public face."""

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

__all__ = [
    "BASELINES",
    "COLUMN_NAMES",
    "PROTOCOLS",
    "TRACE_FORMATS",
    "CoreModel",
    "Forecast",
    "Progress",
    "__version__",
    "estimator_from_legacy",
    "find_traces",
    "inspect",
    "learn",
    "normalize_config",
    "replay",
    "worker_config",
]

__version__: str

@final
class Forecast:
    """A forecast of one iteration, or an honest "not known"."""

    def __new__(
        cls, ms: float | None, source: str | None, kind: str, reason: str | None
    ) -> Forecast: ...
    def __getnewargs__(self) -> tuple[float | None, str | None, str, str | None]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def ms(self) -> float | None:
        """Latency in milliseconds; None where it is not known."""

    @property
    def source(self) -> str | None:
        """What answered: "linear", "spline", or "idle" where there is no work; else None."""

    @property
    def kind(self) -> str:
        """Kind of work, such as "pure_decode"; "idle" where there is none."""

    @property
    def reason(self) -> str | None:
        """Why there is no answer, or "extrapolating" as a caution about the one there is."""

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

    def forecast(self, iteration: Any) -> Forecast:
        """Latency, what says so, and why it may not be known."""

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
BASELINES: tuple[str, ...]
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
