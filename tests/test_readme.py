"""The README's tables are what the evidence says."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def checked(readme: str) -> subprocess.CompletedProcess[str]:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import readme; "
        "text = sys.stdin.read(); sys.exit(readme.filled_in(text) != text)"
    )
    return subprocess.run(
        [sys.executable, "-c", script, str(ROOT / "benchmarks")],
        input=readme,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_readme_says_what_was_measured() -> None:
    outcome = checked((ROOT / "README.md").read_text())
    assert outcome.returncode == 0, outcome.stderr or "run `make readme`"


def test_a_changed_number_is_noticed() -> None:
    text = (ROOT / "README.md").read_text()
    start = text.index("| `auto` |")
    digit = next(i for i in range(start, len(text)) if text[i].isdigit())
    changed = text[:digit] + str((int(text[digit]) + 1) % 10) + text[digit + 1 :]
    outcome = checked(changed)
    assert outcome.returncode == 1
    assert not outcome.stderr
