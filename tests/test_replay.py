"""Replays: numbers that follow by hand, nothing unaccounted for, the same bytes every time."""

from __future__ import annotations

import _thread
import csv
import gzip
import hashlib
import json
import math
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

import forepass as fp
from steps import decode_step, needs_recordings, recordings, refused, straight_line

Trace = Callable[..., Path]
PREDICTION_COLUMNS = "input,row,worker_id,kind,fit,observed_ms,predicted_ms,source,reason".split(
    ","
)


def without_times(text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text)
    for result in document["results"]:
        assert result.pop("cpu_us_per_row") >= 0
    return document


def test_statistics_follow_by_hand(trace: Trace) -> None:
    # Six steps of a straight line, 10 ms + 1 ms a request; from then on the line answers exactly,
    # and the steps last 25 %, -20 % and 0 % longer than it says. A learned step moves the line,
    # so each of the three comes to a worker of its own.
    line = straight_line(6)
    records = []
    for worker, factor in [("a", 1.25), ("b", 0.8), ("c", 1.0)]:
        records += [{**step, "worker_id": worker} for step in line]
        records.append(decode_step(10, 10_000, 0.020 * factor, worker_id=worker))
    result = fp.replay(trace(records), warmup=6)
    stats = result.stats("linear")
    assert (stats.rows, stats.eligible, stats.answered) == (21, 3, 3)
    assert stats.coverage_pct == 100.0
    # 20 ms predicted; 25, 16 and 20 ms observed: -20 %, +25 %, 0 %.
    assert stats.mape_pct == pytest.approx(15.0)
    assert stats.median_ape_pct == pytest.approx(20.0)
    assert stats.p90_ape_pct == pytest.approx(20 + 0.8 * 5)
    assert stats.p99_ape_pct == pytest.approx(20 + 0.98 * 5)
    assert stats.bias_pct == pytest.approx(5 / 3)
    assert result.stats("linear", kind="pure_decode") == stats
    assert result.stats("linear", input=result.inputs[0].path) == stats
    # The last latency was 16 ms each time.
    last = result.stats("last")
    assert last.bias_pct == pytest.approx(100 * (16 / 25 + 16 / 16 + 16 / 20 - 3) / 3)
    # The median of 11 to 16 is 13.5.
    assert result.stats("median").mape_pct == pytest.approx(
        100 * ((1 - 13.5 / 25) + (1 - 13.5 / 16) + (1 - 13.5 / 20)) / 3
    )


def test_abstentions_cost_coverage_not_accuracy(trace: Trace) -> None:
    constant = [decode_step(4, 4000, 0.014) for _ in range(10)]
    stats = fp.replay(trace(constant), warmup=5).stats("linear")
    assert (stats.eligible, stats.answered, stats.coverage_pct) == (5, 0, 0.0)
    assert stats.mape_pct is None


def test_each_worker_has_its_own_model(trace: Trace) -> None:
    steps = [
        {**decode_step(n, 1000 * n, factor * (0.010 + 0.001 * n)), "worker_id": worker}
        for n in range(1, 13)
        for worker, factor in [("slow", 7.0), ("fast", 1.0)]
    ]
    result = fp.replay(trace(steps), warmup=6, by_worker=True)
    (path,) = (source.path for source in result.inputs)
    by_worker = result.results[0].by_worker
    assert by_worker is not None
    assert set(by_worker[path]) == {"slow", "fast"}
    for stats in by_worker[path].values():
        assert stats.rows == 12
        assert stats.mape_pct == pytest.approx(0.0, abs=1e-9)
    assert "by worker" in str(result)
    assert fp.replay(trace(steps)).results[0].by_worker is None


@pytest.mark.parametrize("unnamed_first", [True, False])
def test_records_without_a_worker_beside_named_ones_are_left_out(
    trace: Trace, tmp_path: Path, *, unnamed_first: bool
) -> None:
    named = [step | {"worker_id": "a"} for step in straight_line()]
    groups = [straight_line(5), named] if unnamed_first else [named, straight_line(5)]
    predictions = tmp_path / "predictions.csv"
    path = trace([step for group in groups for step in group])
    result = fp.replay(path, warmup=0, by_worker=True, predictions=predictions)
    assert result.inputs[0].skipped == {"no_worker_id": 5}
    assert result.stats("linear").rows == len(named)
    lines = predictions.read_text().splitlines()[1:]
    assert {line.split(",")[2] for line in lines} == {"a"}
    assert len(lines) == 4 * len(named)


def test_the_document_has_its_schema(trace: Trace) -> None:
    path = trace([*straight_line(), {"wall_time": 0.0}])
    document = json.loads(fp.replay(path, warmup=3).to_json())
    assert list(document) == ["schema", "forepass_version", "warmup", "inputs", "results"]
    assert document["schema"] == "forepass.replay.v1"
    assert document["forepass_version"] == fp.__version__
    assert document["warmup"] == 3
    (source,) = document["inputs"]
    assert source["path"] == str(path)
    assert source["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (source["format"], source["rows"], source["skipped"]) == ("fpm_jsonl", 13, {"idle": 1})
    fits = [result["fit"] for result in document["results"]]
    assert fits == ["linear", "auto", "last", "median"]
    linear = document["results"][0]
    assert linear["config"]["worker_type"] == "aggregated"
    assert "by_worker" not in linear
    assert set(linear["overall"]) == set(fp.Stats.__dataclass_fields__)
    assert fp.ReplayResult.from_document(document).to_dict() == document


def test_results_are_frozen_and_travel(trace: Trace) -> None:
    result = fp.replay(trace(straight_line()))
    assert pickle.loads(pickle.dumps(result)) == result
    with pytest.raises(FrozenInstanceError):
        result.warmup = 1  # type: ignore[misc]
    for call in (
        lambda: result.stats("cubic"),
        lambda: result.stats("linear", kind="pure_prefill"),
        lambda: result.stats("linear", input="elsewhere"),
        lambda: result.stats("linear", kind="pure_decode", input=result.inputs[0].path),
    ):
        refused(fp.ForepassError, call)


def test_contenders_are_named_fits_and_configurations(trace: Trace, tmp_path: Path) -> None:
    path = trace(straight_line(40))
    small = {"fpm_regression": {"sampling": {"max_observations": 8}, "min_observations": 8}}
    config = fp.ForwardPassPerfModelConfig.for_worker("decode", small)
    (tmp_path / "small.json").write_text(config.to_json())
    result = fp.replay(
        path, ["linear", ("small", config), ("same", str(tmp_path / "small.json"))], warmup=6
    )
    names = [fit.fit for fit in result.results]
    assert names == ["linear", "small", "same", "last", "median"]
    assert result.stats("small").answered == 32
    assert result.stats("small") == result.stats("same") != result.stats("linear")
    alone = fp.replay(path, ("small", config), baselines=False)
    assert [fit.fit for fit in alone.results] == ["small"]
    prefill = fp.ForwardPassPerfModelConfig.for_worker("prefill", {})
    assert fp.replay(path, ("other", prefill), warmup=6).stats("other").coverage_pct == 0.0


def test_predictions_are_written_row_by_row(trace: Trace, tmp_path: Path) -> None:
    path = trace([{"wall_time": 0.0}, *straight_line(8)])
    target = tmp_path / "predictions.csv"
    result = fp.replay(path, "linear", predictions=target, baselines=False)
    with target.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == PREDICTION_COLUMNS
    assert [int(row["row"]) for row in rows] == list(range(1, 9))
    assert [row["predicted_ms"] == "" for row in rows] == [True] * 5 + [False] * 3
    assert {row["reason"] for row in rows[:5]} == {"cold"}
    assert float(rows[-1]["predicted_ms"]) == pytest.approx(18.0)
    assert float(rows[-1]["observed_ms"]) == pytest.approx(18.0)
    assert result.stats("linear").rows == len(rows)


def test_the_same_bytes_come_out_every_time(trace: Trace, tmp_path: Path) -> None:
    paths = [fp.sample_path(), trace(straight_line(), "b.jsonl"), *recordings()[:3]]
    outcomes = []
    for threads in (1, 1, 4):
        target = tmp_path / "predictions.csv"
        result = fp.replay(paths, predictions=target, threads=threads, by_worker=True)
        outcomes.append((without_times(result.to_json()), target.read_bytes()))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert [source["path"] for source in outcomes[0][0]["inputs"]] == list(map(str, paths))


def test_the_bundled_recording_shows_every_kind_of_work() -> None:
    result = fp.replay()
    kinds = {kind: stats.rows for kind, stats in result.results[0].by_kind.items()}
    assert set(kinds) == {"contains_locally_mixed", "pure_decode", "pure_prefill"}
    assert min(kinds.values()) > 64
    assert result.inputs[0].path == str(fp.sample_path())
    assert result.inputs[0].faults == result.inputs[0].warnings == ()
    assert result.stats("linear").coverage_pct == 100.0


@needs_recordings
@pytest.mark.parametrize("path", recordings(), ids=lambda path: path.name)
def test_every_row_of_a_recording_is_accounted_for(path: Path) -> None:
    result = fp.replay(path)
    (source,) = result.inputs
    found = result.results[0]
    assert source.rows > 200
    assert source.rows == found.by_input[source.path].rows + sum(source.skipped.values())
    assert found.overall.rows == sum(stats.rows for stats in found.by_kind.values())
    assert found.overall == found.by_input[source.path]
    assert math.isfinite(found.overall.mape_pct or math.inf)
    looked = fp.inspect(path)["inputs"][0]
    assert looked["rows"] == source.rows
    assert sum(kind["rows"] for kind in looked["kinds"].values()) == found.overall.rows


def test_progress_is_told_up_to_the_last_byte(trace: Trace) -> None:
    told: list[tuple[int, int]] = []
    path = trace(straight_line(200))
    fp.replay(path, progress=lambda read, total: told.append((read, total)))
    size = path.stat().st_size
    assert told[-1] == (size, size)
    assert sorted(told) == told


@pytest.fixture
def long_trace(tmp_path: Path) -> Path:
    path = tmp_path / "long.jsonl.gz"
    lines = gzip.decompress(fp.sample_path().read_bytes())
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(150):
            file.write(lines)
    return path


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Python handles SIGINT, which a shell turns off for what it runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_stops_a_replay(long_trace: Path) -> None:
    def interrupt(read: int, _total: int) -> None:
        if read:
            _thread.interrupt_main()

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        fp.replay(long_trace, progress=interrupt)
    assert time.monotonic() - start < 1.0


def test_a_failing_progress_callback_stops_a_replay(long_trace: Path) -> None:
    def fail(_read: int, _total: int) -> None:
        message = "enough"
        raise RuntimeError(message)

    with pytest.raises(RuntimeError, match="enough"):
        fp.replay(long_trace, progress=fail)


GZIPPED = gzip.compress(b"".join(json.dumps(step).encode() + b"\n" for step in straight_line()))
BAD_CONTENTS = {
    "empty": b"",
    "blank": b"\n\n\n",
    "junk": bytes(range(256)) * 20,
    "null bytes": bytes(4096),
    "prose": b"Once upon a time\nthere was a file\n",
    "JSON of another kind": b'{"hello": 1}\n' * 5,
    "CSV of another kind": b"a,b,c\n1,2,3\n",
    "compressed junk": gzip.compress(bytes(range(256)) * 20),
    "a gzip header": GZIPPED[:12],
}


@pytest.mark.parametrize("content", BAD_CONTENTS.values(), ids=BAD_CONTENTS)
@pytest.mark.parametrize("call", [fp.replay, fp.inspect])
def test_a_file_that_is_no_trace_is_refused_by_its_name(
    call: Callable[[Path], object], content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    error = refused(fp.TraceError, lambda: call(path))
    assert error.path.startswith(str(path))
    assert str(error).startswith(str(path))


@pytest.mark.parametrize(
    ("paths", "place"),
    [
        ("absent.jsonl", "absent.jsonl"),
        (["absent.jsonl"], "absent.jsonl"),
        (Path(), "."),
        ("", ""),
        ("a\0b", "a\0b"),
        ("\udcff", '"\\xFF"'),
        ([], "paths"),
        (5, "paths"),
        ([5], "paths"),
        (b"trace.jsonl", "paths"),
        ([b"trace.jsonl"], "paths"),
        (["twice", "twice"], "twice"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("call", [fp.replay, fp.inspect])
def test_what_names_no_file_is_refused(
    call: Callable[[Any], object], paths: Any, place: str
) -> None:
    assert refused(fp.TraceError, lambda: call(paths)).path == place


def test_a_trace_that_breaks_off_is_read_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(fp.sample_path().read_bytes()[:5000])
    (source,) = fp.replay(path).inputs
    assert source.iterations > 50
    assert source.skipped["truncated"] == 1
    assert sum("break off" in text for text in [*source.faults, *source.warnings]) == 1


def test_a_bad_line_is_counted_or_with_strict_refused(trace: Trace) -> None:
    path = trace([*straight_line(3), {**decode_step(1, 10, 0.1), "version": 2}, *straight_line(2)])
    (source,) = fp.replay(path).inputs
    assert (source.rows, source.iterations) == (6, 5)
    assert source.skipped == {"unsupported_version": 1}
    assert source.faults[0].startswith(f"{path}:4: ")
    for call in (fp.replay, fp.inspect):
        error = refused(fp.TraceError, lambda call=call: call(path, strict=True))  # type: ignore[misc]
        assert (error.code, error.path) == ("unsupported_version", f"{path}:4")


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"warmup": -1}, "warmup"),
        ({"warmup": 2**64}, "warmup"),
        ({"warmup": 1.5}, "warmup"),
        ({"threads": 0}, "threads"),
        ({"threads": True}, "threads"),
        ({"trace_format": "parquet"}, "trace_format"),
        ({"fits": "cubic"}, "fit"),
        ({"fits": ["linear", "linear"]}, "fits[1]"),
        ({"fits": [("last", fp.ForwardPassPerfModelConfig.for_worker("decode", {}))]}, "fits[0]"),
        ({"fits": ["linear", 5]}, "fits[1]"),
        ({"fits": [("mine", "absent.json")]}, "absent.json"),
        ({"fits": [("mine", 5)]}, ""),
    ],
    ids=str,
)
def test_a_bad_option_is_refused_by_its_name(options: dict[str, Any], place: str) -> None:
    assert refused(fp.ConfigError, lambda: fp.replay(**options)).path == place


def test_predictions_do_not_overwrite_a_trace(trace: Trace, tmp_path: Path) -> None:
    path = trace(straight_line())
    before = path.read_bytes()
    for target in (path, tmp_path, tmp_path / "absent" / "x.csv", "a\0b", 5):
        error = refused(
            fp.ForepassError,
            lambda target=target: fp.replay(path, predictions=target),  # type: ignore[misc]
        )
        assert (error.code, error.path) == ("unwritable", str(target))
    assert path.read_bytes() == before
