"""Which rows a store keeps: a grid over the logarithm of the features, thinned where it is fullest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One accepted observation: raw features, duration in milliseconds and place in the order of arrival."""

    arrival: int
    features: tuple[float, ...]
    target_ms: float

    @property
    def coordinates(self) -> tuple[float, ...]:
        """Logarithm of one plus each feature, the scale on which the grid is drawn."""
        return tuple(math.log1p(feature) for feature in self.features)


class Retention:
    """At most `capacity` rows; cells are counted anew at every insertion, so nothing can go stale."""

    def __init__(self, bins: Sequence[int] = (4, 4), capacity: int = 64) -> None:
        self.bins = tuple(bins)
        self.capacity = capacity
        self.rows: list[Row] = []
        self.low = [math.inf] * len(self.bins)
        self.high = [-math.inf] * len(self.bins)
        self.accepted = 0

    def cell_of(self, row: Row) -> tuple[int, ...]:
        """Cell of a row under the present bounds."""
        cell = []
        for value, low, high, bins in zip(row.coordinates, self.low, self.high, self.bins, strict=True):
            if high <= low:
                cell.append(0)
            else:
                place = int((value - low) / (high - low) * bins)
                cell.append(min(max(place, 0), bins - 1))
        return tuple(cell)

    def insert(self, features: Sequence[float], target_ms: float) -> Row | None:
        """Keep a row and return the row that had to leave for it, which may be the new one, or None."""
        row = Row(self.accepted, tuple(features), target_ms)
        if len(row.features) != len(self.bins):
            raise ValueError(f"{len(row.features)} features for {len(self.bins)} axes")
        if not all(math.isfinite(coordinate) for coordinate in row.coordinates):
            raise ValueError("a coordinate is not finite")
        self.accepted += 1
        # Bounds only ever widen: a row that leaves takes nothing of them away.
        self.low = [min(low, value) for low, value in zip(self.low, row.coordinates, strict=True)]
        self.high = [max(high, value) for high, value in zip(self.high, row.coordinates, strict=True)]
        self.rows.append(row)
        if len(self.rows) <= self.capacity:
            return None
        cells = [self.cell_of(kept) for kept in self.rows]
        population = Counter(cells)
        fullest = max(population.values())
        # `rows` is in order of arrival, so the first hit is the oldest row of all fullest cells.
        index = next(i for i, cell in enumerate(cells) if population[cell] == fullest)
        return self.rows.pop(index)
