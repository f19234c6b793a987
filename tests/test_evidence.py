"""The evidence has what it needs to be made again, and what differs from it is told."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import verify
from accuracy import ACCURACY
from evidence_file import name_of
from steps import ROOT, TRACES, needs_recordings

FILES = sorted((ROOT / "benchmarks" / "evidence").glob("*.json"))
KINDS = (*verify.MEASURED_ANEW, *verify.TIMINGS)
SMALL = TRACES / "b300" / "dsv4-flash_tp1.csv.gz"
CASE = "results[linear].by_recording[b300/dsv4-flash_tp1.csv.gz]"


@pytest.fixture
def document() -> dict[str, Any]:
    return ACCURACY.committed()


def small_case(document: dict[str, Any]) -> dict[str, Any]:
    """What the line came to on the smallest recording."""
    (line,) = (result for result in document["results"] if result["fit"] == "linear")
    (case,) = (case for case in line["by_recording"] if case["recording"] == name_of(SMALL))
    return dict(case)


def with_case(document: dict[str, Any], case: dict[str, Any] | None) -> dict[str, Any]:
    """The document with this in the place of that case, or nothing."""
    changed = copy.deepcopy(document)
    (line,) = (result for result in changed["results"] if result["fit"] == "linear")
    others = [other for other in line["by_recording"] if other["recording"] != name_of(SMALL)]
    line["by_recording"] = others + ([] if case is None else [case])
    return changed


def lists_of_cases(value: Any) -> Iterator[list[dict[str, Any]]]:
    if isinstance(value, dict):
        for key, member in value.items():
            if key == "by_recording":
                yield member
            else:
                yield from lists_of_cases(member)
    elif isinstance(value, list):
        for member in value:
            yield from lists_of_cases(member)


def test_every_file_is_verified_in_one_way_or_the_other() -> None:
    assert sorted(kind.path for kind in KINDS) == FILES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_file_tells_where_its_numbers_come_from(file: Path) -> None:
    document = json.loads(file.read_text(encoding="utf-8"))
    assert verify.faults_of_form(document) == []
    assert document["schema"] == f"forepass.{file.stem}.v1"
    target = document["command"].removeprefix("make ")
    assert f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
    for field in ("commit", "clean_tree", "machine"):
        without = {key: value for key, value in document.items() if key != field}
        (fault,) = verify.faults_of_form(without)
        assert fault.startswith(f"{field}: expected ")
    del document["machine"]["rustc"]
    del document["inputs"][0]["sha256"]
    assert verify.faults_of_form(document) == [
        "machine.rustc: expected str, found None",
        "inputs[0].sha256: expected str, found None",
    ]


@pytest.mark.parametrize("kind", verify.MEASURED_ANEW, ids=lambda kind: kind.name)
def test_cases_stand_worst_first(kind: verify.Evidence) -> None:
    lists = list(lists_of_cases(kind.committed()))
    assert lists
    for cases in lists:
        if "mape_pct" in cases[0]:
            worst = [case["mape_pct"] or 0.0 for case in cases]
        else:
            zones = [[case[zone] or {} for zone in ("inside", "edge", "beyond")] for case in cases]
            worst = [max(zone.get("median_ape_pct") or 0.0 for zone in case) for case in zones]
        assert worst == sorted(worst, reverse=True)


def test_a_document_is_the_same_as_itself_in_any_order(document: dict[str, Any]) -> None:
    assert verify.differences(document, document) == []
    assert verify.differences(document, with_case(document, small_case(document))) == []


def test_a_changed_number_is_told_with_its_path(document: dict[str, Any]) -> None:
    case = small_case(document)
    changed = {**case, "mape_pct": case["mape_pct"] * (1 + 2e-6)}
    expected = f"{CASE}.mape_pct: {case['mape_pct']!r} is committed, {changed['mape_pct']!r} found"
    assert verify.differences(document, with_case(document, changed)) == [expected]
    # The last bits of a logarithm may differ between platforms; a count may not.
    rounded = {**case, "mape_pct": case["mape_pct"] * (1 + 1e-9)}
    assert verify.differences(document, with_case(document, rounded)) == []
    recounted = {**case, "rows": case["rows"] + 1}
    assert verify.differences(document, with_case(document, recounted)) == [
        f"{CASE}.rows: {case['rows']} is committed, {case['rows'] + 1} found"
    ]
    unknown = {**case, "mape_pct": None}
    assert len(verify.differences(document, with_case(document, unknown))) == 1


def test_a_case_that_is_gone_or_new_is_told_with_its_path(document: dict[str, Any]) -> None:
    fewer = with_case(document, None)
    gone = verify.differences(document, fewer)
    assert f"{CASE}.mape_pct: committed, and not found" in gone
    assert len(gone) == len(small_case(document))
    assert f"{CASE}.mape_pct: found, and not committed" in verify.differences(fewer, document)


def test_only_recordings_at_hand_are_compared(document: dict[str, Any]) -> None:
    fewer = with_case(document, None)
    fewer["results"][0]["macro"]["macro_mape_pct"] = 0.0
    others = ["b300/qwen3-32b_tp1.csv.gz"]
    assert verify.differences(document, fewer, others) == []
    assert len(verify.differences(document, fewer, [name_of(SMALL)])) == len(small_case(document))


def test_an_input_that_has_changed_is_told_and_a_missing_one_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "b300" / "a.csv.gz"
    file.parent.mkdir()
    file.write_bytes(b"abc")
    # FIPS 180-2, the example of one block.
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    entry = {"name": "b300/a.csv.gz", "sha256": digest}
    assert verify.judged([entry], [file]) == ([file], [])
    file.write_bytes(b"abd")
    unchanged, told = verify.judged([entry], [file])
    assert unchanged == []
    assert len(told) == 1
    assert told[0].startswith(f"inputs[b300/a.csv.gz].sha256: {digest} is committed, ")
    capsys.readouterr()
    assert verify.judged([entry], []) == ([], [])
    assert "left out: b300/a.csv.gz" in capsys.readouterr().out


@pytest.mark.skipif(not SMALL.exists(), reason=f"no recordings in {TRACES}")
def test_a_small_recording_gives_what_is_committed(document: dict[str, Any]) -> None:
    found = ACCURACY.measure([SMALL])
    assert verify.differences(document, found, [name_of(SMALL)]) == []
    assert any(path.startswith(CASE) for path, _ in verify.leaves(found))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The benchmarks and the README, where writing does no harm."""
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks")
    shutil.copy(ROOT / "README.md", tmp_path)
    return tmp_path


def run(clone: Path, script: str, traces: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, f"benchmarks/{script}.py", *options],
        cwd=clone,
        env={**os.environ, "FOREPASS_TRACES": str(traces)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def written(clone: Path) -> dict[str, bytes]:
    files = [*(clone / "benchmarks" / "evidence").iterdir(), clone / "README.md"]
    return {file.name: file.read_bytes() for file in files}


def test_without_recordings_their_evidence_is_left_alone(clone: Path) -> None:
    before, empty = written(clone), clone / "nothing"
    for script in ("accuracy", "choices", "holdout"):
        outcome = run(clone, script, empty, "--write")
        assert outcome.returncode == 0, outcome.stderr
        left = f"benchmarks/evidence/{script}.json is left as it is: not at hand: b300/"
        assert outcome.stdout.startswith(left)
    assert run(clone, "readme", empty).returncode == 0
    assert written(clone) == before


@needs_recordings
def test_with_fewer_recordings_evidence_of_more_is_left_alone(clone: Path) -> None:
    before = written(clone)
    (clone / "traces" / "b300").mkdir(parents=True)
    (clone / "traces" / "b300" / SMALL.name).symlink_to(SMALL)
    outcome = run(clone, "accuracy", clone / "traces", "--write")
    assert outcome.returncode == 0, outcome.stderr
    assert "cpu/moe.jsonl.gz" in outcome.stdout
    assert name_of(SMALL) not in outcome.stdout
    assert written(clone) == before


def test_verifying_without_recordings_says_so_and_still_checks_the_form(clone: Path) -> None:
    outcome = run(clone, "verify", clone / "nothing")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "not at hand, and left out: b300/dsv4-flash_tp1.csv.gz" in outcome.stdout
    assert "speed.json: timings, of which only the form is checked" in outcome.stdout
    for name in ("accuracy", "speed"):
        file = clone / "benchmarks" / "evidence" / f"{name}.json"
        document = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps({**document, "commit": None}), encoding="utf-8")
    outcome = run(clone, "verify", clone / "nothing")
    assert outcome.returncode == 1, outcome.stdout + outcome.stderr
    assert "accuracy.json: commit: expected str, found None\n" in outcome.stdout
    assert "\nspeed.json: commit: expected str, found None\n" in outcome.stdout


@needs_recordings
def test_verifying_a_changed_case_fails_with_its_path(
    clone: Path, document: dict[str, Any]
) -> None:
    (clone / "traces" / "b300").mkdir(parents=True)
    (clone / "traces" / "b300" / SMALL.name).symlink_to(SMALL)
    assert run(clone, "verify", clone / "traces").returncode == 0
    changed = with_case(document, {**small_case(document), "mape_pct": 1.0})
    file = clone / "benchmarks" / "evidence" / "accuracy.json"
    file.write_text(json.dumps(changed), encoding="utf-8")
    outcome = run(clone, "verify", clone / "traces")
    assert outcome.returncode == 1, outcome.stdout + outcome.stderr
    assert f"accuracy.json: {CASE}.mape_pct: 1.0 is committed, " in outcome.stdout
