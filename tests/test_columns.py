"""Columns: whatever holds the numbers, the answers are those of the records."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import forepass as fp
from steps import decode_step, refused, state_of, straight_line

MODEL = fp.ForwardPassModel()
MODEL.observe_batch(straight_line())
DTYPES = [f"{order}{kind}{size}" for order in "<>" for kind in "iu" for size in (1, 2, 4, 8)]
DTYPES += ["<f2", ">f4", "<f4", "<f8", ">f8"]


def by_record(requests: Any, kv_tokens: Any) -> list[float]:
    steps = zip(requests, kv_tokens, strict=True)
    answers = [MODEL.predict(decode_step(int(n), int(k))) for n, k in steps]
    return [float("nan") if ms is None else ms for ms in answers]


def by_column(requests: Any, kv_tokens: Any) -> Any:
    columns = {"num_decode_requests": requests, "sum_decode_kv_tokens": kv_tokens}
    predicted = MODEL.predict_batch(columns)
    assert predicted.dtype == np.float64
    assert predicted.shape == (len(requests),)
    return predicted


@settings(derandomize=True, deadline=None, max_examples=200)
@given(data=st.data())
def test_any_array_says_what_its_list_says(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    counts = st.integers(1, 100)
    buffer = data.draw(hnp.arrays(dtype, st.integers(0, 24), elements=counts, fill=st.nothing()))
    start = data.draw(st.integers(0, 3))
    step = data.draw(st.sampled_from([1, 2, 3, -1, -2]))
    view = buffer[start:][::step]
    view.flags.writeable = data.draw(st.booleans())
    kept = view.copy()
    expected = by_record(view, view)
    np.testing.assert_array_equal(by_column(view, view), expected)
    np.testing.assert_array_equal(by_column(view.tolist(), tuple(view.tolist())), expected)
    np.testing.assert_array_equal(view, kept)


def test_a_column_of_a_matrix_is_read_by_its_stride() -> None:
    matrix = np.arange(1, 41, dtype=np.int32).reshape(20, 2)
    expected = by_record(matrix[:, 0], matrix[:, 1])
    np.testing.assert_array_equal(by_column(matrix[:, 0], matrix[:, 1]), expected)
    unaligned = np.zeros(20, dtype=[("pad", "u1"), ("n", "<f8")])["n"]
    unaligned[:] = matrix[:, 0]
    np.testing.assert_array_equal(by_column(unaligned, unaligned), by_record(unaligned, unaligned))


def test_no_rows_have_no_answers() -> None:
    for none in ([], (), np.array([]), np.array([], dtype=np.int8), np.arange(5)[:0]):
        assert by_column(none, none).shape == (0,)
    assert MODEL.predict_batch({}).shape == (0,)
    assert MODEL.predict_batch([]).shape == (0,)
    taught = MODEL.copy()
    taught.observe_batch([])
    taught.observe_batch({})
    assert state_of(taught) == state_of(MODEL)


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_a_data_frame_is_a_table(library: str) -> None:
    frames = pytest.importorskip(library, reason=f"{library} is not installed")
    columns = {
        "worker_id": ["a", "b", "c"],
        "num_decode_requests": [1, 2, 3],
        "sum_decode_kv_tokens": [10, 20, 30],
        "var_decode_kv_tokens": [0.5, None, 0.5],
        "wall_time": [0.1, 0.2, 0.3],
    }
    frame = frames.DataFrame(columns)
    expected = by_record([1, 2, 3], [10, 20, 30])
    np.testing.assert_array_equal(MODEL.predict_batch(frame), expected)
    by_frame, by_mapping = MODEL.copy(), MODEL.copy()
    by_frame.observe_batch(frame)
    by_mapping.observe_batch(columns)
    assert state_of(by_frame) == state_of(by_mapping) != state_of(MODEL)


def test_an_absent_column_counts_as_zero_and_others_are_ignored() -> None:
    columns = {
        "num_prefill_requests": [1],
        "sum_prefill_tokens": [8],
        "counter_id": [2**64 - 1],
        "var_prefill_length": ["anything"],
        "dp_rank": None,
    }
    record = {"scheduled_requests": {"num_prefill_requests": 1, "sum_prefill_tokens": 8}}
    model = fp.ForwardPassModel()
    assert model.predict_batch(columns)[0] is not None
    assert model.predict(record) is None


COUNTS = [1, 2, 3]
BIG = 2**53 + 1
BAD_COLUMNS: dict[str, tuple[Any, str]] = {
    "booleans": ([True, False, True], "[0]"),
    "an array of booleans": (np.array([True, False, True]), ""),
    "a boolean among integers": ([1, True, 3], "[1]"),
    "objects": (np.array([1, 2, 3], dtype=object), ""),
    "nothing among integers": ([1, None, 3], ""),
    "text": (["1", "2", "3"], ""),
    "an array of text": (np.array(["1", "2", "3"]), ""),
    "one text": ("123", ""),
    "bytes": (b"123", ""),
    "complex numbers": ([1j, 2, 3], ""),
    "dates": (np.array(["2026-11-30"] * 3, dtype="datetime64[D]"), ""),
    "durations": (np.arange(3, dtype="timedelta64[s]"), ""),
    "more than 64 bits": (np.arange(1, 4, dtype=np.longdouble), ""),
    "a scalar": (3, ""),
    "none": (None, ""),
    "two dimensions": (np.ones((3, 1), dtype=np.int64), ""),
    "ragged lists": ([[1], [2, 3], 4], ""),
    "masked": (np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]), ""),
    "another length": ([1, 2], ""),
    "negative": ([1, -2, 3], "[1]"),
    "a fraction": ([1, 2, 2.5], "[2]"),
    "NaN": ([1, float("nan"), 3], "[1]"),
    "infinite": (np.array([1, 2, np.inf], dtype=np.float32), "[2]"),
    "beyond 2^53": ([1, 2, BIG], "[2]"),
    "beyond 2^53 as int64": (np.array([1, BIG, 3], dtype=np.int64), "[1]"),
    "beyond 2^53 as uint64": (np.array([1, 2, 2**64 - 1], dtype=np.uint64), "[2]"),
    "beyond 2^53 among floats": ([1.0, BIG, 3.0], "[1]"),
    "beyond 2^53 as float": ([1, 2, 2.0**54], "[2]"),
    "beyond u64": ([1, 2, 2**64], "[2]"),
    "beyond all bounds": ([1, 2, 10**5000], "[2]"),
}


@pytest.mark.parametrize(("bad", "place"), BAD_COLUMNS.values(), ids=BAD_COLUMNS)
def test_a_bad_column_is_refused_by_its_name_and_row(bad: Any, place: str) -> None:
    model = MODEL.copy()
    before = state_of(model)
    columns = {"num_decode_requests": COUNTS, "sum_decode_kv_tokens": bad, "wall_time": COUNTS}
    for call in (model.predict_batch, model.observe_batch):
        error = refused(fp.MetricsError, lambda call=call: call(columns))  # type: ignore[misc]
        assert error.path == f"sum_decode_kv_tokens{place}"
        assert len(str(error)) < 6000
    assert state_of(model) == before


@pytest.mark.parametrize(
    ("columns", "path"),
    [
        ({"num_decode_request": COUNTS}, "num_decode_request"),
        ({"version": COUNTS}, "version"),
        ({5: COUNTS}, "5"),
        (decode_step(1, 10, 0.1), "scheduled_requests"),
        ({"num_decode_requests": COUNTS}, "sum_decode_kv_tokens"),
        ({"num_prefill_requests": COUNTS, "wall_time": COUNTS}, "sum_prefill_tokens"),
    ],
    ids=str,
)
def test_a_table_without_sense_is_refused(columns: Any, path: str) -> None:
    error = refused(fp.MetricsError, lambda: MODEL.predict_batch(columns))
    assert error.path == path


@pytest.mark.parametrize(
    "carried", [["a", "b"], [], ("a",) * 4, np.arange(2), np.array(3), "abc", 5], ids=repr
)
def test_a_carried_column_has_as_many_rows(carried: Any) -> None:
    columns = {"num_decode_requests": COUNTS, "sum_decode_kv_tokens": COUNTS, "worker_id": carried}
    for call in (MODEL.copy().observe_batch, MODEL.predict_batch):
        error = refused(fp.MetricsError, lambda call=call: call(columns))  # type: ignore[misc]
        assert error.path == "worker_id"
        assert str(error).startswith("worker_id: ")


def test_times_need_not_be_whole_numbers() -> None:
    model = MODEL.copy()
    columns = {"num_decode_requests": [1, 2], "sum_decode_kv_tokens": [5, 6]}
    model.observe_batch({**columns, "wall_time": np.array([np.nan, 0.5], dtype=np.float32)})
    counts = model.diagnostics()
    assert counts["rejected_observations"]["non_finite_time"] == 1
    assert counts["accepted_observations"] == 13
