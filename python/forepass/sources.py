"""From the paths that a caller names to the traces of the core, Parquet files turned into rows."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from forepass import _core
from forepass.errors import ConfigError, TraceError

StrPath: TypeAlias = str | os.PathLike[str]
"""The path of a file or a directory, or a pattern of paths."""

_PARQUET = b"PAR1"
_RECORD_COLUMNS = (
    "phase",
    "batch_size",
    "total_prefill_tokens",
    "total_kv_read_tokens",
    "truth_latency_ms",
)


@dataclass(frozen=True, slots=True)
class Source:
    """A trace: its name, its files, and the files that are read in place of them."""

    name: str
    files: tuple[str, ...]
    warnings: tuple[str, ...]
    read: tuple[str, ...]
    trace_format: str | None = None
    """The format, where the files that are read have another one than the trace."""

    @property
    def core(self) -> tuple[str, list[str], list[str]]:
        """The form in which the core takes it."""
        return self.name, list(self.read), list(self.warnings)

    def described(self, entry: dict[str, Any]) -> dict[str, Any]:
        """The description of an input, with the digest of its files, one after the other."""
        entry |= {"files": list(self.files), "format": self.trace_format or entry["format"]}
        return {"path": entry.pop("path"), "sha256": _sha256(self.files), **entry}


def input_paths(paths: StrPath | Iterable[StrPath]) -> list[str]:
    """The names of inputs as text.

    Raises:
        TraceError: what names no file, or the same one twice.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    try:
        names = [os.fspath(path) for path in paths]
    except TypeError as error:
        raise TraceError(f"paths: {error}", "invalid_type", "paths") from error
    if not names:
        raise TraceError("paths: name at least one trace", "invalid_value", "paths")
    for name in names:
        if not isinstance(name, str):
            raise TraceError(f"paths: {name!r} is not a string", "invalid_type", "paths")
        if names.count(name) > 1:
            raise TraceError(f"{name}: given twice", "duplicate_input", name)
    return names


def trace_files(names: Sequence[str]) -> list[str]:
    """All files that the traces of these names stand in."""
    return [file for _, files, _, _ in _core.find_traces(names) for file in files]


@contextmanager
def found_sources(names: Sequence[str], trace_format: str | None) -> Iterator[list[Source]]:
    """The traces that names stand for, as long as the context lasts.

    Raises:
        TraceError: a name that stands for no trace, a file that is not the one of its manifest, or
            a Parquet file that cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="forepass-") as folder:
        sources: list[Source] = []
        for name, files, warnings, sha256 in _core.find_traces(names):
            if sha256 is not None and _sha256(files) != sha256.lower():
                message = f"{name}: its SHA-256 is not the one that its manifest tells: {sha256}"
                raise TraceError(message, "wrong_digest", name)
            read, found = files, None
            if len(files) == 1 and _is_parquet(files[0]):
                if trace_format is not None:
                    message = f"{name}: a Parquet file, which is not {trace_format}"
                    raise TraceError(message, "unknown_format", name)
                rows, found = _rows_of_parquet(files[0], Path(folder) / str(len(sources)))
                read = [str(rows)]
            sources.append(Source(name, tuple(files), tuple(warnings), tuple(read), found))
        yield sources


def _is_parquet(file: str) -> bool:
    if not os.path.isfile(file):  # noqa: PTH113 (any name)
        return False
    try:
        with open(file, "rb") as opened:  # noqa: PTH123 (any name)
            return opened.read(len(_PARQUET)) == _PARQUET
    except OSError:
        return False  # the core tells it


def _rows_of_parquet(file: str, stem: Path) -> tuple[Path, str]:
    """Writes the rows of a Parquet file in a form that the core reads, and tells its format."""
    try:
        import polars as pl  # noqa: PLC0415 (an extra)
    except ModuleNotFoundError as error:
        message = f"{file}: reading Parquet needs polars: pip install 'forepass[io]'"
        raise TraceError(message, "missing_extra", file) from error
    try:
        frame = pl.scan_parquet(file, glob=False)
        columns = frame.collect_schema().names()
        if "rank_measurements" in columns:
            target = stem.with_suffix(".jsonl")
            frame.select("rank_measurements").sink_ndjson(target)
            return target, "iterations_parquet"
        missing = [name for name in _RECORD_COLUMNS if name not in columns]
        if missing:
            message = (
                f"{file}: neither a column `rank_measurements` nor all columns of measured "
                f"records: `{'`, `'.join(missing)}` missing"
            )
            raise TraceError(message, "missing_column", file)
        target = stem.with_suffix(".csv")
        frame.select(_RECORD_COLUMNS).sink_csv(target)
    except (pl.exceptions.PolarsError, OSError) as error:
        message = f"{file}: cannot be read as Parquet: {str(error).splitlines()[0]}"
        raise TraceError(message, "unreadable", file) from error
    return target, "records_parquet"


def _sha256(files: Sequence[str]) -> str | None:
    """The digest of files one after the other; None where one is no regular file."""
    digest = hashlib.sha256()
    for file in files:
        if not os.path.isfile(file):  # noqa: PTH113 (any name)
            return None
        with open(file, "rb") as opened:  # noqa: PTH123 (any name)
            hashlib.file_digest(opened, lambda: digest)  # goes on where the file before ended
    return digest.hexdigest()


def reading(*, strict: bool, trace_format: str | None, join_ranks: int | None) -> dict[str, Any]:
    """How the core is to read, checked.

    Raises:
        ConfigError: an unknown format, or a number of ranks that joins nothing.
    """
    if trace_format is not None and trace_format not in _core.TRACE_FORMATS:
        known = ", ".join(_core.TRACE_FORMATS)
        message = f"trace_format: no format {trace_format!r}: use {known}"
        raise ConfigError(message, "invalid_value", "trace_format")
    if join_ranks is not None:
        if isinstance(join_ranks, bool) or not isinstance(join_ranks, int):
            message = f"join_ranks: expected an integer, found {type(join_ranks).__name__}"
            raise ConfigError(message, "invalid_type", "join_ranks")
        if not 2 <= join_ranks <= 2**16:
            message = f"join_ranks: {join_ranks} is not in 2 to {2**16}"
            raise ConfigError(message, "invalid_value", "join_ranks")
    return {"strict": bool(strict), "trace_format": trace_format, "join_ranks": join_ranks}
