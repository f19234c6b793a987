"""One cell of the launch matrix: a document and the outcome that the contract's table names for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .documents import BACKENDS, ROLES, Document

ACCEPT = "accept"


@dataclass(frozen=True)
class Cell:
    """`expected` is accept or a code, as tabulated; `star` marks the cells the contract was drawn up for."""

    section: str
    name: str
    backend: str
    role: str
    document: Document
    expected: str
    star: bool = False
    note: str = ""

    @property
    def id(self) -> str:
        return f"{self.section}/{self.name}/{self.backend}/{self.role}"


def rates_of(depth: int) -> str:
    """A falling chain of `depth` acceptance rates, the form that rates have in a launch document."""
    return ",".join(f"0.{max(8 - position, 1)}" for position in range(depth))


def everywhere() -> Iterator[tuple[str, str]]:
    """Every backend in every role."""
    return ((backend, role) for backend in BACKENDS for role in ROLES)
