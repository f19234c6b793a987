"""When the knots are searched: at a first number of observations, then at fixed steps or once forecasts go wrong."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

FIRST_SEARCH = 32


class Schedule(Protocol):
    """Decides on every search but the first."""

    def note(self, prior_ms: float, observed_ms: float) -> None:
        """Take in what the spline said before an observation, and the observation."""

    def due_again(self, accepted: int, last_search: int) -> bool:
        """Whether to search at this number of accepted observations, given that of the last search."""

    def searched(self) -> None:
        """Take in that a search was made."""


@dataclass
class Periodic:
    """A search at every multiple of `step` accepted observations."""

    step: int = 64

    def note(self, prior_ms: float, observed_ms: float) -> None:
        """Errors do not matter here."""

    def due_again(self, accepted: int, last_search: int) -> bool:
        """Whether the number of accepted observations is a multiple of the step."""
        return accepted % self.step == 0

    def searched(self) -> None:
        """Nothing to start anew."""


@dataclass
class Adaptive:
    """A search once `trigger` of the last `window` forecasts were bad, `cooldown` observations apart or more."""

    window: int = 16
    trigger: int = 8
    tolerance: float = 0.05
    absolute_tolerance_ms: float = 1.0
    cooldown: int = 64
    _bad: deque[bool] = field(default_factory=deque)

    def note(self, prior_ms: float, observed_ms: float) -> None:
        """Judge one forecast; an error of just the tolerance is good."""
        tolerated_ms = max(self.absolute_tolerance_ms, self.tolerance * observed_ms)
        self._bad.append(abs(prior_ms - observed_ms) > tolerated_ms)
        if len(self._bad) > self.window:
            self._bad.popleft()

    def due_again(self, accepted: int, last_search: int) -> bool:
        """Whether there were enough bad forecasts, and enough observations since the last search."""
        return accepted - last_search >= self.cooldown and sum(self._bad) >= self.trigger

    def searched(self) -> None:
        """Forget every judgement."""
        self._bad.clear()


def due(schedule: Schedule, accepted: int, retained: int, last_search: int | None, min_observations: int) -> bool:
    """Whether a search is due after an observation was accepted and noted."""
    if retained < min_observations:
        return False
    if last_search is None:
        return accepted >= max(FIRST_SEARCH, min_observations)
    return schedule.due_again(accepted, last_search)
