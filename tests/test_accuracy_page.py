"""The tables of docs/accuracy.md are what the evidence says."""

import re

import accuracy_page

TEXT = accuracy_page.PAGE.read_text(encoding="utf-8")
TABLES = [
    "fits", "kinds", "recordings", "recorded", "intervals", "holdout", "halves", "choices",
]  # fmt: skip


def test_the_page_says_what_was_measured() -> None:
    assert accuracy_page.filled_in(TEXT) == TEXT, "run `make docs`"
    assert re.findall(r"<!-- (\w+): begin -->", TEXT) == TABLES


def test_a_changed_number_is_noticed_in_every_table() -> None:
    for name in TABLES:
        start = TEXT.index(f"<!-- {name}: begin -->")
        at = next(i for i in range(start, len(TEXT)) if TEXT[i].isdigit())
        changed = TEXT[:at] + str((int(TEXT[at]) + 1) % 10) + TEXT[at + 1 :]
        assert accuracy_page.filled_in(changed) == TEXT, name


def test_percentages_are_written_with_what_can_be_read_of_them() -> None:
    assert [accuracy_page.pct(value) for value in (7.162, -2.08, None, 1328616.0)] == [
        "7.2 %", "-2.1 %", "-", "over 1000 %",
    ]  # fmt: skip
