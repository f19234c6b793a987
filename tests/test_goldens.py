"""The product gives the frozen numbers, a changed one is told, and only the script changes them."""

from __future__ import annotations

import copy
import json
import math
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pin
from cases import Case, cases

ENTRIES = {entry["key"]: entry for entry in pin.read()}
CASES = {case.key: case for case in cases()}

Pin = Callable[..., int]


def test_everything_that_is_computed_is_frozen() -> None:
    assert list(ENTRIES) == list(CASES), "run `make goldens`"


@pytest.mark.parametrize("key", ENTRIES)
def test_the_product_gives_the_frozen_numbers(key: str) -> None:
    told = pin.changes(ENTRIES[key], CASES[key])
    assert not told, "\n".join(told[:5])


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all numbers in a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for name, found in inner:
        if isinstance(found, dict | list):
            yield from leaves(found, (*path, name))
        elif isinstance(found, int | float) and not isinstance(found, bool):
            yield (*path, name)


@pytest.mark.parametrize("fit", ["linear", "spline", "auto"])
def test_every_single_frozen_number_bites(fit: str) -> None:
    frozen = ENTRIES[f"prefill-kink/{fit}"]["value"]
    paths = list(leaves(frozen))
    assert len(paths) > 30
    for path in paths:
        changed = copy.deepcopy(frozen)
        holder = changed
        for name in path[:-1]:
            holder = holder[name]
        number = holder[path[-1]]
        holder[path[-1]] = (
            number + 1 if isinstance(number, int) else math.nextafter(number, math.inf)
        )
        (told,) = pin.differences(changed, frozen, 0.0)
        assert told.startswith(f"{path[0]}"), told
        assert str(path[-1]) in told.split(": ")[0]


def test_a_perturbed_number_is_told_with_its_key() -> None:
    entry = copy.deepcopy(ENTRIES["decode-line/linear"])
    entry["value"]["w"]["state"]["stores"]["pure_decode"]["linear"]["prices"][0] *= 1 + 1e-6
    (told,) = pin.changes(entry, CASES["decode-line/linear"])
    at = "decode-line/linear: w.state.stores.pure_decode.linear.prices[0]: frozen as "
    assert told.startswith(at)


def test_what_comes_in_addition_is_no_change_and_what_goes_is() -> None:
    assert list(pin.differences({"a": 1.0}, {"a": 1.0, "b": 2}, 0.0)) == []
    assert list(pin.differences({"a": 1.0, "b": 2}, {"a": 1.0}, 0.0)) == [
        "b: frozen as 2, now absent"
    ]
    assert list(pin.differences([1.0], [1.0, 2.0], 0.0)) == [": frozen as [1.0], now [1.0, 2.0]"]
    assert list(pin.differences({"a": 1}, {"a": 1.0}, 0.0)) == ["a: frozen as 1, now 1.0"]
    assert list(pin.differences({"a": None}, {"a": 1.0}, 0.0)) == ["a: frozen as None, now 1.0"]


def test_bits_count_on_the_platform_that_froze_them_and_digits_elsewhere() -> None:
    here = {"provenance": {"platform": sysconfig.get_platform()}}
    there = {"provenance": {"platform": "other"}}
    assert (pin.tolerance_of(here), pin.tolerance_of(there)) == (0.0, 1e-9)
    close = 1.0 + 1e-10
    assert len(list(pin.differences(1.0, close, pin.tolerance_of(here)))) == 1
    assert list(pin.differences(1.0, close, pin.tolerance_of(there))) == []
    assert len(list(pin.differences(1.0, 1.0 + 1e-8, pin.tolerance_of(there)))) == 1


@pytest.fixture
def goldens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Pin]:
    """A file with `a` frozen as 1.5, and the script for what is computed now."""
    path = tmp_path / "pinned.json"

    def run(computed: dict[str, float], *arguments: str) -> int:
        found = [
            Case(key, "by hand", b"input", lambda ms=ms: {"ms": ms}) for key, ms in computed.items()
        ]
        monkeypatch.setattr(pin, "cases", lambda: found)
        return pin.main(arguments, path)

    assert run({"a": 1.5}) == 0
    return path, run


def frozen(path: Path) -> dict[str, float]:
    entries = json.loads(path.read_text())["entries"]
    return {entry["key"]: entry["value"]["ms"] for entry in entries}


def test_a_run_without_a_change_writes_nothing(goldens: tuple[Path, Pin]) -> None:
    path, run = goldens
    before, time = path.read_bytes(), path.stat().st_mtime_ns
    assert run({"a": 1.5}) == 0
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, time)


def test_new_numbers_are_appended(goldens: tuple[Path, Pin]) -> None:
    path, run = goldens
    first = path.read_text().splitlines()[1]
    assert run({"0": 2.5, "a": 1.5}) == 0
    assert frozen(path) == {"a": 1.5, "0": 2.5}
    assert path.read_text().splitlines()[1] == f"{first},"


@pytest.mark.parametrize(
    ("computed", "arguments", "message"),
    [
        ({"a": 1.25}, (), "a: ms: frozen as 1.5, now 1.25"),
        ({"a": 1.25, "b": 1.0}, (), "--refresh KEY --reason TEXT"),
        ({}, (), "a: frozen, but computed no more"),
        ({"a": 1.25}, ("--refresh", "a"), "say why with --reason"),
        ({"a": 1.25}, ("--refresh", "a", "--reason", " "), "say why with --reason"),
        ({"a": 1.25}, ("--refresh", "b", "--reason", "x"), "--refresh b: no such key is frozen"),
        ({"a": 1.5}, ("--refresh", "a", "--reason", "x"), "the number is as it was frozen"),
    ],
)
def test_a_frozen_number_is_not_overwritten_by_mistake(
    computed: dict[str, float],
    arguments: tuple[str, ...],
    message: str,
    goldens: tuple[Path, Pin],
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, run = goldens
    before = path.read_bytes()
    assert run(computed, *arguments) == 1
    assert message in capsys.readouterr().err
    assert path.read_bytes() == before


def test_a_refresh_keeps_the_old_number_and_the_reason(goldens: tuple[Path, Pin]) -> None:
    path, run = goldens
    (before,) = json.loads(path.read_text())["entries"]
    assert run({"a": 1.25}, "--refresh", "a", "--reason", "by a better fit") == 0
    (after,) = json.loads(path.read_text())["entries"]
    assert after["value"] == {"ms": 1.25}
    assert after["provenance"]["reason"] == "by a better fit"
    assert after["history"] == [{name: before[name] for name in ("value", "provenance")}]


@pytest.mark.parametrize(
    "damaged",
    ['{"entries": [', "[]", "{}", '{"entries": 5}', '{"entries": [{"key": "a"}]}', "\xff"],
)
def test_a_damaged_file_is_told_and_left_as_it_is(
    damaged: str, goldens: tuple[Path, Pin], capsys: pytest.CaptureFixture[str]
) -> None:
    path, run = goldens
    path.write_text(damaged, encoding="latin-1")
    before = path.read_bytes()
    assert run({"a": 1.5}) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"{path}: ")
    assert "restore it" in told
    assert path.read_bytes() == before


@pytest.mark.parametrize(("status", "clean"), [("", True), (" M goldens/cases.py", False)])
def test_a_new_entry_tells_whether_its_commit_is_all_of_it(
    status: str, clean: bool, goldens: tuple[Path, Pin], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, run = goldens
    (first,) = pin.read(path)
    told = {"rev-parse": "0" * 40, "status": status}
    monkeypatch.setattr(pin, "_git", lambda command, *_: told[command])
    assert run({"a": 1.5, "b": 2.5}) == 0
    kept, added = pin.read(path)
    assert kept == first
    assert (added["provenance"]["commit"], added["provenance"]["clean_tree"]) == ("0" * 40, clean)


def test_another_input_is_a_change() -> None:
    entry = copy.deepcopy(ENTRIES["launch_matrix"])
    entry["provenance"]["input_sha256"] = "0" * 64
    assert pin.changes(entry, CASES["launch_matrix"]) == ["launch_matrix: the input is another one"]


def test_provenance_says_where_a_number_comes_from() -> None:
    for entry in ENTRIES.values():
        assert set(entry) == {"key", "value", "provenance", "history"}
        about = {**entry["provenance"]}
        assert about.pop("clean_tree", True) in (True, False)
        assert all(about.values()), entry["key"]
        assert len(entry["provenance"]["input_sha256"]) == 64
