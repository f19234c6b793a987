"""The product's answers on a recording, through its public interface alone."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProductRow:
    """One line of the product's predictions file, times in ms."""

    kind: str
    observed_ms: float
    predicted_ms: float | None
    source: str
    reason: str


def product_rows(recording: Path, predictions: Path, fit: str) -> dict[int, ProductRow]:
    """Replay a recording with the product; its scored iterations by row number."""
    import forepass

    forepass.replay(str(recording), fits=[fit], baselines=False, predictions=str(predictions))
    rows: dict[int, ProductRow] = {}
    with predictions.open(newline="") as lines:
        for line in csv.DictReader(lines):
            number = int(line["row"])
            assert number not in rows, f"row {number} is there twice"
            rows[number] = ProductRow(
                kind=line["kind"],
                observed_ms=float(line["observed_ms"]),
                predicted_ms=float(line["predicted_ms"]) if line["predicted_ms"] else None,
                source=line["source"],
                reason=line["reason"],
            )
    return rows


def close(product: float, expected: float, tolerance: float) -> bool:
    """Whether a value is within a relative tolerance; false for NaN."""
    return abs(product - expected) <= tolerance * abs(expected)
