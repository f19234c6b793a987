"""The launch matrix as a file: one record a cell, what was anomalous in it, and how it came to be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .agreement import depth_cells, environment_cells, precedence_cells
from .anomalies import anomalies_in
from .authoring import AuthoringCell, authored_outcome, authoring_cells
from .before import before
from .cells import ACCEPT, Cell
from .documents import ABSENT, Document, canonical_config
from .rules import Refused, resolve, told_draft
from .schemes import scheme_cells
from .supply import acceptance_cells, capacity_cells

Record = dict[str, Any]

FIXTURE = Path(__file__).resolve().parents[2] / "goldens" / "launch_matrix.json"
NOT_KNOWN = "not known"
SCHEMA = "forepass.launch_matrix.v1"
PROVENANCE = {
    "written_by": "python -m launch_oracle, run in parity_tests",
    "after": "the oracle's own rules (rules.py), checked against the table's outcome of every cell",
    "before": "what is known of launches while nextn alone was read (before.py); null where it is not known",
    "oracle": "closed-form table of schemes (depths.py); no number comes from the product",
    "star": "the cells that the launch contract was drawn up for; the others extend it",
    "anomalies": "counted in what was authored, each by what became of it before and after",
    "verdicts": "launch documents by what became of them before -> after",
}


def launch_cells() -> Iterator[Cell]:
    """Every cell that is a launch document."""
    yield from scheme_cells()
    yield from depth_cells()
    yield from acceptance_cells()
    yield from capacity_cells()
    yield from environment_cells()
    yield from precedence_cells()


def outcome_after(document: Document) -> Record:
    try:
        launch = resolve(document)
    except Refused as refusal:
        return {"outcome": "reject", "code": refusal.code}
    return {
        "outcome": ACCEPT,
        "code": None,
        "depth": launch.depth,
        "decode_width": launch.decode_width,
        "tree": launch.tree,
        "aic_nextn": launch.aic_nextn,
        "acceptance_rates": launch.acceptance_rates,
        "capacity": {"num_gpu_blocks": launch.num_gpu_blocks, "explicit": launch.explicit},
    }


def tabulated(outcome: Record) -> str | None:
    """An outcome as a table writes it: accept, or the code of a refusal."""
    told: str | None = ACCEPT if outcome["outcome"] == ACCEPT else outcome["code"]
    return told


def launch_record(cell: Cell) -> Record:
    after = outcome_after(cell.document)
    if tabulated(after) != cell.expected:
        raise ValueError(f"{cell.id}: the rules say {tabulated(after)}, the table {cell.expected}")
    engine = cell.document["engine"]
    config = canonical_config(cell.document)
    block = (config or {}).get("speculation")
    drafted = told_draft(cell.document)
    return {
        "id": cell.id,
        "section": cell.section,
        "surface": "launch",
        "star": cell.star,
        "backend": cell.backend,
        "role": cell.role,
        "scheme": None if block is None else block["kind"],
        "params": None if block is None else block["params"],
        "authored_nextn": None if config is None else config["nextn"],
        "authored_aic_nextn": engine.get("aic_nextn", ABSENT),
        "authored_rates": engine.get("aic_nextn_accept_rates", ABSENT),
        "authored_capacity": {
            "num_gpu_blocks": engine.get("num_gpu_blocks", ABSENT),
            "num_gpu_blocks_is_explicit": cell.document.get("num_gpu_blocks_is_explicit", ABSENT),
        },
        "document": cell.document,
        "before": asdict(before(cell.document)),
        "after": after,
        "oracle": None if drafted is None else asdict(drafted),
        "anomalies": anomalies_in(cell.document),
        "note": cell.note,
    }


def authoring_record(cell: AuthoringCell) -> Record:
    after = authored_outcome(cell.inputs)
    if tabulated(after) != cell.expected:
        raise ValueError(f"{cell.id}: the rules say {tabulated(after)}, the table {cell.expected}")
    return {
        "id": cell.id,
        "section": "acceptance",
        "surface": cell.surface,
        "star": False,
        "inputs": cell.inputs,
        "after": after,
        "note": cell.note,
    }


def anomaly_counts(records: list[Record]) -> Record:
    """Of each anomaly, and of documents without one, how many ended in which outcome before and after."""
    counts: dict[str, dict[str, Counter[str]]] = {}
    for record in records:
        for anomaly in record["anomalies"] or ["none"]:
            outcomes = counts.setdefault(anomaly, {"before": Counter(), "after": Counter()})
            outcomes["before"][record["before"]["outcome"] or NOT_KNOWN] += 1
            outcomes["after"][tabulated(record["after"]) or "reject"] += 1
    return {anomaly: {when: dict(told) for when, told in outcomes.items()} for anomaly, outcomes in counts.items()}


def verdict_counts(records: list[Record]) -> dict[str, int]:
    """How many documents went from which verdict to which."""
    return dict(
        Counter(f"{record['before']['outcome'] or NOT_KNOWN} -> {record['after']['outcome']}" for record in records)
    )


def matrix() -> Record:
    """The whole fixture."""
    launches = [launch_record(cell) for cell in launch_cells()]
    records = launches + [authoring_record(cell) for cell in authoring_cells()]
    records.sort(key=lambda record: str(record["id"]))
    repeated = [name for name, times in Counter(record["id"] for record in records).items() if times > 1]
    if repeated:
        raise ValueError(f"cells of one id: {repeated}")
    return {
        "schema": SCHEMA,
        "provenance": PROVENANCE,
        "counts": dict(Counter(record["section"] for record in records)),
        "anomalies": anomaly_counts(launches),
        "verdicts": verdict_counts(launches),
        "records": records,
    }


def line(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def rendered(fixture: Record) -> str:
    """The fixture as text: sorted keys, one record a line."""
    head = {name: value for name, value in sorted(fixture.items()) if name != "records"}
    parts = [f'"{name}":{json.dumps(value, sort_keys=True, indent=1)}' for name, value in head.items()]
    records = ",\n".join(line(record) for record in fixture["records"])
    parts.insert(sorted(fixture).index("records"), f'"records":[\n{records}\n]')
    return "{\n" + ",\n".join(parts) + "\n}\n"
