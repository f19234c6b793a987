"""The product's answers on a recording, through its public interface alone."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oracle.record import RankRecord
from oracle.replay import ReplayedRow

OBSERVED_TOLERANCE = 1e-12


@dataclass(frozen=True)
class ProductRow:
    """One line of the product's predictions file, times in ms."""

    kind: str
    observed_ms: float
    predicted_ms: float | None
    source: str
    reason: str


AUTO = "auto"


def named(fit: str) -> str | tuple[str, dict[str, Any]]:
    """The fit as the product's replay takes it: the adaptive one has no short name."""
    if fit != AUTO:
        return fit
    return fit, {
        "model": "model",
        "system": "system",
        "backend": "vllm",
        "worker_type": "aggregated",
        "estimation_mode": "fpm_regression",
        "estimator_config": {"fpm_regression": {"fit": {"kind": fit}}},
    }


def product_rows(recording: Path, predictions: Path, fit: str) -> dict[int, ProductRow]:
    """Replay a recording with the product; its scored iterations by row number."""
    import forepass

    forepass.replay(str(recording), fits=[named(fit)], baselines=False, predictions=str(predictions))
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


def message(record: RankRecord, counter: int) -> dict[str, Any]:
    """The record as the engine publishes it, its time in seconds."""
    return {
        "version": record.version,
        "worker_id": record.worker_id,
        "dp_rank": 0,
        "counter_id": counter,
        "wall_time": record.wall_time_s,
        "scheduled_requests": {
            "num_prefill_requests": record.num_prefill_requests,
            "sum_prefill_tokens": record.sum_prefill_tokens,
            "sum_prefill_kv_tokens": record.sum_prefill_kv_tokens,
            "num_decode_requests": record.num_decode_requests,
            "sum_decode_kv_tokens": record.sum_decode_kv_tokens,
        },
    }


def close(product: float, expected: float, tolerance: float) -> bool:
    """Whether a value is within a relative tolerance; false for NaN."""
    return abs(product - expected) <= tolerance * abs(expected)


def row_difference(
    product: ProductRow | None, expected: ReplayedRow, source: str | None, tolerance: float
) -> str | None:
    """What differs on one row whose answer is to come from `source`, or None."""
    if product is None:
        return "row: missing from the product"
    if product.kind != expected.kind:
        return f"kind: product {product.kind}, oracle {expected.kind}"
    if not close(product.observed_ms, expected.observed_ms, OBSERVED_TOLERANCE):
        return f"observed_ms: product {product.observed_ms!r}, oracle {expected.observed_ms!r}"
    if product.predicted_ms is None or expected.predicted_ms is None:
        ours = (expected.predicted_ms, expected.reason)
        theirs = (product.predicted_ms, product.reason)
        return None if ours == theirs else f"predicted_ms and reason: product {theirs!r}, oracle {ours!r}"
    if product.source != source:
        return f"source: product {product.source!r}, oracle {source!r}"
    if not close(product.predicted_ms, expected.predicted_ms, tolerance):
        apart = abs(product.predicted_ms - expected.predicted_ms) / expected.predicted_ms
        return f"predicted_ms: product {product.predicted_ms!r}, oracle {expected.predicted_ms!r}, apart by {apart:.1e}"
    return None


def row_differences(
    product: Mapping[int, ProductRow],
    expected: list[ReplayedRow],
    difference: Callable[[ProductRow | None, ReplayedRow], str | None],
    told: Callable[[ReplayedRow], str],
) -> list[str]:
    """Every difference, each with what is told of the oracle's row."""
    found = [
        f"row {row.row} ({row.kind}): {text}; {told(row)}"
        for row in expected
        if (text := difference(product.get(row.row), row)) is not None
    ]
    found += [f"row {number}: only in the product" for number in sorted(product.keys() - {row.row for row in expected})]
    return found
