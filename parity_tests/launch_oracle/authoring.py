"""Cells of the authoring layer: acceptance as people write it, before it stands in a launch document."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .acceptance import AcceptanceFault, authored_rates, check_seed
from .cells import ACCEPT

DEPTH = 3
SPELLED_FLOATS = {"NaN": math.nan, "Infinity": math.inf}
"""How the fixture spells floats that JSON has no number for."""

SCHEMES: dict[str, dict[str, Any]] = {
    "mtp": {"kind": "mtp", "params": {"depth": DEPTH}},
    "nextn": {"nextn": DEPTH},
}
MEAN_KEYS = {"mtp": "expected_accepted_tokens", "nextn": "nextn_accepted"}
RATES = [0.9, 0.55, 0.3]


@dataclass(frozen=True)
class AuthoringCell:
    """`surface` is acceptance for a conversion alone, authoring for the fields of a whole scheme."""

    surface: str
    name: str
    inputs: dict[str, Any]
    expected: str | None
    note: str = ""

    @property
    def id(self) -> str:
        return f"acceptance/{self.surface}/{self.name}"


def authoring_cells() -> Iterator[AuthoringCell]:
    means: dict[str, tuple[float | str, str]] = {
        "0": (0.0, ACCEPT),
        "1.5": (1.5, ACCEPT),
        "3": (3.0, ACCEPT),
        "3.1": (3.1, "E_ACCEPT_INVALID"),
        "-1": (-1.0, "E_ACCEPT_INVALID"),
        "nan": ("NaN", "E_ACCEPT_INVALID"),
        "infinity": ("Infinity", "E_ACCEPT_INVALID"),
    }
    for scheme, key in MEAN_KEYS.items():
        for name, (mean, expected) in means.items():
            note = "the text stands for the float" if isinstance(mean, str) else ""
            yield AuthoringCell("acceptance", f"{scheme}-mean-{name}", {"depth": DEPTH, key: mean}, expected, note)
    mtp, nextn = SCHEMES["mtp"], SCHEMES["nextn"]
    both, neither = "E_ACCEPT_INVALID", "E_ACCEPT_MISSING"
    for scheme, fields in (("mtp", mtp), ("nextn", nextn)):
        key = MEAN_KEYS[scheme]
        together = {**fields, key: 1.5, "acceptance_rates": RATES}
        yield AuthoringCell("authoring", f"{scheme}-mean-and-rates", together, both)
        yield AuthoringCell("authoring", f"{scheme}-neither", dict(fields), neither)
    lists = {"two": RATES[:2], "three": RATES, "four": [*RATES, 0.25]}
    for name, rates in lists.items():
        expected = ACCEPT if name == "three" else "E_ACCEPT_INVALID"
        yield AuthoringCell("authoring", f"mtp-rates-{name}", {**mtp, "acceptance_rates": rates}, expected)
    why = "refused by the authoring layer, whose code is not laid down"
    for scheme, undrafted in (("none", {"kind": "none", "params": {}}), ("nextn", {"nextn": 0})):
        yield AuthoringCell("authoring", f"{scheme}-seed-7", {**undrafted, "seed": 7}, None, why)
        yield AuthoringCell("authoring", f"{scheme}-seed-42", {**undrafted, "seed": 42}, ACCEPT)


def depth_of(inputs: dict[str, Any]) -> int:
    """The depth that the inputs of a cell author."""
    depth: int = inputs.get("depth", inputs.get("nextn", inputs.get("params", {}).get("depth", 0)))
    return depth


def authored_outcome(inputs: dict[str, Any]) -> dict[str, Any]:
    """Accept with rates, or the refusal, of one cell's inputs."""
    depth = depth_of(inputs)
    mean = inputs.get("expected_accepted_tokens", inputs.get("nextn_accepted"))
    try:
        check_seed(depth, inputs.get("seed", 42))
        spelled = SPELLED_FLOATS[mean] if isinstance(mean, str) else mean
        rates = authored_rates(depth, spelled, inputs.get("acceptance_rates")) if depth else []
    except AcceptanceFault as fault:
        return {"outcome": "reject", "code": fault.code}
    return {"outcome": ACCEPT, "code": None, "acceptance_rates": rates}
