"""The code blocks of README and docs, and what is found by running them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from steps import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

NOT_RUN = {"text", "sh"}
"""Formulas and signatures; settings and commands of engines."""

BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A code block: its page, its line there, its language and its text."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(*languages: str) -> Iterator[Block]:
    """The code blocks of all pages, in order, of these languages or of all."""
    for path in PAGES:
        page, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        for found in BLOCK.finditer(text):
            if not languages or found[1] in languages:
                yield Block(page, text.count("\n", 0, found.start()) + 1, found[1], found[2])


def commands(block: Block) -> list[list[str]]:
    """The commands of a block that has nothing else, continued lines joined, comments dropped."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def sessions(block: Block) -> list[tuple[list[str], str]]:
    """The commands of a block after `$ `, each with the output that is shown for it."""
    _, *parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    told = (part.partition("\n") for part in parts)
    return [(shlex.split(command), output) for command, _, output in told]


def shows(shown: str, printed: str) -> bool:
    """Whether output is as shown: `...` stands for any lines, `.../` for any folder, and the last
    column of a replay's table, which is a time, for any other."""
    lines = (
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\./", r"\S*/") + r"\n"
        for line in without_times(shown).splitlines()
    )
    return re.fullmatch("".join(lines), without_times(printed)) is not None


def without_times(text: str) -> str:
    return re.sub(r"(?<=[%-]) +\d+\.\d\d$", "", text, flags=re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as a forge makes them."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(page: Path) -> list[str]:
    """The targets of a page's links."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    return re.findall(r"\]\(([^)\s]+)\)", text)
