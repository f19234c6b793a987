"""Replay of a recording: every iteration is predicted before the forecaster learns from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from .forecaster import Forecaster
from .record import RankRecord
from .spline_store import SplineStore
from .store import LINEAR
from .workload import IDLE, RejectedObservation, duration_ms, kind_of


@dataclass(frozen=True)
class ReplayedRow:
    """One scored iteration; times in ms, `row` counts every iteration of the recording from 0.

    `one_minus_rho2` and `single_axis_tie` describe the window of the linear fit that answered, `retained` is the
    number of rows in the store before this one was learned, and `knot_searches` that of the searches made by then.
    """

    row: int
    worker_id: str
    kind: str
    observed_ms: float
    predicted_ms: float | None
    reason: str | None
    one_minus_rho2: float | None
    single_axis_tie: bool
    retained: int
    source: str | None = None
    knot_searches: int | None = None


def replay(
    records: Iterable[RankRecord],
    limit: int | None = None,
    fit: str = LINEAR,
    forecasters: dict[str, Forecaster] | None = None,
) -> Iterator[ReplayedRow]:
    """Replay single-rank iterations, the first `limit` of them if given, with one forecaster per worker.

    A dictionary given as `forecasters` is filled by worker, so that their stores can be looked at.
    """
    if forecasters is None:
        forecasters = {}
    for row, record in enumerate(islice(records, limit)):
        ranks = [record]
        forecaster = forecasters.setdefault(record.worker_id, Forecaster(fit=fit))
        forecast = forecaster.forecast(ranks)
        kind = kind_of(ranks)
        store = forecaster.stores.get(kind)
        retained = len(store.retention.rows) if store else 0
        choice = store.model.fit.choice if store and store.model.fit else None
        knot_searches = store.knot_searches if isinstance(store, SplineStore) else None
        forecaster.observe(ranks)
        if kind == IDLE:
            continue
        try:
            observed_ms = duration_ms(ranks)
        except RejectedObservation:
            continue
        independent = choice.one_minus_rho2 if choice else None
        yield ReplayedRow(
            row=row,
            worker_id=record.worker_id,
            kind=kind,
            observed_ms=observed_ms,
            predicted_ms=forecast.value_ms,
            reason=forecast.reason,
            one_minus_rho2=None if independent is None else float(independent),
            single_axis_tie=choice.single_axis_tie if choice else False,
            retained=retained,
            source=forecast.source,
            knot_searches=knot_searches,
        )
