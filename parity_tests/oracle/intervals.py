"""Intervals that should hold a given share of latencies, from how far off the newest answers were."""

from __future__ import annotations

import math
from fractions import Fraction

LEVELS = (Fraction(1, 2), Fraction(4, 5), Fraction(9, 10), Fraction(19, 20), Fraction(99, 100))
SAMPLE = 256
STEP = 0.02


class Intervals:
    """The ratios of latency to answer, and for each level how much either end leaves out."""

    def __init__(self, step: float = STEP) -> None:
        self.step = step
        self.ratios: list[float] = []
        self.tails = {level: [float((1 - level) / 2)] * 2 for level in LEVELS}

    def calibrated(self, level: Fraction) -> bool:
        """Whether there are enough ratios for the level."""
        return (1 - level) / 2 * (len(self.ratios) + 1) >= 1

    def ends(self, level: Fraction) -> tuple[float, float]:
        """The factors of an answer between which the latency should lie."""
        ordered = sorted(self.ratios)
        count = len(ordered)
        below, above = self.tails[level]
        low = ordered[max(math.floor(below * (count + 1)), 1) - 1]
        high = ordered[count - max(math.floor(above * (count + 1)), 1)]
        if below < 0.0:
            low /= 1.0 + -below * (count + 1)
        if above < 0.0:
            high *= 1.0 + -above * (count + 1)
        return low, high

    def learn(self, ratio: float) -> None:
        """Move the tails of the calibrated levels by whether they missed, and add the ratio."""
        for level in LEVELS:
            if self.calibrated(level):
                low, high = self.ends(level)
                aim = float((1 - level) / 2)
                for end, missed in enumerate((ratio < low, ratio > high)):
                    self.tails[level][end] += self.step * (aim - missed)
        self.ratios = [*self.ratios, ratio][-SAMPLE:]
