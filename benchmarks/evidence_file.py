"""One evidence file: what it carries beside its results, and when it is written anew."""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import forepass
from machine import cpu_model, sha256

ROOT = Path(__file__).resolve().parent.parent
EVIDENCE = ROOT / "benchmarks" / "evidence"
TRACES = Path(os.environ.get("FOREPASS_TRACES", ROOT.parent / "shared" / "traces"))

SAMPLE = Path(forepass.sample_path())

Body = dict[str, Any]


def recordings() -> list[Path]:
    """All recordings at hand, in the order of their names."""
    return sorted([*TRACES.glob("b300/*.csv.gz"), *TRACES.glob("cpu/*.jsonl.gz")])


def name_of(path: Path) -> str:
    """A recording's name in evidence: its folder and its file."""
    return f"{path.parent.name}/{path.name}"


@dataclass(frozen=True)
class Evidence:
    """What one file of evidence is made of, and how."""

    name: str
    """That of the file, without its ending."""
    command: str
    """What makes it again."""
    inputs: Callable[[], list[Path]]
    """What it is measured on, as far as it is at hand."""
    measure: Callable[[list[Path]], Body]
    """The results, from the inputs."""

    @property
    def path(self) -> Path:
        """Where it is kept."""
        return EVIDENCE / f"{self.name}.json"

    def committed(self) -> dict[str, Any]:
        """The document as it is kept."""
        document: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        return document

    def absent(self) -> list[str]:
        """Inputs of the kept document that are not at hand."""
        at_hand = {name_of(path) for path in self.inputs()}
        if not self.path.exists():
            return [] if at_hand else [f"any recording in {TRACES}"]
        names = [entry["name"] for entry in self.committed()["inputs"]]
        return [name for name in names if name not in at_hand]

    def main(self) -> None:
        """Measure, and with --write keep it; evidence of more than is at hand is left alone."""
        shown = self.path.relative_to(ROOT)
        if absent := self.absent():
            print(f"{shown} is left as it is: not at hand: {', '.join(absent)}")
            return
        inputs = self.inputs()
        about = provenance(self, inputs)
        document = {**about, **self.measure(inputs)}
        if "--write" in sys.argv[1:]:
            EVIDENCE.mkdir(parents=True, exist_ok=True)
            text = json.dumps(document, indent=1, ensure_ascii=False)
            self.path.write_text(text + "\n", encoding="utf-8")
            print(f"wrote {shown}")


def provenance(evidence: Evidence, inputs: Iterable[Path]) -> dict[str, Any]:
    """Where the numbers come from."""
    return {
        "schema": f"forepass.{evidence.name}.v1",
        "forepass_version": forepass.__version__,
        "commit": output("git", "rev-parse", "HEAD"),
        "clean_tree": output(
            "git",
            "status",
            "--porcelain",
            "--",
            ".",
            ":!benchmarks/evidence",
            ":!README.md",
            ":!docs",
        )
        == "",
        "date": datetime.now(UTC).date().isoformat(),
        "command": evidence.command,
        "machine": {
            "cpu": cpu_model(),
            "cores": os.cpu_count(),
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            "rustc": output("rustc", "--version"),
        },
        "inputs": [{"name": name_of(path), "sha256": sha256(path)} for path in inputs],
    }


def output(program: str, *arguments: str) -> str | None:
    """What a program prints, where it is installed and content."""
    if shutil.which(program) is None:
        return None
    run = subprocess.run(
        [program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return run.stdout.strip() if run.returncode == 0 else None


def fit_config(fit: str | dict[str, Any]) -> dict[str, Any]:
    """The configuration of a fit, every default filled in."""
    return forepass.ForwardPassModel(fit=fit).config
