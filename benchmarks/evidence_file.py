"""What every evidence file carries beside its results: where the numbers come from."""

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from machine import cpu_model, sha256

import forepass

ROOT = Path(__file__).resolve().parent.parent
EVIDENCE = ROOT / "benchmarks" / "evidence"


def recordings() -> Path | None:
    """The folder of recordings beside the repository, or where FOREPASS_TRACES points."""
    folder = Path(os.environ.get("FOREPASS_TRACES", ROOT.parent / "shared" / "traces"))
    return folder if folder.is_dir() else None


def provenance(command: str, inputs: list[Path]) -> dict[str, Any]:
    """Version, commit, machine, command and input hashes."""
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    return {
        "forepass_version": forepass.__version__,
        "commit": commit or None,
        "command": command,
        "machine": {
            "cpu": cpu_model(),
            "cores": os.cpu_count(),
            "system": platform.system(),
            "python": platform.python_version(),
        },
        "inputs": [{"name": path.name, "sha256": sha256(path)} for path in inputs],
    }


def write(name: str, document: dict[str, Any]) -> None:
    """Write one evidence file."""
    EVIDENCE.mkdir(parents=True, exist_ok=True)
    path = EVIDENCE / name
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    print(f"wrote {path.relative_to(ROOT)}")
