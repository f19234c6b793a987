"""Records that are refused: each by its path, and without a trace in the model."""

from __future__ import annotations

import json
import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import forepass as fp
from steps import decode_step, refused, state_of

NAN, INF = float("nan"), float("inf")
COUNTERS = (
    "num_prefill_requests",
    "sum_prefill_tokens",
    "sum_prefill_kv_tokens",
    "num_decode_requests",
    "sum_decode_kv_tokens",
)


class Interrupting:
    @property
    def scheduled_requests(self) -> object:
        raise KeyboardInterrupt


class Raising:
    @property
    def scheduled_requests(self) -> object:
        message = "not today"
        raise RuntimeError(message)


def scheduled(**counters: Any) -> dict[str, Any]:
    return {"scheduled_requests": counters}


BAD_ITERATIONS: dict[str, tuple[Any, str]] = {
    "nothing": (None, ""),
    "a number": (5, ""),
    "a float": (1.5, ""),
    "a boolean": (True, ""),
    "a set": ({1, 2}, ""),
    "an object of another kind": (object(), ""),
    "an array": (np.arange(3), ""),
    "no ranks": ([], ""),
    "no ranks in JSON": ("[]", ""),
    "a nested list": ([[decode_step(1, 10)]], "[0]"),
    "a rank that is none": ([decode_step(1, 10), None], "[1]"),
    "a raising attribute": (Raising(), "scheduled_requests"),
    "an empty record": ({}, ""),
    "a mapping of something else": ({"foo": 1}, ""),
    "a record of identity alone": ({"version": 1, "worker_id": "a", "counter_id": 3}, ""),
    "an envelope of metrics": ({"metrics": decode_step(1, 10)}, ""),
    "an envelope of fpm": ({"fpm": decode_step(1, 10)}, ""),
    "an envelope of an event": ({"event": {"fpm": decode_step(1, 10)}}, ""),
    "scheduled work in a tuple": ({"scheduled_requests": (1, 2)}, "scheduled_requests"),
    "scheduled work in bytes": ({"scheduled_requests": b"{}"}, "scheduled_requests"),
    "scheduled work in text": ({"scheduled_requests": "{}"}, "scheduled_requests"),
    "scheduled work in a number": ({"scheduled_requests": 5}, "scheduled_requests"),
    "scheduled work of no kind": ({"scheduled_requests": object()}, "scheduled_requests"),
    "scheduled work misnamed": ({"scheduled_requests": {"decode": 5}}, "scheduled_requests"),
    "both forms in an object": (
        SimpleNamespace(scheduled_requests={}, num_decode_requests=1),
        "scheduled_requests",
    ),
    "an object with a time alone": (SimpleNamespace(wall_time=0.1), ""),
    "a time that is a NumPy boolean": ({"wall_time": np.True_}, "wall_time"),
    "a version that is large": ({"version": 2**32 + 1}, "version"),
    "another version": ({"version": 2}, "version"),
    "a huge version": ({"version": 2**70}, "version"),
    "a version in text": ({"version": "1"}, "version"),
    "scheduled work that is a list": ({"scheduled_requests": [1, 2]}, "scheduled_requests"),
    "scheduled work that is none": ({"scheduled_requests": None}, "scheduled_requests"),
    "a time in text": ({"wall_time": "0.1"}, "wall_time"),
    "a time that is a list": ({"wall_time": [0.1]}, "wall_time"),
    "a time that is a boolean": ({"wall_time": True}, "wall_time"),
    "a time that is none": ({"wall_time": None}, "wall_time"),
    "an absent sum": (
        scheduled(num_decode_requests=3),
        "scheduled_requests.sum_decode_kv_tokens",
    ),
    "tokens without requests": (
        scheduled(sum_decode_kv_tokens=3),
        "scheduled_requests.sum_decode_kv_tokens",
    ),
    "both forms at once": (
        {"scheduled_requests": {}, "num_decode_requests": 1, "sum_decode_kv_tokens": 1},
        "scheduled_requests",
    ),
    "one list of two": (
        scheduled(num_decode_requests=1, sum_decode_kv_tokens=1, extend_lengths=[1]),
        "scheduled_requests.past_kv_lengths",
    ),
    "empty text": ("", ""),
    "empty bytes": (b"", ""),
    "text that is not JSON": ("{wall_time", ""),
    "binary junk": (bytes(range(256)), ""),
    "half a record": ('{"wall_time": 0.1', ""),
    "two records": ("{} {}", ""),
    "a lone surrogate": ("\ud800", ""),
    "JSON of a number": ("5", ""),
    "infinity by overflow": ('{"wall_time": 1e400}', "wall_time"),
    "NaN in JSON": ('{"wall_time": NaN}', "wall_time"),
    "deep nesting": ("[" * 100_000, ""),
}

for _counter in COUNTERS:
    for _name, _value in {
        "negative": -1,
        "float": 3.0,
        "NaN": NAN,
        "infinite": INF,
        "text": "3",
        "boolean": True,
        "NumPy boolean": np.True_,
        "none": None,
        "beyond 2^53": 2**53 + 1,
        "the largest u64": 2**64 - 1,
        "beyond u64": 2**64,
        "beyond all bounds": 10**5000,
    }.items():
        _record = scheduled(**dict.fromkeys(COUNTERS, 1) | {_counter: _value})
        BAD_ITERATIONS[f"{_counter} {_name}"] = (_record, f"scheduled_requests.{_counter}")
    _text = json.dumps(scheduled(**dict.fromkeys(COUNTERS, 1) | {_counter: 0}))
    _text = _text.replace(f'"{_counter}": 0', f'"{_counter}": 1e400')
    BAD_ITERATIONS[f"{_counter} 1e400 in JSON"] = (_text, f"scheduled_requests.{_counter}")


@pytest.mark.parametrize(("bad", "path"), BAD_ITERATIONS.values(), ids=BAD_ITERATIONS)
def test_a_bad_iteration_is_refused_by_its_path(
    taught: fp.ForwardPassModel, bad: Any, path: str
) -> None:
    before = state_of(taught)
    for call in (taught.observe, taught.predict, taught.forecast):
        error = refused(fp.MetricsError, lambda call=call: call(bad))  # type: ignore[misc]
        assert error.path.startswith(path)
        assert path or not error.path.startswith("scheduled")
    error = refused(fp.MetricsError, lambda: taught.observe_batch([decode_step(1, 9), bad]))
    assert error.path.startswith(f"[1]{'.' if path and path[0] != '[' else ''}{path}")
    assert state_of(taught) == before


@pytest.mark.parametrize(
    "bad", [None, 5, 1.5, "{}", b"{}", object()], ids=lambda bad: type(bad).__name__
)
def test_a_batch_is_a_list_or_a_table(taught: fp.ForwardPassModel, bad: Any) -> None:
    before = state_of(taught)
    for call in (taught.observe_batch, taught.predict_batch):
        refused(fp.MetricsError, lambda call=call: call(bad))  # type: ignore[misc]
    assert state_of(taught) == before


@pytest.mark.parametrize(
    ("worker_type", "record"),
    [
        ("decode", scheduled(num_prefill_requests=1, sum_prefill_tokens=5)),
        ("prefill", decode_step(1, 10)),
    ],
)
def test_work_that_is_not_of_the_role_is_refused(worker_type: str, record: Any) -> None:
    model = fp.ForwardPassModel(worker_type=worker_type)
    assert refused(fp.MetricsError, lambda: model.observe(record)).code == "role_mismatch"


def test_the_largest_exact_counter_is_taken(taught: fp.ForwardPassModel) -> None:
    assert taught.predict(decode_step(1, 2**53)) is not None


@pytest.mark.parametrize(
    "error",
    [
        fp.ForepassError("what", "code", "where"),
        fp.ConfigError("a.b: what", "invalid_value", "a.b"),
        fp.MetricsError("[1].x: what", "invalid_field", "[1].x"),
        fp.TraceError("t.csv:7: what", "malformed", "t.csv:7"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_pickling(error: fp.ForepassError) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(error, protocol))
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert (again.message, again.code, again.path) == (error.message, error.code, error.path)


@pytest.mark.parametrize("envelope", ["metrics", "fpm", "event"])
def test_an_envelope_is_to_be_opened(taught: fp.ForwardPassModel, envelope: str) -> None:
    error = refused(fp.MetricsError, lambda: taught.predict({envelope: decode_step(1, 10)}))
    assert f"pass the record inside of `{envelope}`" in str(error)


def test_a_version_is_reported_as_given(taught: fp.ForwardPassModel) -> None:
    for version in (2, 2**32 + 1, 2**63):
        error = refused(fp.MetricsError, lambda v=version: taught.predict({"version": v}))  # type: ignore[misc]
        assert (error.code, error.path) == ("unsupported_version", "version")
        assert str(version) in str(error)


def test_an_interrupt_is_no_fault_of_the_record(taught: fp.ForwardPassModel) -> None:
    before = state_of(taught)
    for call in (taught.observe, taught.predict, taught.forecast):
        with pytest.raises(KeyboardInterrupt):
            call(Interrupting())
    with pytest.raises(KeyboardInterrupt):
        taught.observe_batch([decode_step(1, 10, 0.1), Interrupting()])
    assert state_of(taught) == before


def test_errors_are_value_errors(taught: fp.ForwardPassModel) -> None:
    with pytest.raises(ValueError, match="version"):
        taught.observe({"version": 3})
    with pytest.raises(fp.MetricsError) as caught:
        taught.observe({"version": 3})
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.code, again.path) == ("unsupported_version", "version")
