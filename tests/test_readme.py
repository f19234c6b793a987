"""The README's tables are what the evidence says."""

import readme
from steps import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_says_what_was_measured() -> None:
    assert readme.filled_in(README) == README, "run `make readme`"


def test_a_changed_number_is_noticed() -> None:
    start = README.index("| `auto` |")
    digit = next(i for i in range(start, len(README)) if README[i].isdigit())
    changed = README[:digit] + str((int(README[digit]) + 1) % 10) + README[digit + 1 :]
    assert readme.filled_in(changed) == README
