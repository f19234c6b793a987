"""Writes the launch matrix where the tests expect it."""

from .matrix import FIXTURE, matrix, rendered

if __name__ == "__main__":
    FIXTURE.write_text(rendered(matrix()), encoding="utf-8")
