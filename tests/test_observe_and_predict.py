"""What the model learns and answers, in whichever form it is told."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from collections import OrderedDict, UserDict
from types import MappingProxyType, SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

import forepass as fp
from steps import decode_step, refused, state_of, straight_line


class ScheduledStruct(msgspec.Struct, frozen=True):
    num_prefill_requests: int = 0
    sum_prefill_tokens: int = 0
    var_prefill_length: float = 0.0
    sum_prefill_kv_tokens: int = 0
    num_decode_requests: int = 0
    sum_decode_kv_tokens: int = 0
    var_decode_kv_tokens: float = 0.0


class MetricsStruct(msgspec.Struct, frozen=True):
    version: int = 1
    worker_id: str = ""
    dp_rank: int = 0
    counter_id: int = 0
    wall_time: float = 0.0
    scheduled_requests: ScheduledStruct = ScheduledStruct()


@dataclasses.dataclass
class ScheduledClass:
    num_decode_requests: int
    sum_decode_kv_tokens: int


@dataclasses.dataclass
class MetricsClass:
    wall_time: float
    scheduled_requests: ScheduledClass


def as_struct(record: dict[str, Any]) -> MetricsStruct:
    return msgspec.convert(record, MetricsStruct)


def as_dataclass(record: dict[str, Any]) -> MetricsClass:
    return MetricsClass(record["wall_time"], ScheduledClass(**record["scheduled_requests"]))


def as_flat(record: dict[str, Any]) -> dict[str, Any]:
    return {"wall_time": record["wall_time"], **record["scheduled_requests"]}


FORMS = {
    "list of ranks": lambda record: [record],
    "tuple of ranks": lambda record: (record,),
    "msgspec struct": as_struct,
    "list of structs": lambda record: [as_struct(record)],
    "dataclass": as_dataclass,
    "namespace": lambda record: SimpleNamespace(**as_flat(record)),
    "flat": as_flat,
    "JSON text": json.dumps,
    "JSON bytes": lambda record: json.dumps(record).encode(),
    "JSON list": lambda record: json.dumps([record]),
    "msgspec JSON": lambda record: msgspec.json.encode(as_struct(record)),
    "JSON bytearray": lambda record: bytearray(json.dumps(record).encode()),
    "JSON memoryview": lambda record: memoryview(json.dumps(record).encode()),
    "list of JSON text": lambda record: [json.dumps(record)],
    "list of JSON bytes": lambda record: [json.dumps(record).encode()],
    "mapping proxy": lambda record: MappingProxyType(
        {**record, "scheduled_requests": MappingProxyType(record["scheduled_requests"])}
    ),
    "flat mapping proxy": lambda record: MappingProxyType(as_flat(record)),
    "user dict": UserDict,
    "ordered dict": OrderedDict,
    "NumPy scalars": lambda record: {
        "wall_time": np.float64(record["wall_time"]),
        "scheduled_requests": {
            name: np.uint32(count) for name, count in record["scheduled_requests"].items()
        },
    },
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_each_form_says_the_same_as_the_dict(form: Any) -> None:
    plain, formed, batched = (fp.ForwardPassModel() for _ in range(3))
    for record in straight_line():
        assert plain.observe(record) == formed.observe(form(record)) == "learned"
    batched.observe_batch([form(record) for record in straight_line()])
    assert state_of(plain) == state_of(formed) == state_of(batched)
    query = decode_step(5, 12_345)
    assert plain.predict(query) == formed.predict(form(query))


def test_ranks_may_come_in_different_forms(taught: fp.ForwardPassModel) -> None:
    first, second = decode_step(1, 10, dp_rank=0), decode_step(9, 900, dp_rank=1)
    mixed = [json.dumps(first), json.dumps(second).encode()]
    assert taught.forecast(mixed).kind == taught.forecast([first, as_struct(second)]).kind
    assert taught.forecast([first, json.dumps(second)]).kind == taught.forecast(mixed).kind


def test_a_straight_line_is_continued(taught: fp.ForwardPassModel) -> None:
    assert taught.predict(decode_step(30, 30_000)) == pytest.approx(40.0, rel=1e-9)
    forecast = taught.forecast(decode_step(30, 30_000))
    assert (forecast.source, forecast.kind, forecast.reason) == (
        "linear",
        "pure_decode",
        "extrapolating",
    )
    assert forecast.ms == taught.predict(decode_step(30, 30_000))


def test_an_abstention_is_none_with_a_reason() -> None:
    model = fp.ForwardPassModel()
    assert model.predict(decode_step(1, 10)) is None
    forecast = model.forecast(decode_step(1, 10))
    assert (forecast.ms, forecast.source, forecast.reason) == (None, None, "cold")
    assert np.isnan(model.predict_batch([decode_step(1, 10)])).all()


def test_forecasts_are_values(taught: fp.ForwardPassModel) -> None:
    forecasts = [taught.forecast(decode_step(n, 1000 * n)) for n in (0, 3, 30)]
    forecasts.append(fp.ForwardPassModel().forecast(decode_step(1, 10)))
    assert len(set(forecasts)) == 4
    for forecast in forecasts:
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(forecast, protocol)) == forecast
        again = copy.deepcopy(forecast)
        assert (again == forecast, hash(again) == hash(forecast)) == (True, True)
        assert repr(again) == repr(forecast)
    assert forecasts[1] == taught.forecast(decode_step(3, 3000)) != forecasts[2]
    assert forecasts[1] != forecasts[1].ms


def test_an_idle_iteration_takes_no_time_and_teaches_nothing(taught: fp.ForwardPassModel) -> None:
    answers = state_of(taught)[1]
    assert taught.observe({"wall_time": 0.0}) == "idle"
    for idle in (
        {"scheduled_requests": {}},
        {"queued_requests": {}},
        {"wall_time": 0.1},
        {"num_decode_requests": 0, "sum_decode_kv_tokens": 0},
        SimpleNamespace(scheduled_requests={}),
        as_struct({}),
    ):
        assert taught.predict(idle) == 0.0
        assert taught.forecast(idle).source == "idle"
    assert taught.diagnostics()["idle_observations"] == 1
    assert state_of(taught)[1] == answers


def test_unfit_observations_are_counted_by_reason(taught: fp.ForwardPassModel) -> None:
    answers = state_of(taught)[1]
    for wall_time, reason in [
        (0.0, "no_positive_time"),
        (-1.0, "no_positive_time"),
        (float("nan"), "non_finite_time"),
        (float("inf"), "non_finite_time"),
        (float("-inf"), "non_finite_time"),
        (3600.012, "implausible_duration"),
    ]:
        assert taught.observe(decode_step(2, 2000, wall_time)) == reason
    assert taught.diagnostics()["rejected_observations"] == {
        "no_positive_time": 2,
        "non_finite_time": 3,
        "implausible_duration": 1,
    }
    assert state_of(taught)[1] == answers
    assert taught.diagnostics()["accepted_observations"] == 12


def test_the_ranks_of_one_step_are_one_observation() -> None:
    model = fp.ForwardPassModel()
    for n in range(1, 9):
        ranks = [decode_step(n, 1000 * n, 0.001 * (1 + n), dp_rank=rank) for rank in range(4)]
        assert model.observe(ranks) == "learned"
    assert model.diagnostics()["accepted_observations"] == 8
    query = [decode_step(8, 8000, dp_rank=rank) for rank in range(4)]
    assert model.predict(query) == pytest.approx(9.0)


@pytest.mark.parametrize("bad", [{"version": 2}, {"wall_time": "1"}, [], 5, decode_step(-1, 0)])
@pytest.mark.parametrize("place", [0, 3, 11])
def test_a_batch_is_learned_whole_or_not_at_all(
    taught: fp.ForwardPassModel, bad: Any, place: int
) -> None:
    before = state_of(taught)
    batch: list[Any] = straight_line(11)
    batch.insert(place, bad)
    error = refused(fp.MetricsError, lambda: taught.observe_batch(batch))
    assert error.path.startswith(f"[{place}]")
    assert state_of(taught) == before


def test_a_batch_of_columns_is_learned_whole_or_not_at_all(taught: fp.ForwardPassModel) -> None:
    before = state_of(taught)
    columns = {
        "num_decode_requests": [1, 2, 0],
        "sum_decode_kv_tokens": [10, 20, 30],
        "wall_time": [0.1, 0.2, 0.3],
    }
    error = refused(fp.MetricsError, lambda: taught.observe_batch(columns))
    assert error.path == "sum_decode_kv_tokens[2]"
    assert state_of(taught) == before


def test_columns_teach_what_records_teach(taught: fp.ForwardPassModel) -> None:
    model = fp.ForwardPassModel()
    steps = np.arange(1, 13)
    model.observe_batch(
        {
            "num_decode_requests": steps,
            "sum_decode_kv_tokens": 1000 * steps,
            "wall_time": np.array([record["wall_time"] for record in straight_line()]),
        }
    )
    assert state_of(model) == state_of(taught)


def test_a_fault_in_a_predicted_batch_names_its_iteration(taught: fp.ForwardPassModel) -> None:
    batch = [decode_step(1, 10), [decode_step(1, 10), {"version": 9}]]
    error = refused(fp.MetricsError, lambda: taught.predict_batch(batch))
    assert error.path == "[1][1].version"
    assert str(error).startswith("[1][1].version: ")
    error = refused(fp.MetricsError, lambda: taught.predict_batch([[]]))
    assert (error.path, str(error).split(":")[0]) == ("[0]", "[0]")


def test_a_copy_goes_its_own_way(taught: fp.ForwardPassModel) -> None:
    before = state_of(taught)
    for twin in (taught.copy(), copy.copy(taught), copy.deepcopy(taught)):
        assert state_of(twin) == before
        assert twin.config == taught.config
        twin.observe(decode_step(40, 40_000, 3.0))
        assert state_of(twin) != before
    assert state_of(taught) == before


def test_learned_state_is_not_pickled_half(taught: fp.ForwardPassModel) -> None:
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(taught)


def test_methods_are_documented() -> None:
    for name in ("observe", "predict", "forecast", "observe_batch", "predict_batch"):
        assert len(getattr(fp.ForwardPassModel, name).__doc__ or "") > 40 or name in {
            *fp.ForwardPassModel.__slots__
        }
    assert "predict" in repr(fp.ForwardPassModel.predict)
    assert "worker_type=aggregated" in repr(fp.ForwardPassModel())
