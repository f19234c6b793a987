"""Means and centred sums of products of a few columns, without any rounding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Moments:
    """Count, mean per column and `scatter[i][j]`, the sum over rows of the product of centred columns i and j."""

    count: int
    means: tuple[Fraction, ...]
    scatter: tuple[tuple[Fraction, ...], ...]

    def variance(self, column: int) -> Fraction:
        """Population variance of a column, in its unit squared."""
        return self.scatter[column][column] / self.count

    def fits_in_double(self) -> bool:
        """Whether every moment is within the range of a double."""
        try:
            for value in [*self.means, *(entry for line in self.scatter for entry in line)]:
                float(value)
        except OverflowError:
            return False
        return True


def moments_of(rows: Sequence[Sequence[float]]) -> Moments:
    """Exact moments of finite doubles, in the columns' own units."""
    count = len(rows)
    columns = [_over_common_denominator(column) for column in zip(*rows, strict=True)]
    sums = [sum(integers) for integers, _ in columns]
    means = tuple(Fraction(total, count * denominator) for total, (_, denominator) in zip(sums, columns, strict=True))
    scatter = []
    for i, (left, left_denominator) in enumerate(columns):
        line = []
        for j, (right, right_denominator) in enumerate(columns):
            products = sum(a * b for a, b in zip(left, right, strict=True))
            # Integers do not cancel, so the textbook difference of sums is safe here.
            numerator = count * products - sums[i] * sums[j]
            line.append(Fraction(numerator, count * left_denominator * right_denominator))
        scatter.append(tuple(line))
    return Moments(count, means, tuple(scatter))


def _over_common_denominator(values: Sequence[float]) -> tuple[list[int], int]:
    """The values as integers over one denominator; every finite double is an integer over a power of two."""
    ratios = [float(value).as_integer_ratio() for value in values]
    denominator = max(bottom for _, bottom in ratios)
    return [top * (denominator // bottom) for top, bottom in ratios], denominator
