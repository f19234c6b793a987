"""What a speculating launch must bring along: acceptance rates and a capacity that somebody authored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cells import ACCEPT, Cell, everywhere, rates_of
from .documents import ABSENT, BACKENDS, BLOCKS, ROLES, launch_document
from .schemes import SOUND, block

DEMANDED = {"vllm": ("ngram", "mtp", "eagle3"), "sglang": ("mtp", "eagle3")}
"""The kinds whose acceptance and capacity are looked at on each backend."""

RATES: dict[str, tuple[str, str, bool, str]] = {
    "absent": (ABSENT, "E_ACCEPT_MISSING", True, ACCEPT),
    "empty": ("", "E_ACCEPT_MISSING", True, ACCEPT),
    "blank": ("  ", "E_ACCEPT_MISSING", True, ACCEPT),
    "three": ("0.9,0.55,0.3", ACCEPT, True, ACCEPT),
    "two": ("0.9,0.55", "E_ACCEPT_INVALID", False, ACCEPT),
    "four": ("0.9,0.55,0.3,0.25", "E_ACCEPT_INVALID", False, ACCEPT),
    "four-last-above-one": ("0.9,0.55,0.3,1.5", "E_ENGINE", False, "E_ENGINE"),
    "below-zero": ("0.9,-0.1,0.3", "E_ENGINE", True, "E_ENGINE"),
    "above-one": ("0.9,1.1,0.3", "E_ENGINE", True, "E_ENGINE"),
    "not-a-number": ("0.9,NaN,0.3", "E_ENGINE", True, "E_ENGINE"),
    "infinite": ("0.9,inf,0.3", "E_ENGINE", True, "E_ENGINE"),
    "text": ("0.9,often,0.3", "E_ENGINE", True, "E_ENGINE"),
    "empty-element": ("0.9,,0.3", "E_ENGINE", True, "E_ENGINE"),
    "empty-last": ("0.9,0.55,", "E_ENGINE", True, "E_ENGINE"),
    "zeros": ("0,0,0", ACCEPT, False, ACCEPT),
    "ones": ("1,1,1", ACCEPT, False, ACCEPT),
}
"""Rates of depth 3: as authored, the outcome under a scheme, whether starred, the outcome under a legacy depth."""


def acceptance_cells() -> Iterator[Cell]:
    for name, (rates, under_scheme, star, under_nextn) in RATES.items():
        for backend, kinds in DEMANDED.items():
            for kind in kinds:
                for role in ROLES:
                    document = launch_document(backend, role, speculation=SOUND[kind], rates=rates)
                    yield Cell("acceptance", f"{kind}-{name}", backend, role, document, under_scheme, star)
        for backend, role in everywhere():
            document = launch_document(backend, role, nextn=3, rates=rates)
            legacy_star = star and under_nextn != ACCEPT
            yield Cell("acceptance", f"nextn-{name}", backend, role, document, under_nextn, legacy_star)
    for backend, role in everywhere():
        for name, scheme in (("none", block("none", {})), ("no-speculation", None)):
            document = launch_document(backend, role, speculation=scheme, rates=rates_of(3))
            yield Cell("acceptance", f"{name}-rates", backend, role, document, "E_ENGINE")


CAPACITY: dict[str, tuple[int | str | None, bool | str, str, bool, str]] = {
    "authored": (BLOCKS, ABSENT, ACCEPT, True, ACCEPT),
    "authored-true": (BLOCKS, True, ACCEPT, True, ACCEPT),
    "authored-false": (BLOCKS, False, "E_CAPACITY", True, ACCEPT),
    "absent": (ABSENT, ABSENT, "E_CAPACITY", True, ACCEPT),
    "absent-false": (ABSENT, False, "E_CAPACITY", False, ACCEPT),
    "absent-true": (ABSENT, True, "E_CAPACITY", False, ACCEPT),
    "null": (None, ABSENT, "E_ENGINE", False, "E_ENGINE"),
}
"""Blocks and flag, the outcome under a scheme, whether starred, the outcome without a scheme that drafts."""


def capacity_cells() -> Iterator[Cell]:
    for name, (blocks, explicit, under_scheme, star, otherwise) in CAPACITY.items():
        note = "a flag without a count makes no capacity explicit" if name == "absent-true" else ""
        supply: dict[str, Any] = {"blocks": blocks, "explicit": explicit}
        for backend in BACKENDS:
            schemes: dict[str, tuple[dict[str, Any], str, bool]] = {
                kind: ({"speculation": SOUND[kind], "rates": rates_of(3)}, under_scheme, star)
                for kind in DEMANDED.get(backend, ())
            }
            schemes["none"] = ({"speculation": block("none", {})}, otherwise, False)
            schemes["no-speculation"] = ({}, otherwise, False)
            schemes["nextn"] = ({"nextn": 3, "rates": rates_of(3)}, otherwise, False)
            for scheme, (options, expected, starred) in schemes.items():
                for role in ROLES:
                    document = launch_document(backend, role, **options, **supply)
                    yield Cell("capacity", f"{scheme}-{name}", backend, role, document, expected, starred, note)
