"""The forecaster: learns from the metrics of one worker, and forecasts its next pass."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, Self, TypeAlias, final

import numpy as np
import numpy.typing as npt

from forepass import _core
from forepass.columns import core_columns, is_table
from forepass.config import (
    ConfigSource,
    FeatureWeights,
    Fit,
    fit_options,
    normal_form,
    worker_form,
)
from forepass.errors import ConfigError, MetricsError

Iteration: TypeAlias = Any
"""One engine step: one rank's record or a list of them. A record is a mapping, an object with
the fields as attributes (a msgspec struct, a dataclass), or JSON as text or bytes. What an engine
publishes around a record, such as `{"metrics": ...}`, is to be opened first."""

Table: TypeAlias = Mapping[str, npt.ArrayLike] | Any
"""Single-rank iterations as columns of shape (rows,): a mapping from names, or a data frame."""


class _Forecasting(Protocol):
    def __call__(self, iteration: Iteration, level: float | None = None) -> _core.Forecast: ...


@final
class ForwardPassModel:
    """Learns online how long a forward pass takes, one model for each worker or deployment.

    Give either a whole configuration (a `ForwardPassPerfModelConfig`, a mapping, JSON, or the
    path of a file) or keywords, never both.

    | keyword | default | meaning |
    |---|---|---|
    | `worker_type` | "aggregated" | "prefill", "decode" or "aggregated" |
    | `fit` | "linear" | "auto" (recommended), "linear", "spline" or "spline-periodic", or options |
    | `max_observations` | 64 | rows that each store keeps |
    | `recent` | 0; "auto": half of the rows | newest rows, kept wherever they lie |
    | `max_age` | none; "auto": 4096 | rows of a store after which an older one goes |
    | `min_observations` | 5 | rows from which a store answers |
    | `bins_per_axis` | (4, 4) | cells among which kept rows are spread |
    | `features` | all 1.0 | weights of the terms of the features |

    Every method may be called from any number of threads.

    Raises:
        ConfigError: a value that is not valid, by its JSON path.

    >>> model = ForwardPassModel(worker_type="decode")
    >>> for n in range(1, 9):
    ...     step = {"wall_time": 0.010 + 0.001 * n}
    ...     step |= {"num_decode_requests": n, "sum_decode_kv_tokens": 1000 * n}
    ...     _ = model.observe(step)
    >>> round(model.predict({"num_decode_requests": 16, "sum_decode_kv_tokens": 16_000}), 6)
    26.0
    """

    # The methods of one call are the core's own: no Python frame stands between.
    __slots__ = {  # noqa: RUF023 (in the order of use)
        "observe": """Learn one iteration, whose `wall_time` is in seconds.

        Returns "learned", "idle" where no rank has work, or the reason of its rejection.

        Raises:
            MetricsError: a malformed record, by its JSON path; the model is unchanged.
        """,
        "predict": """Latency of an iteration in milliseconds; None where it is not known.

        Raises:
            MetricsError: a malformed record, by its JSON path.
        """,
        "forecast": """Latency, what says so, and why it may not be known, as a `Forecast`.

        With a `level` between 0 and 1, also the interval that should hold this share of latencies,
        `low_ms` to `high_ms`: adaptive fits know it once they have seen errors enough.

        Raises:
            MetricsError: a malformed record, by its JSON path, or a level out of range.
        """,
        "_model": "The model itself.",
        "__weakref__": "Weak references to the model.",
    }

    observe: Callable[[Iteration], str]
    predict: Callable[[Iteration], float | None]
    forecast: _Forecasting
    _model: _core.CoreModel

    def __init__(
        self,
        config: ConfigSource | None = None,
        *,
        worker_type: str | None = None,
        fit: str | Fit | Mapping[str, Any] | None = None,
        max_observations: int | None = None,
        min_observations: int | None = None,
        bins_per_axis: Sequence[int] | None = None,
        recent: int | None = None,
        max_age: int | None = None,
        features: FeatureWeights | Mapping[str, float] | None = None,
    ) -> None:
        sampling = _given(
            {
                "max_observations": max_observations,
                "bins_per_axis": bins_per_axis,
                "recent": recent,
                "max_age": max_age,
            }
        )
        if config is None:
            estimator = _estimator(fit, min_observations, sampling, features)
            text = worker_form("aggregated" if worker_type is None else worker_type, estimator)
        else:
            others = {"min_observations": min_observations, "features": features}
            _refuse_keywords({"worker_type": worker_type, "fit": fit, **others, **sampling})
            text = normal_form(config)
        self._bind(_core.CoreModel(text))

    def _bind(self, core: _core.CoreModel) -> None:
        self._model = core
        self.observe = core.observe
        self.predict = core.predict
        self.forecast = core.forecast

    def observe_batch(self, data: Iterable[Iteration] | Table) -> None:
        """Learn iterations in order, all or none of them.

        Takes a list of iterations, or a table with `wall_time` in seconds.

        Raises:
            MetricsError: the first malformed iteration, by its index or its column and row; the
                model is unchanged.
        """
        if is_table(data):
            self._model.observe_columns(core_columns(data))
        else:
            self._model.observe_batch(_iterations(data))

    def predict_batch(self, data: Iterable[Iteration] | Table) -> npt.NDArray[np.float64]:
        """Latency of each iteration in milliseconds, shape (rows,), NaN where it is not known.

        Takes a list of iterations, or a table.

        Raises:
            MetricsError: the first malformed iteration, by its index or its column and row.
        """
        if is_table(data):
            return self._model.predict_columns(core_columns(data))
        predicted = [self._predict_at(index, step) for index, step in enumerate(_iterations(data))]
        return np.array(predicted, dtype=np.float64)

    def _predict_at(self, index: int, iteration: Iteration) -> float | None:
        try:
            return self.predict(iteration)
        except MetricsError as error:
            raise error.within(f"[{index}]") from error

    def diagnostics(self) -> dict[str, Any]:
        """Readiness, counts of observations learned, idle and rejected, and each store's state.

        A store has its kind of work, why it does not answer, the range of its features, the prices
        of its line in milliseconds a unit of the feature, and how often its statistics were
        rebuilt; `spline` and `adaptive` are there for the fits that have them.
        """
        state: dict[str, Any] = json.loads(self._model.diagnostics_json())
        return state

    @property
    def config(self) -> dict[str, Any]:
        """The configuration in canonical normal form; a model built from it is the same, cold."""
        config: dict[str, Any] = json.loads(self._model.config_json())
        return config

    def copy(self) -> Self:
        """A model with the same state, which from then on goes its own way."""
        twin = type(self).__new__(type(self))
        twin._bind(self._model.copy())
        return twin

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __repr__(self) -> str:
        state, config = self.diagnostics(), self.config
        fit = config["estimator_config"]["fpm_regression"]["fit"]["kind"]
        return (
            f"<ForwardPassModel worker_type={config['worker_type']} fit={fit} "
            f"{state['readiness']} retained_observations={state['retained_observations']}>"
        )


def _estimator(
    fit: str | Fit | Mapping[str, Any] | None,
    min_observations: int | None,
    sampling: Mapping[str, Any],
    features: FeatureWeights | Mapping[str, float] | None,
) -> Mapping[str, Any]:
    """The options of the estimator for which the keywords stand; what is None is left out."""
    regression = {
        "fit": None if fit is None else fit_options(fit),
        "min_observations": min_observations,
        "sampling": sampling or None,
    }
    if isinstance(features, FeatureWeights):
        features = features.to_dict()
    return _given({"features": features, "fpm_regression": _given(regression) or None})


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _refuse_keywords(keywords: Mapping[str, Any]) -> None:
    for name in _given(keywords):
        message = f"{name}: given beside a configuration, which decides it: give one of the two"
        raise ConfigError(message, "conflict", name)


def _iterations(data: Any) -> Sequence[Iteration]:
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | bytearray):
        return list(data)
    message = f"expected a list of iterations or a table, found {type(data).__name__}"
    raise MetricsError(message, "invalid_type", "")
