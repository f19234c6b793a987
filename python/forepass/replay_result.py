"""What a replay found, as objects: the `forepass.replay.v1` document."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self, TypeVar

from forepass.errors import ForepassError
from forepass.tables import replay_tables

_Entry = TypeVar("_Entry")


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalStats:
    """How the intervals of one level did over some rows; None where there is none.

    `rows` are the answered rows with an interval, `covered_pct` of which it held the latency;
    its mean width is in percent of the forecast.
    """

    rows: int
    covered_pct: float | None
    mean_width_pct: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Accuracy of one fit over some rows; None where no row counts.

    `rows` had work and a latency, `eligible` ones came after the warm-up of their store, and
    `answered` are the eligible ones with a forecast. The errors are those of the answered rows,
    in percent of the observed latency; `bias_pct` is positive where forecasts are too high.
    `intervals` are by level, "0.8", "0.9" and "0.95"; None for a fit that knows none.
    """

    rows: int
    eligible: int
    answered: int
    coverage_pct: float | None
    mape_pct: float | None
    median_ape_pct: float | None
    p90_ape_pct: float | None
    p99_ape_pct: float | None
    bias_pct: float | None
    intervals: Mapping[str, IntervalStats] | None

    @classmethod
    def _of(cls, document: Mapping[str, Any]) -> Self:
        intervals = document["intervals"]
        levels = intervals and {name: IntervalStats(**of) for name, of in intervals.items()}
        return cls(**{**document, "intervals": levels})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayInput:
    """One trace that was read.

    `rows` are the records of its files, `skipped` counts by reason those on which no fit was
    scored. `sha256` is that of its files one after the other, None where one is no regular file;
    `format` is None where the trace breaks off early.
    """

    path: str
    sha256: str | None
    files: tuple[str, ...]
    format: str | None
    rows: int
    iterations: int
    skipped: Mapping[str, int]
    faults: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """How one fit did; `by_worker` is by input and worker, where it was asked for.

    `config` is its configuration in normal form; that of a baseline is its name and its window.
    `cpu_us_per_row` is the time that a row took one thread, in microseconds.

    `gym` is what the protocol of that name adds: means over the inputs, each of the same weight, of
    the error over all answered rows and over the last 30 % of each worker and kind of work.
    """

    fit: str
    config: Mapping[str, Any]
    overall: Stats
    by_kind: Mapping[str, Stats]
    by_input: Mapping[str, Stats]
    by_worker: Mapping[str, Mapping[str, Stats]] | None = None
    gym: Mapping[str, Any] | None = None
    cpu_us_per_row: float | None

    @classmethod
    def _of(cls, document: Mapping[str, Any]) -> Self:
        by_worker = document.get("by_worker")
        return cls(
            **{
                **document,
                "overall": Stats._of(document["overall"]),
                "by_kind": _stats_by_name(document["by_kind"]),
                "by_input": _stats_by_name(document["by_input"]),
                "by_worker": by_worker
                and {path: _stats_by_name(workers) for path, workers in by_worker.items()},
            }
        )


def _stats_by_name(document: Mapping[str, Any]) -> dict[str, Stats]:
    return {name: Stats._of(stats) for name, stats in document.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """The outcome of a replay; as text, it is a table.

    `results` are in the order of the fits, then the baselines; `warmup` counts observations of a
    store. All but `cpu_us_per_row` depends on the inputs and options alone. `timeline`
    is the course of the replay, where it was asked for: what `forepass.report` draws.
    """

    schema: str
    forepass_version: str
    warmup: int
    protocol: str | None = None
    inputs: tuple[ReplayInput, ...]
    results: tuple[FitResult, ...]
    timeline: Mapping[str, Any] | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The objects of a `forepass.replay.v1` document."""
        inputs = (
            ReplayInput(
                **{
                    **entry,
                    "files": tuple(entry["files"]),
                    "faults": tuple(entry["faults"]),
                    "warnings": tuple(entry["warnings"]),
                }
            )
            for entry in document["inputs"]
        )
        results = (FitResult._of(entry) for entry in document["results"])
        return cls(**{**document, "inputs": tuple(inputs), "results": tuple(results)})

    def stats(self, fit: str, kind: str | None = None, input: str | None = None) -> Stats:  # noqa: A002
        """Accuracy of a fit: over all rows, or over those of one kind of work, or of one input.

        Raises:
            ForepassError: a name that is not in the result, or both a kind and an input.
        """
        found = _named("fit", fit, {result.fit: result for result in self.results})
        if kind is not None and input is not None:
            message = "kind and input: give one of the two"
            raise ForepassError(message, "conflict", "input")
        if kind is not None:
            return _named("kind", kind, found.by_kind)
        if input is not None:
            return _named("input", input, found.by_input)
        return found.overall

    def to_dict(self) -> dict[str, Any]:
        """The `forepass.replay.v1` document."""
        inputs = [
            {
                **asdict(source),
                "files": list(source.files),
                "faults": list(source.faults),
                "warnings": list(source.warnings),
            }
            for source in self.inputs
        ]
        results = [asdict(result) for result in self.results]
        for result in results:
            for optional in ("by_worker", "gym"):
                if result[optional] is None:
                    del result[optional]
        document = {**asdict(self), "inputs": inputs, "results": results}
        for optional in ("protocol", "timeline"):
            if document[optional] is None:
                del document[optional]
        return document

    def to_json(self) -> str:
        """The `forepass.replay.v1` document as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=1)

    def __str__(self) -> str:
        return replay_tables(self)


def _named(what: str, name: str, among: Mapping[str, _Entry]) -> _Entry:
    if name in among:
        return among[name]
    known = ", ".join(among) or "there is none"
    raise ForepassError(f"{what}: {name!r} is not in the result: {known}", "unknown_name", what)
