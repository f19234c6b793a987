"""Files that results are written to, refused beforehand where they cannot or must not be."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from forepass.errors import ForepassError


def output_target(target: str | os.PathLike[str], kept: Iterable[str | os.PathLike[str]]) -> Path:
    """Where to write; `kept` names the files that are read and must stay as they are.

    Raises:
        ForepassError: a path that cannot be written, or is that of a file to be read.
    """
    try:
        path = Path(target)
        if path.is_dir():
            raise unwritable(path, "this is a directory")
        if not path.parent.is_dir():
            raise unwritable(path, "its directory does not exist")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise unwritable(path, "permission denied")
        if any(same_file(path, Path(name)) for name in kept):
            raise unwritable(path, "this is a file to be read")
    except ForepassError:
        raise
    except (OSError, TypeError, ValueError) as error:  # ValueError: a name that no file can have
        raise unwritable(target, str(error)) from error
    return path


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths are of one file, or would be once it is written."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()


def unwritable(target: object, reason: str) -> ForepassError:
    """The error that an output cannot be written."""
    return ForepassError(f"{target}: cannot be written: {reason}", "unwritable", str(target))
