"""Freezes numbers in `pinned.json`: appends new ones, and changes one only when told to and why.

`python goldens/pin.py` appends what is new, and refuses where a frozen number has changed.
`python goldens/pin.py --refresh KEY --reason TEXT` freezes the number of that key anew; the old one
stays in its history.
"""

import argparse
import datetime as dt
import json
import math
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import forepass
from cases import GOLDENS, Case, cases

PINNED = GOLDENS / "pinned.json"
SCHEMA = "forepass.goldens.v1"
FIRST = "first frozen"

ELSEWHERE = 1e-9
"""Relative tolerance on another platform than the one that froze a number.

Sums and products have the same bits everywhere. The geometric steps of a knot search and the
weights of an adaptive fit come from `pow` and `exp`, whose last digit is up to the system's
library, and a fit magnifies the error of its knot by its condition.
"""

Entry = dict[str, Any]


class PinError(Exception):
    """What must not be written, and how it could be."""


def differences(frozen: Any, now: Any, tolerance: float, at: str = "") -> Iterator[str]:
    """Where a value is not the frozen one; what has come in addition is no difference."""
    if isinstance(frozen, dict) and isinstance(now, dict):
        for name, value in frozen.items():
            inner = f"{at}.{name}" if at else name
            if name in now:
                yield from differences(value, now[name], tolerance, inner)
            else:
                yield f"{inner}: frozen as {value!r}, now absent"
    elif isinstance(frozen, list) and isinstance(now, list) and len(frozen) == len(now):
        for index, (value, other) in enumerate(zip(frozen, now, strict=True)):
            yield from differences(value, other, tolerance, f"{at}[{index}]")
    elif not _same(frozen, now, tolerance):
        yield f"{at}: frozen as {frozen!r}, now {now!r}"


def _same(frozen: Any, now: Any, tolerance: float) -> bool:
    if type(frozen) is not type(now):
        return False
    if isinstance(frozen, float):
        return math.isclose(frozen, now, rel_tol=tolerance, abs_tol=0.0)
    return bool(frozen == now)


def tolerance_of(entry: Entry) -> float:
    """Same bits on the platform that froze an entry."""
    return 0.0 if entry["provenance"]["platform"] == sysconfig.get_platform() else ELSEWHERE


def changes(entry: Entry, case: Case) -> list[str]:
    """Where the number of a case is not the frozen one, each with the key."""
    found = []
    if entry["provenance"]["input_sha256"] != case.input_sha256:
        found.append("the input is another one")
    found += differences(entry["value"], case.value(), tolerance_of(entry))
    return [f"{case.key}: {difference}" for difference in found]


def pinned(
    entries: Sequence[Entry], cases: Iterable[Case], refresh: Sequence[str], reason: str | None
) -> list[Entry]:
    """The entries with new ones appended and the named ones refreshed.

    Raises:
        PinError: a changed number that is not to be refreshed, a frozen one that is computed no
            more, a refresh of what is not frozen or has not changed, or one without a reason.
    """
    if refresh and not (reason and reason.strip()):
        raise PinError("--refresh: say why with --reason TEXT, which is stored with the number")
    computed = {case.key: case for case in cases}
    frozen = {entry["key"]: entry for entry in entries}
    for key in refresh:
        if key not in frozen or key not in computed:
            raise PinError(f"--refresh {key}: no such key is frozen")
    refused = [f"{key}: frozen, but computed no more" for key in frozen if key not in computed]
    written = []
    for key, entry in frozen.items():
        found = changes(entry, computed[key]) if key in computed else []
        if key in refresh and not found:
            raise PinError(f"--refresh {key}: the number is as it was frozen")
        if key in refresh:
            past = {name: entry[name] for name in ("value", "provenance")}
            written.append({**_entry(computed[key], reason), "history": [*entry["history"], past]})
            continue
        written.append(entry)
        refused += found[:1] + [f"  and {len(found) - 1} more of {key}"] * (len(found) > 1)
    if refused:
        how = "Nothing is written. To freeze it anew: --refresh KEY --reason TEXT"
        raise PinError("\n".join([*refused, how]))
    return written + [_entry(case, reason) for key, case in computed.items() if key not in frozen]


def _git(*arguments: str) -> str | None:
    run = subprocess.run(
        ["git", *arguments], cwd=GOLDENS, capture_output=True, text=True, check=False
    )
    return run.stdout.strip() if run.returncode == 0 else None


def _entry(case: Case, reason: str | None) -> Entry:
    changed = _git("status", "--porcelain", "--", ":/", f":(exclude){PINNED.name}")
    return {
        "key": case.key,
        "value": case.value(),
        "provenance": {
            "forepass_version": forepass.__version__,
            "commit": _git("rev-parse", "HEAD"),
            "clean_tree": changed == "",
            "command": "make goldens",
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
            "platform": sysconfig.get_platform(),
            "input": case.input,
            "input_sha256": case.input_sha256,
            "reason": reason or FIRST,
        },
        "history": [],
    }


def read(path: Path = PINNED) -> list[Entry]:
    """The frozen entries, in the order in which they were frozen.

    Raises:
        PinError: a file that is not the document of frozen numbers.
    """
    if not path.exists():
        return []
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PinError(f"{path}: cannot be read: {error}: restore it from git") from error
    found = document.get("entries") if isinstance(document, dict) else None
    if not isinstance(found, list) or not all(_is_entry(entry) for entry in found):
        raise PinError(f"{path}: no object with a list of whole entries: restore it from git")
    return found


def _is_entry(entry: Any) -> bool:
    names = {"key", "value", "provenance", "history"}
    return isinstance(entry, dict) and set(entry) == names


def rendered(entries: Sequence[Entry]) -> str:
    """The document, an entry a line. A number is written as the shortest text that reads back."""
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    return f'{{"schema": "{SCHEMA}", "entries": [\n{lines}\n]}}\n'


def main(arguments: Sequence[str] | None = None, path: Path = PINNED) -> int:
    """Run the script; 0 where everything is frozen, 1 where it refuses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--refresh", metavar="KEY", action="append", default=[])
    parser.add_argument("--reason", metavar="TEXT")
    options = parser.parse_args(arguments)
    try:
        entries = read(path)
        written = pinned(entries, cases(), options.refresh, options.reason)
    except PinError as refusal:
        print(refusal, file=sys.stderr)
        return 1
    if written != entries:
        path.write_text(rendered(written), encoding="utf-8")
    added, refreshed = len(written) - len(entries), len(options.refresh)
    print(f"{added} added, {refreshed} refreshed, {len(written)} frozen")
    return 0


if __name__ == "__main__":
    sys.exit(main())
