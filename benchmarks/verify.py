"""Measures anew what is no timing, and tells where it differs from the evidence as committed.

Counts, names and configurations must be the same, other numbers within a relative 1e-6: the core
is deterministic, and its sums run in one order everywhere, but logarithms and exponentials are
those of the platform, whose last bit may differ. A recording that is not at hand is left out, with
the numbers over several recordings that depend on it; one that has changed is an error.

Run `make verify`: exit 0 if all is the same, 1 if anything differs.
"""

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from accuracy import ACCURACY
from choices import CHOICES
from evidence_file import Evidence, name_of, sha256
from holdout import HOLDOUT
from reading import READING
from recorded import RECORDED
from speed import FIT_SPEED, SPEED

MEASURED_ANEW = (ACCURACY, RECORDED, CHOICES, HOLDOUT)
TIMINGS = (SPEED, FIT_SPEED, READING)

TOLERANCE = 1e-6

ABOUT = {
    "schema": str,
    "forepass_version": str,
    "commit": str,
    "clean_tree": bool,
    "date": str,
    "command": str,
    "machine": dict,
    "inputs": list,
}
MACHINE = {"cpu": str, "cores": int, "system": str, "python": str, "rustc": str}
INPUT = {"name": str, "sha256": str}

IDENTITIES = ("recording", "fit", "region", "variant")


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The plain values of a document by their paths, in which entries of lists have names."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from leaves(member, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, member in enumerate(value):
            named = isinstance(member, dict)
            names = [str(member[key]) for key in IDENTITIES if key in member] if named else []
            yield from leaves(member, f"{path}[{', '.join(names) or index}]")
    else:
        yield path, value


def differences(committed: Any, found: Any, recordings: list[str] | None = None) -> list[str]:
    """Each value that differs, with its path; of some recordings only, where they are given."""

    def compared(document: Any) -> dict[str, Any]:
        of_some = [f"[{name}]" for name in recordings or []]
        return {
            path: value
            for path, value in leaves(document)
            if recordings is None or any(name in path for name in of_some)
        }

    old, new = compared(committed), compared(found)
    told = [f"{path}: committed, and not found" for path in old if path not in new]
    told += [f"{path}: found, and not committed" for path in new if path not in old]
    told += [
        f"{path}: {old[path]!r} is committed, {new[path]!r} found"
        for path in old
        if path in new and not same(old[path], new[path])
    ]
    return told


def same(one: Any, other: Any) -> bool:
    """Whether two values agree, real numbers within the tolerance."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE**2)
    return type(one) is type(other) and bool(one == other)


def faults_of_form(document: dict[str, Any]) -> list[str]:
    """What a document of evidence lacks, by its path."""
    told = lacking(document, ABOUT, "")
    if not told:
        told += lacking(document["machine"], MACHINE, "machine.")
        for index, entry in enumerate(document["inputs"]):
            told += lacking(entry, INPUT, f"inputs[{index}].")
        if len(document) == len(ABOUT):
            told.append("there are no results")
    return told


def lacking(document: dict[str, Any], fields: dict[str, type], path: str) -> list[str]:
    """Fields that are not there, or hold something else."""
    return [
        f"{path}{key}: expected {kind.__name__}, found {document.get(key)!r}"
        for key, kind in fields.items()
        if not isinstance(document.get(key), kind)
    ]


def judged(entries: list[dict[str, str]], at_hand: list[Path]) -> tuple[list[Path], list[str]]:
    """The inputs that are as they were, and those that have changed since."""
    by_name = {name_of(path): path for path in at_hand}
    unchanged, told = [], []
    for entry in entries:
        path = by_name.get(entry["name"])
        if path is None:
            print(f"  not at hand, and left out: {entry['name']}")
        elif (found := sha256(path)) != entry["sha256"]:
            place = f"inputs[{entry['name']}].sha256"
            told.append(f"{place}: {entry['sha256']} is committed, {found} found")
        else:
            unchanged.append(path)
    return unchanged, told


def check(evidence: Evidence) -> list[str]:
    """Measures one kind of evidence anew and compares."""
    if told := check_form(evidence):
        return told
    committed = evidence.committed()
    inputs, told = judged(committed["inputs"], evidence.inputs())
    if not inputs:
        print("  nothing is measured anew")
        return told
    whole = len(inputs) == len(committed["inputs"])
    if not whole:
        print("  numbers over several recordings are left out")
    results = {key: value for key, value in committed.items() if key not in ABOUT}
    found = evidence.measure(inputs)
    return told + differences(results, found, None if whole else [*map(name_of, inputs)])


def check_form(evidence: Evidence) -> list[str]:
    """Looks whether a file is there and has what it needs."""
    if not evidence.path.exists():
        return [f"there is no such file: {evidence.command}"]
    return faults_of_form(evidence.committed())


def main() -> None:
    """Check every file, and say what differs."""
    told = []
    for evidence in MEASURED_ANEW:
        print(f"{evidence.path.name}:")
        told += [f"{evidence.path.name}: {difference}" for difference in check(evidence)]
    for evidence in TIMINGS:
        print(f"{evidence.path.name}: timings, of which only the form is checked")
        told += [f"{evidence.path.name}: {fault}" for fault in check_form(evidence)]
    print("\n".join(told) if told else "the evidence is what is measured")
    sys.exit(1 if told else 0)


if __name__ == "__main__":
    main()
