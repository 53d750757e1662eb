"""The published results: `bench/scale.json`, from which `make generate` writes docs/performance.md."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("scale.json")


def publish(name: str, measured: Mapping[str, Any]) -> None:
    """Replace the result of that name, with the machine that it was measured on."""
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    machine = {"python": platform.python_version(), "cores": os.cpu_count()}
    results[name] = {"machine": machine, **measured}
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
