"""Tables in pages: between markers, and written from evidence."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evidence_file import EVIDENCE


def evidence(name: str) -> dict[str, Any]:
    """An evidence file as it is kept."""
    document: dict[str, Any] = json.loads((EVIDENCE / f"{name}.json").read_text(encoding="utf-8"))
    return document


def table(header: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def filled_in(text: str, tables: Mapping[str, str]) -> str:
    """A page with these tables between their markers."""
    for name, written in tables.items():
        start, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        before, _, rest = text.partition(start)
        _, _, after = rest.partition(end)
        text = f"{before}{start}{written}\n{end}{after}"
    return text


def write(page: Path, text: str) -> None:
    """Write a page where it differs, so that nothing is built anew for one that does not."""
    if page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")
        print(f"wrote {page.name}")
