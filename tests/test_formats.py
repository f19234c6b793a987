"""Every format through every door: the same numbers, and for what is broken its name and place."""

from __future__ import annotations

import csv
import gzip
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forepass as fp
from conftest import Command
from steps import decode_step, refused, straight_line

Trace = Callable[..., Path]
DATA = Path(__file__).parent / "data"
EXPECTED: dict[str, dict[str, Any]] = json.loads((DATA / "expected.json").read_text())


def kinds_of(inspected: dict[str, Any]) -> dict[str, tuple[float, float, float]]:
    """Latency and features of each kind, of which each trace here has one row at most."""
    return {
        kind: tuple(found[what]["median"] for what in ("latency_ms", "attention", "ffn"))
        for kind, found in inspected["kinds"].items()
    }


def expected_kinds(name: str) -> dict[str, Any]:
    return {kind: pytest.approx(values) for kind, *values in EXPECTED[name]["steps"]}


@pytest.mark.parametrize("name", EXPECTED)
def test_every_format_gives_the_same_numbers(command: Command, tmp_path: Path, name: str) -> None:
    path, expected, target = DATA / name, EXPECTED[name], tmp_path / "predictions.csv"
    (looked,) = fp.inspect(path)["inputs"]
    assert (looked["format"], looked["rows"]) == (expected["format"], expected["rows"])
    assert (looked["skipped"], looked["idle"]) == (expected["skipped"], expected["idle"])
    assert kinds_of(looked) == expected_kinds(name)

    result = fp.replay(path, fits=["linear"], predictions=target, warmup=0, baselines=False)
    (source,) = result.inputs
    assert source.format == expected["format"]
    assert source.rows == result.stats("linear").rows + sum(source.skipped.values())
    with target.open(newline="") as lines:
        rows = [(row["kind"], float(row["observed_ms"])) for row in csv.DictReader(lines)]
    assert rows == [(kind, pytest.approx(ms)) for kind, ms, _, _ in expected["steps"]]

    run = command("inspect", path, "--json", "-")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["inputs"] == [looked]
    run = command("replay", path, "--warmup", 0, "--json", "-", "--predictions", target)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["inputs"] == result.to_dict()["inputs"]


@pytest.mark.parametrize("name", [name for name in EXPECTED if (DATA / name).is_file()])
def test_compression_changes_nothing(tmp_path: Path, name: str) -> None:
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress((DATA / name).read_bytes()))
    (plain,), (zipped,) = (fp.inspect(path)["inputs"] for path in (DATA / name, packed))
    text = json.dumps(plain).replace(str(DATA / name), str(packed))
    assert json.loads(text) == zipped


@pytest.mark.parametrize("name", ["vllm.log", "sglang.log", "trtllm.log"])
def test_what_a_log_lacks_is_said_once(command: Command, name: str) -> None:
    run = command("replay", DATA / name)
    assert run.stderr.count("are approximate") == 1


FLAT = (DATA / "flat.jsonl").read_text().splitlines()

# Of each format: a file, a text in it, what takes its place, and what is then told: the reason,
# how often, and the line.
BROKEN = {
    "a wrong unit of a log of vLLM": ("vllm.log", "9.00 ms", "9.00 us", "wrong_unit", 1, 4),
    "a field that a log of vLLM lacks": (
        "vllm.log", "3 generation requests, ", "", "missing_field", 1, 4,
    ),
    "a wrong unit of a log of TensorRT-LLM": (
        "trtllm.log", "host_step_time = 2.5ms, prev_device_step_time = 12.5ms",
        "host_step_time = 0.0025s, prev_device_step_time = 12.5ms", "wrong_unit", 1, 3,
    ),
    "a throughput of zero": ("sglang.log", "1000.00", "0.00", "malformed", 1, 3),
    "statistics without a latency": (
        "trtllm_stats.jsonl", 'LatencyMS": 18.0', 'Latency": 18.0', "", 0, 0,
    ),
    "statistics without any latency": (
        "trtllm_stats.jsonl",
        re.search(
            r'"iterLatencyMS": 18.*"gpuForwardTimeMS": 9.0, ',
            (DATA / "trtllm_stats.jsonl").read_text(),
        )[0],  # type: ignore[index]
        "", "missing_field", 1, 3,
    ),
    "statistics without KV tokens": (
        "trtllm_stats.jsonl", '"numGenKvTokens": 4096, ', "", "missing_field", 1, 3,
    ),
    "an entry of a list that is no number": (
        "trtllm_stats.json", '"numGenKvTokens": 4096', '"numGenKvTokens": "many"',
        "malformed", 1, 77,
    ),
    "a group without its rank 1": ("groups.json", '"dp_rank": 1, "counter_id": 3',
        '"dp_rank": 2, "counter_id": 3', "incomplete_iteration", 1, 3),
    "an iteration that is not complete": (
        "iterations.jsonl", '"complete": true, "max_rank_wall_time": 0.009',
        '"complete": false, "max_rank_wall_time": 0.009', "incomplete_iteration", 1, 3,
    ),
    "a phase that is none": ("records.csv", "m-2,decode", "m-2,mixed", "malformed", 1, 3),
    "milliseconds that are none": ("vllm.csv", "9.000", "9ms", "malformed", 1, 3),
    "a clock instead of a duration": ("trtllm.csv", "0.009,", "1782777600,",
        "implausible_duration", 1, 3),
    "a clock in an export": ("export.jsonl", '"wall_time": 0.009', '"wall_time": 1782777600',
        "implausible_duration", 1, 3),
    "a counter that comes twice": (
        "flat.jsonl", FLAT[2], FLAT[0], "duplicate_counter", 1, 3,
    ),
    "a float for a count": ("export.jsonl", '"num_decode_requests": 3',
        '"num_decode_requests": 3.0', "malformed", 1, 3),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN)
def test_what_is_broken_is_named_counted_and_placed(
    command: Command, tmp_path: Path, case: tuple[str, str, str, str, int, int]
) -> None:
    name, before, after, reason, count, line = case
    text = (DATA / name).read_text()
    assert text.count(before) == 1
    path = tmp_path / name
    path.write_text(text.replace(before, after))
    (source,) = fp.replay(path).inputs
    usual = {"idle", "no_positive_time", "no_device_time"}
    skipped = {why: found for why, found in source.skipped.items() if why not in usual}
    assert skipped == ({reason: count} if count else {})
    run = command("inspect", path)
    assert run.returncode == 0
    if count:
        assert f"{path}:{line}: " in run.stderr
        assert f"{count} {reason}" in run.stdout


@pytest.mark.parametrize(
    ("name", "before", "after", "code"),
    [
        ("vllm.csv", "latency_ms", "latency_s", "missing_column"),
        ("trtllm.csv", "wall_time_s", "wall_time_ms", "missing_column"),
        ("records.csv", "truth_latency_ms", "truth_latency", "missing_column"),
        ("benchmark.json", '"timing_valid": true', '"timing_valid": false', "invalid_timing"),
        ("benchmark.json", '"schema_version": 2', '"schema_version": 1', "unsupported_version"),
    ],
)
def test_a_file_that_is_broken_as_a_whole_is_refused(
    tmp_path: Path, name: str, before: str, after: str, code: str
) -> None:
    path = tmp_path / name
    path.write_text((DATA / name).read_text().replace(before, after))
    error = refused(fp.TraceError, lambda: fp.replay(path))
    assert error.code == code
    assert str(error).startswith(str(path))


LINES = [name for name in EXPECTED if re.search(r"\.(jsonl|csv|log)$", name)]


@pytest.mark.parametrize("name", LINES)
def test_a_cut_line_is_told(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    text = (DATA / name).read_text()
    path.write_text(text[: -len(text.splitlines()[-1]) // 2])
    (source,) = fp.inspect(path)["inputs"]
    assert source["skipped"].get("truncated") == 1
    line = len(text.splitlines())
    told = source["faults"] + source["warnings"]
    assert sum(text.startswith(f"{path}:{line}: ") for text in told) == 1


@pytest.mark.parametrize("name", [*LINES, "groups.json", "trtllm_stats.json"])
def test_a_damaged_member_does_not_end_a_trace(tmp_path: Path, name: str) -> None:
    content = (DATA / name).read_bytes()
    damaged = bytearray(gzip.compress(content))
    damaged[-8] ^= 1
    path = tmp_path / "damaged.gz"
    path.write_bytes(bytes(damaged) + gzip.compress(content))
    (whole,) = fp.inspect(DATA / name)["inputs"]
    (found,) = fp.inspect(path)["inputs"]
    # The second member repeats the first, whose records are then known where they have counters.
    assert found["rows"] >= 2 * whole["rows"] - 1
    assert found["skipped"].get("malformed") == whole["skipped"].get("malformed")
    known = found["skipped"].get("duplicate_counter", 0)
    assert found["iterations"] + known >= 2 * whole["iterations"] - 1
    assert any("goes on with the next gzip member" in text for text in found["warnings"])


def test_timing_scopes_are_learned_apart(trace: Trace) -> None:
    slow = [decode_step(n, 1000 * n, 7 * (0.010 + 0.001 * n)) for n in range(1, 13)]
    steps = [
        {**step, "worker_id": "w", "timing_scope": scope}
        for pair in zip(straight_line(), slow, strict=True)
        for scope, step in zip(("execute_model_cuda", "host"), pair, strict=True)
    ]
    path = trace(steps)
    result = fp.replay(path, warmup=6, by_worker=True)
    assert result.stats("linear").mape_pct == pytest.approx(0.0, abs=1e-9)
    assert list((result.results[0].by_worker or {})[str(path)]) == ["w"]
    assert "changes its timing scope" in result.inputs[0].warnings[0]
    (looked,) = fp.inspect(path, knots=True)["inputs"]
    assert looked["workers"]["w"]["timing_scopes"] == {"execute_model_cuda": 12, "host": 12}
    assert list(looked["knots"]) == ["w (execute_model_cuda)", "w (host)"]
    mixed = trace([[{**steps[0], "dp_rank": 0}, {**steps[1], "dp_rank": 1}], *steps], "m.jsonl")  # type: ignore[list-item]
    (source,) = fp.replay(mixed).inputs
    assert source.skipped == {"mixed_timing_scope": 1}
    assert source.faults[0].startswith(f"{mixed}:1: ")


def ranks_apart() -> list[dict[str, Any]]:
    """Two ranks whose records of one step stand on lines of their own."""
    return [
        decode_step(n, 1000 * n, 0.01 * n + 0.001 * rank, counter_id=n, dp_rank=rank, worker_id="w")
        for n in range(1, 5)
        for rank in (0, 1)
    ]


def test_ranks_are_joined_only_where_that_is_asked_for(command: Command, trace: Trace) -> None:
    path = trace(ranks_apart()[:-1])
    apart = fp.replay(path).inputs[0]
    assert (apart.rows, apart.iterations) == (7, 7)
    assert "not joined unless that is asked for" in apart.warnings[0]
    joined = fp.replay(path, join_ranks=2)
    assert (joined.inputs[0].rows, joined.inputs[0].iterations) == (4, 3)
    assert joined.inputs[0].skipped == {"incomplete_iteration": 1}
    assert joined.inputs[0].faults[0].startswith(f"{path}:7: ")
    (looked,) = fp.inspect(path, join_ranks=2)["inputs"]
    # The slowest rank counts: 11, 21 and 31 ms.
    spread = looked["kinds"]["pure_decode"]["latency_ms"]
    assert (spread["min"], spread["max"]) == (pytest.approx(11), pytest.approx(31))
    run = command("inspect", path, "--join-ranks", 2)
    assert "4 rows" in run.stdout
    for value in (1, True, "2", 2**20):
        error = refused(fp.ConfigError, lambda value=value: fp.inspect(path, join_ranks=value))  # type: ignore[misc]
        assert error.path == "join_ranks"


def test_a_directory_stands_for_its_traces(command: Command, tmp_path: Path) -> None:
    for segment in (DATA / "segments").iterdir():
        shutil.copy(segment, tmp_path)
        shutil.copy(segment, tmp_path / segment.name.replace("4192", "4193"))
    shutil.copy(DATA / "vllm.csv", tmp_path)
    (tmp_path / "notes.md").write_text("no trace")
    names = ["dynamo-fpm.4192.*.jsonl", "dynamo-fpm.4193.*.jsonl", "vllm.csv"]
    result = fp.replay(tmp_path)
    assert [source.path for source in result.inputs] == [str(tmp_path / name) for name in names]
    assert [len(source.files) for source in result.inputs] == [2, 2, 1]
    (one,) = fp.inspect(tmp_path / "*.4193.*")["inputs"]
    assert one["workers"]["7498763828496525645"]["producers"] == {"4192": 3}
    assert one["span"] == {"first_ms": 1782777601000, "last_ms": 1782777603000, "out_of_order": 0}
    for target in (tmp_path / "vllm.csv", tmp_path / "dynamo-fpm.4192.000001.jsonl"):
        for option in ("--json", "--predictions"):
            run = command("replay", tmp_path, option, target)
            assert (run.returncode, "cannot be written" in run.stderr) == (1, True)


def test_a_catalogue_is_followed_and_its_files_are_checked(tmp_path: Path) -> None:
    shutil.copytree(DATA / "gym", tmp_path / "gym")
    measured = tmp_path / "gym" / "measurements" / "a" / "records.csv"
    (source,) = fp.replay(tmp_path / "gym" / "catalog" / "index.json").inputs
    assert source.path == str(measured)
    measured.write_text(measured.read_text().replace("9.0", "9.5"))
    error = refused(fp.TraceError, lambda: fp.replay(tmp_path / "gym"))
    assert (error.code, error.path) == ("wrong_digest", str(measured))


def test_parquet_holds_the_same_rows(command: Command, tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    records, iterations = tmp_path / "records.parquet", tmp_path / "iterations.parquet"
    table = pl.read_csv(DATA / "records.csv").with_columns(layout=pl.lit("records"))
    table.write_parquet(records)
    lines = map(json.loads, (DATA / "iterations.jsonl").read_text().splitlines())
    ranks = [
        [
            {**rank, "extensions_json": None, "timing_scope": None}
            for rank in line["rank_measurements"]
        ]
        for line in lines
    ]
    rows = {"source_row": [0, 1, 2], "rank_measurements": ranks, "metadata_json": ["{}"] * 3}
    pl.DataFrame(rows, strict=False).write_parquet(iterations)
    for path, name in [(records, "records.csv"), (iterations, "iterations.jsonl")]:
        (looked,) = fp.inspect(path, knots=True)["inputs"]
        assert looked["format"] == f"{path.stem}_parquet"
        assert looked["files"] == [str(path)]
        assert kinds_of(looked) == expected_kinds(name)
        (source,) = fp.replay(path).inputs
        assert (source.path, source.format) == (str(path), f"{path.stem}_parquet")
        assert source.sha256 is not None
        run = command("replay", path)
        assert (run.returncode, f"{path}: " in run.stdout) == (0, True)
        error = refused(fp.TraceError, lambda path=path: fp.replay(path, trace_format="vllm_csv"))  # type: ignore[misc]
        assert error.code == "unknown_format"
    bad = table.with_columns(phase=pl.Series(["prefill", "none"]))
    bad.write_parquet(records)
    (source,) = fp.replay(records).inputs
    assert source.faults == (f"{records}:3: phase: `none` is not prefill or decode",)
    table.drop("phase").write_parquet(records)
    error = refused(fp.TraceError, lambda: fp.replay(records))
    assert (error.code, "`phase` missing" in str(error)) == ("missing_column", True)
    records.write_bytes(records.read_bytes()[:100])
    assert refused(fp.TraceError, lambda: fp.replay(records)).code == "unreadable"


def test_without_its_extra_a_parquet_file_says_what_to_install(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 and so on")
    code = (
        "import sys; sys.modules['polars'] = None\n"
        "from forepass.cli import main; sys.argv[1:] = ['replay', sys.argv[1]]; main()"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=False
    )
    assert (run.returncode, "Traceback" in run.stderr) == (1, False)
    assert "pip install 'forepass[io]'" in run.stderr


def test_the_gym_protocol_scores_by_time_and_the_end_apart(command: Command, trace: Trace) -> None:
    # Ten decodes of a straight line, written backwards: by their times, the line is known after
    # five and then exact; the last of them, which is of the last 30 %, lasts twice as long.
    steps = [{**step, "recv_ms": n} for n, step in enumerate(straight_line(10))]
    steps[-1]["wall_time"] = 0.040
    path = trace(steps[::-1])
    result = fp.replay(path, protocol="gym", baselines=False)
    stats = result.stats("linear")
    assert (stats.rows, stats.eligible, stats.answered) == (10, 10, 5)
    assert stats.mape_pct == pytest.approx(50 / 5)
    gym = result.results[0].gym
    assert gym is not None
    assert (gym["cases"], gym["macro_coverage_pct"]) == (1, 50.0)
    assert gym["macro_full_mape_pct"] == pytest.approx(10.0)
    assert gym["macro_suffix_mape_pct"] == pytest.approx(50 / 3)
    assert gym["suffix_by_input"][str(path)]["rows"] == 3
    document = json.loads(result.to_json())
    assert document["protocol"] == "gym"
    assert fp.ReplayResult.from_document(document).to_dict() == document
    # Without a time on each row, the order is that of the file.
    del steps[0]["recv_ms"]
    backwards = fp.replay(trace(steps[::-1], "b.jsonl"), protocol="gym", baselines=False)
    assert backwards.stats("linear").mape_pct != pytest.approx(10.0)
    # Cases weigh the same, whatever their length.
    both = fp.replay([path, trace(straight_line(60), "c.jsonl")], protocol="gym")
    assert both.results[0].gym["macro_full_mape_pct"] == pytest.approx(5.0)  # type: ignore[index]
    run = command("replay", path, "--protocol", "gym")
    assert "of the last 30 %" in run.stdout
    assert refused(fp.ConfigError, lambda: fp.replay(path, protocol="x")).path == "protocol"


def test_an_inspection_tells_what_cannot_be_learned(command: Command, trace: Trace) -> None:
    steps = [*straight_line(11), decode_step(12, 12_000, 3.0)]
    for counter, step in enumerate(steps):
        step |= {"counter_id": 2 * counter + 1, "publisher_id": 7, "worker_id": "w"}
    run = command("inspect", trace(steps))
    assert "1 latencies of more than ten medians, the greatest at " in run.stdout
    assert "cannot learn the costs of attention and ffn apart" in run.stdout
    header, _, row = run.stdout.splitlines()[-3:]
    cells = dict(zip(re.split(r"\s{2,}", header), re.split(r"\s{2,}", row), strict=True))
    assert cells["counter gaps"] == "11"
    assert cells["timing scopes"] == "none"
