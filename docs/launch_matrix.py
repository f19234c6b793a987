"""The table of docs/launch.md from the frozen launch matrix; written with `--write`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "launch.md"
MATRIX = ROOT / "goldens" / "launch_matrix.json"
BEGIN, END = "<!-- matrix: begin -->\n", "<!-- matrix: end -->\n"

BACKENDS = ("vllm", "sglang", "trtllm")
SCHEMES = ("none", "mtp", "ngram", "eagle3", "draft_model", "dflash", "dspark")
NEXTN, UNKNOWN = "(older `nextn`)", "any other kind"
CHAIN, TREE, BEYOND, WRONG = "a chain of 1 to 5", "a tree", "a depth beyond", "wrong parameters"
NOTHING, NAME, BLANK = "nothing", "a name", "a blank name"


def table() -> str:
    """What becomes of each scheme on each backend, found the same in all roles."""
    rows: dict[tuple[str, str], dict[str, set[str]]] = {}
    for record in json.loads(MATRIX.read_text(encoding="utf-8"))["records"]:
        if record["surface"] == "launch" and record["section"] == "schemes" and _alone(record):
            outcomes = rows.setdefault(_row(record), {}).setdefault(record["backend"], set())
            outcomes.add("accepted" if record["after"]["code"] is None else record["after"]["code"])
    schemes, drafts = (NEXTN, *SCHEMES, UNKNOWN), (NOTHING, CHAIN, BEYOND, TREE, WRONG, NAME, BLANK)
    lines = [("kind", "drafts", *BACKENDS), ("---",) * 5]
    for scheme, draft in sorted(
        rows, key=lambda row: (schemes.index(row[0]), drafts.index(row[1]))
    ):
        found = rows[scheme, draft]
        kind = f"`{scheme}`" if scheme in SCHEMES else scheme
        cells = (" or ".join(sorted(found[backend])) for backend in BACKENDS)
        lines.append((kind, draft, *cells))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _alone(record: Mapping[str, Any]) -> bool:
    """Whether nothing around the scheme contradicts it."""
    config = record["document"]["engine"]["timing_model"]["config"]
    twice = record["scheme"] is not None and record["authored_nextn"] != 0
    return not twice and not str(config.get("estimation_mode")).startswith("fpm_")


def _row(record: Mapping[str, Any]) -> tuple[str, str]:
    scheme, draft = record["scheme"], record["oracle"]
    kind = NEXTN if scheme is None else scheme if scheme in SCHEMES else UNKNOWN
    if kind == UNKNOWN:
        return kind, NAME if scheme.strip() else BLANK
    if draft is None:
        return kind, WRONG
    if draft["tree"] or draft["verify_width"] != draft["depth"] + 1:
        return kind, TREE
    if draft["depth"] == 0 and scheme in {None, "none"}:
        return kind, NOTHING
    return kind, CHAIN if 1 <= draft["depth"] <= 5 else BEYOND


def page(text: str) -> str:
    """The page with its table written anew."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


if __name__ == "__main__":
    written = page(PAGE.read_text(encoding="utf-8"))
    if "--write" in sys.argv[1:]:
        PAGE.write_text(written, encoding="utf-8")
    else:
        sys.stdout.write(written)
