"""Acceptance rates, entry i given that all before it were accepted: from strings, lists and expected means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

DEFAULT_RATES = (0.85, 0.3, 0.0, 0.0, 0.0)
DEFAULT_SEED = 42


class MalformedRates(Exception):
    """Rates that are no probabilities."""


class AcceptanceFault(Exception):
    """Authored acceptance that is missing or wrong."""

    def __init__(self, code: str | None, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def blank(text: object) -> bool:
    return text is None or (isinstance(text, str) and not text.strip())


def parse_rates(text: object) -> tuple[float, ...]:
    """The numbers of a comma-separated string, each in [0, 1]."""
    if not isinstance(text, str):
        raise MalformedRates(f"not a string: {text!r}")
    rates = []
    for element in text.split(","):
        try:
            rate = float(element)
        except ValueError as fault:
            raise MalformedRates(f"not a number: {element!r}") from fault
        if not 0.0 <= rate <= 1.0:
            raise MalformedRates(f"outside [0, 1]: {element!r}")
        rates.append(rate)
    return tuple(rates)


def pad_or_cut(rates: Sequence[float], depth: int) -> list[float]:
    """As many rates as drafted tokens, the way legacy depths have always taken them."""
    return [*rates, *([0.0] * depth)][:depth]


def rates_of_mean(mean: float, depth: int) -> list[float]:
    """Ones for the whole part of an expected number of accepted tokens, one fraction, zeros."""
    if not math.isfinite(mean) or not 0.0 <= mean <= depth:
        raise AcceptanceFault("E_ACCEPT_INVALID", f"an expected mean of {mean} with {depth} drafted tokens")
    whole, rest = divmod(Fraction(mean), 1)
    return pad_or_cut([1.0] * whole + ([float(rest)] if rest else []), depth)


def authored_rates(depth: int, mean: float | None, rates: Sequence[float] | None) -> list[float]:
    """The rates of an authored scheme, which says either an expected mean or exactly `depth` rates."""
    if mean is not None and rates is not None:
        raise AcceptanceFault("E_ACCEPT_INVALID", "an expected mean and rates as well")
    if mean is not None:
        return rates_of_mean(mean, depth)
    if rates is None:
        raise AcceptanceFault("E_ACCEPT_MISSING", "neither an expected mean nor rates")
    if len(rates) != depth or not all(0.0 <= rate <= 1.0 for rate in rates):
        raise AcceptanceFault("E_ACCEPT_INVALID", f"{list(rates)} for {depth} drafted tokens")
    return list(rates)


def check_seed(depth: int, seed: int) -> None:
    """A seed without speculation seeds nothing; the code of that refusal is the authoring layer's own."""
    if depth == 0 and seed != DEFAULT_SEED:
        raise AcceptanceFault(None, f"seed {seed} without speculation")
