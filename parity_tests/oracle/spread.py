"""Which rows the adaptive fit keeps: the newest ones always, older ones spread over a grid that is spanned anew."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from .retention import Row

BINS = 4


class SpreadRetention:
    """At most `capacity` rows, the newest `recent` outside of the grid; the cells of the others are counted anew."""

    def __init__(self, capacity: int = 64, recent: int = 32, max_age: int = 4096) -> None:
        self.capacity = capacity
        self.recent = recent
        self.max_age = max_age
        self.accepted = 0
        self.rows: list[Row] = []
        """Rows kept, in order of arrival: those in the grid and, after them, the newest."""
        self._in_grid = 0
        self._low: tuple[float, ...] | None = None
        self._high: tuple[float, ...] | None = None
        self._entries = 0

    def insert(self, features: Sequence[float], target_ms: float) -> None:
        """Keep a row; at most one other leaves."""
        self.rows.append(Row(self.accepted, tuple(features), target_ms))
        self.accepted += 1
        while len(self.rows) - self._in_grid > self.recent:
            self._enter(self.rows[self._in_grid])
        oldest = self.rows[0]
        if self.accepted - 1 - oldest.arrival > self.max_age:
            self._remove(0)
        elif len(self.rows) > self.capacity:
            cells = [self._cell_of(row) for row in self.rows[: self._in_grid]]
            population = Counter(cells)
            fullest = max(population.values())
            self._remove(next(i for i, cell in enumerate(cells) if population[cell] == fullest))

    def _enter(self, row: Row) -> None:
        self._entries += 1
        if self._entries <= self.capacity and self._within(row):
            self._in_grid += 1
            return
        columns = list(zip(*(kept.coordinates for kept in self.rows), strict=True))
        self._low = tuple(min(column) for column in columns)
        self._high = tuple(max(column) for column in columns)
        self._in_grid = len(self.rows) - self.recent
        self._entries = 0

    def _within(self, row: Row) -> bool:
        if self._low is None or self._high is None:
            return False
        return all(
            low <= value <= high for value, low, high in zip(row.coordinates, self._low, self._high, strict=True)
        )

    def _cell_of(self, row: Row) -> tuple[int, ...]:
        assert self._low is not None and self._high is not None
        return tuple(
            0 if high == low else min(math.floor(BINS * (value - low) / (high - low)), BINS - 1)
            for value, low, high in zip(row.coordinates, self._low, self._high, strict=True)
        )

    def _remove(self, place: int) -> None:
        self.rows.pop(place)
        if place < self._in_grid:
            self._in_grid -= 1
