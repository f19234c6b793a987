"""Replays of recorded traces: predict each iteration, score the prediction, then learn from it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeAlias, TypeVar

from forepass import _core
from forepass.config import REPLAYED_FITS, ConfigSource, fit_options, normal_form, worker_form
from forepass.errors import ConfigError, TraceError
from forepass.outputs import output_target, unwritable
from forepass.replay_result import ReplayResult
from forepass.sources import Source, StrPath, found_sources, input_paths, reading

FitSource: TypeAlias = str | tuple[str, ConfigSource]
"""A fit by its name, or a name of one's own with a configuration."""

ProgressCallback: TypeAlias = Callable[[int, int], None]
"""Called now and then with the bytes read so far and the bytes of all inputs."""

T = TypeVar("T")

_TICK_S = 0.05
_GRACE_S = 0.5  # for work to notice that it is cancelled, unless a read blocks
_MAX_OPTION = 2**32 - 1


def sample_path() -> Path:
    """The recording that comes with the package; its README tells what it is."""
    return Path(__file__).parent / "data" / "sample.jsonl.gz"


def replay(
    paths: StrPath | Sequence[StrPath] | None = None,
    fits: FitSource | Sequence[FitSource] = REPLAYED_FITS,
    *,
    warmup: int = 64,
    threads: int | None = None,
    by_worker: bool = False,
    strict: bool = False,
    trace_format: str | None = None,
    join_ranks: int | None = None,
    protocol: str = "online",
    predictions: StrPath | None = None,
    timeline: bool = False,
    baselines: bool = True,
    progress: ProgressCallback | None = None,
) -> ReplayResult:
    """Replays traces for each fit, with one model for each input and worker.

    | option | default | meaning |
    |---|---|---|
    | `paths` | the bundled recording | traces: files, directories, patterns, catalogues |
    | `fits` | "linear", "auto" | names, or pairs of a name and a configuration |
    | `warmup` | 64 | observations that a store must have learned before its rows count |
    | `threads` | one a CPU | share the inputs, beside one that inflates each; the same outcome |
    | `by_worker` | False | whether to report each worker by itself, too |
    | `strict` | False | whether a bad line is an error instead of being skipped and counted |
    | `trace_format` | detected | one of `forepass.TRACE_FORMATS` |
    | `join_ranks` | not | of how many ranks on lines of their own to join an iteration |
    | `protocol` | "online" | "gym" scores all rows by time, and their last 30 % apart |
    | `predictions` | nowhere | file for each single prediction, as CSV |
    | `timeline` | False | whether to tell the course of the replay, which a report shows |
    | `baselines` | True | whether forecasts that know nothing of load compete |
    | `progress` | nobody | what is called while the replay runs |

    The interpreter is released meanwhile, and an interrupt stops the replay.

    Raises:
        TraceError: a trace that cannot be read, or is given twice.
        ConfigError: an option or a fit that is not valid.
        ForepassError: the predictions cannot be written, or would overwrite a trace.
    """
    names = input_paths(sample_path() if paths is None else paths)
    contenders = _contenders(fits, baselines=baselines)
    protocol = _protocol(protocol)
    warmup = _whole("warmup", warmup, least=0)
    threads = _cpus() if threads is None else _whole("threads", threads, least=1)
    how = reading(strict=strict, trace_format=trace_format, join_ranks=join_ranks)
    with found_sources(names, trace_format) as sources:
        files = [file for source in sources for file in source.files]
        target = None if predictions is None else output_target(predictions, files)

        def work(handle: _core.Progress) -> tuple[str, bytes]:
            return _core.replay(
                [source.core for source in sources],
                contenders,
                how,
                protocol=protocol,
                warmup=warmup,
                threads=threads,
                by_worker=bool(by_worker),
                predictions=target is not None,
                timeline=bool(timeline),
                progress=handle,
            )

        report, csv = _interruptible(work, sources, progress)
    document = _checked(json.loads(report))
    if target is not None:
        try:
            target.write_bytes(csv)
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            raise unwritable(target, str(error)) from error
    pairs = zip(sources, document["inputs"], strict=True)
    document["inputs"] = [source.described(entry) for source, entry in pairs]
    return ReplayResult.from_document(document)


def inspect(
    paths: StrPath | Sequence[StrPath],
    *,
    strict: bool = False,
    trace_format: str | None = None,
    join_ranks: int | None = None,
    knots: bool = False,
) -> dict[str, Any]:
    """What is in traces: rows, workers and kinds of work, as a `forepass.inspect.v1` document.

    It tells producers, ranks, gaps in counters and what the times span; of each kind of work the
    ranges of latency and features, spikes, and what a model could not learn from it.

    With `knots`, each input also has what the adaptive spline comes to by worker and kind of work:
    its knots on each axis in units of the feature, how often it searched them, and whether it is
    ready. A trace is then read twice, which a pipe cannot be.

    Raises:
        TraceError: a trace that cannot be read, is given twice, or cannot be read twice.
        ConfigError: an unknown format, or a number of ranks that joins nothing.
    """
    names = input_paths(paths)
    how = reading(strict=strict, trace_format=trace_format, join_ranks=join_ranks)
    with found_sources(names, trace_format) as sources:

        def work(handle: _core.Progress) -> str:
            return _core.inspect([source.core for source in sources], how, progress=handle)

        if knots:
            _refuse_pipes(sources)
        document = _checked(json.loads(_interruptible(work, sources, None)))
        for source, entry in zip(sources, document["inputs"], strict=True):
            entry["files"] = list(source.files)
            entry["format"] = source.trace_format or entry["format"]
            if knots:
                entry["knots"] = _knots(source, how)
    return document


def _refuse_pipes(sources: Sequence[Source]) -> None:
    for path in (file for source in sources for file in source.files):
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):  # noqa: PTH110,PTH112,PTH113 (any name)
            message = f"{path}: not a regular file, and finding knots reads it twice"
            raise TraceError(message, "unreadable", path)


def _knots(source: Source, how: dict[str, Any]) -> dict[str, Any]:
    """The adaptive spline's knots after a trace, by worker and kind of work."""
    config = worker_form("aggregated", {"fpm_regression": {"fit": fit_options("spline")}})

    def work(handle: _core.Progress) -> str:
        return _core.learn(source.core, config, how, progress=handle)

    learned: dict[str, Any] = json.loads(_interruptible(work, [source], None))
    return {
        worker: {
            store["workload_kind"]: _spline_state(store["spline"])
            for store in state["stores"]
            if store["accepted_observations"]
        }
        for worker, state in learned.items()
    }


def _spline_state(spline: dict[str, Any]) -> dict[str, Any]:
    attention, ffn = spline["knots"] or (None, None)
    return {
        "ready": spline["ready"],
        "accepted_observations": spline["accepted_observations"],
        "knot_searches": spline["knot_searches"],
        "last_search_observation": spline["last_search_observation"],
        "attention": attention,
        "ffn": ffn,
    }


def _interruptible(
    work: Callable[[_core.Progress], T],
    sources: Sequence[Source],
    progress: ProgressCallback | None,
) -> T:
    """Waits for the work in such a way that an interrupt reaches it.

    The thread is a daemon: a read that blocks does not keep the interpreter from ending.
    """
    handle = _core.Progress()
    paths = [Path(file) for source in sources for file in source.read]
    total = sum(path.stat().st_size for path in paths if path.is_file())
    done, results, failures = Event(), list[T](), list[BaseException]()

    def run() -> None:
        try:
            results.append(work(handle))
        except BaseException as error:  # noqa: BLE001 (raised where it is waited for)
            failures.append(error)
        finally:
            done.set()

    try:
        Thread(target=run, name="forepass-replay", daemon=True).start()
        while not done.wait(_TICK_S):
            if progress is not None:
                progress(handle.bytes, total)
    except BaseException:
        handle.cancel()
        done.wait(_GRACE_S)
        raise
    if progress is not None:
        progress(handle.bytes, total)
    if failures:
        raise failures[0]
    return results[0]


def _checked(document: dict[str, Any]) -> dict[str, Any]:
    """The document, unless one of its inputs holds nothing that is a record."""
    for source in document["inputs"]:
        if source["iterations"] == 0:
            path, reasons = source["path"], source["faults"] + source["warnings"]
            message = f"{path}: no record could be read: {reasons[0] if reasons else 'it is empty'}"
            raise TraceError(message, "no_records", path)
    return document


def _contenders(
    fits: FitSource | Sequence[FitSource], *, baselines: bool
) -> list[tuple[str, str | None]]:
    # Two strings are two names; a pair whose configuration is text stands in a list.
    alone = isinstance(fits, str) or (_is_pair(fits) and not isinstance(fits[1], str))
    given: Any = [fits] if alone else fits
    contenders: list[tuple[str, str | None]] = []
    for index, fit in enumerate(given):
        name, config = _named_config(fit, f"fits[{index}]")
        if name in _core.BASELINES or any(name == other for other, _ in contenders):
            message = f"fits[{index}]: the name {name!r} is taken: give the fit another one"
            raise ConfigError(message, "conflict", f"fits[{index}]")
        contenders.append((name, config))
    return contenders + [(name, None) for name in _core.BASELINES if baselines]


def _named_config(fit: Any, path: str) -> tuple[str, str]:
    if isinstance(fit, str):
        estimator = {"fpm_regression": {"fit": fit_options(fit)}}
        return fit, worker_form("aggregated", estimator)
    if not _is_pair(fit):
        message = f"{path}: expected a name, or a pair of a name and a configuration"
        raise ConfigError(message, "invalid_type", path)
    name, config = fit
    return name, normal_form(config)


def _is_pair(fit: Any) -> bool:
    return isinstance(fit, tuple) and len(fit) == 2 and isinstance(fit[0], str)


def _whole(name: str, value: Any, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        message = f"{name}: expected an integer, found {type(value).__name__}"
        raise ConfigError(message, "invalid_type", name)
    if not least <= value <= _MAX_OPTION:
        message = f"{name}: {value} is not in {least} to {_MAX_OPTION}"
        raise ConfigError(message, "invalid_value", name)
    return value


def _protocol(name: str) -> str:
    if name in _core.PROTOCOLS:
        return name
    message = f"protocol: no protocol {name!r}: use {', '.join(_core.PROTOCOLS)}"
    raise ConfigError(message, "invalid_value", "protocol")


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
