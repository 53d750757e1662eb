"""Record what `kubectl explain` prints on a real API server (`tests/recordings/kubectl/explain.json`).

KUBECONFIG=… python -m tools.explain
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

TARGET = Path(__file__).parents[1] / "tests" / "recordings" / "kubectl" / "explain.json"
PATHS = (
    "pods",
    "pod.spec.terminationGracePeriodSeconds",
    "pod.spec.topologySpreadConstraints",
    "deployment",
    "deployment.spec.strategy",
    "replicaset.status.conditions",
    "node.spec.taints",
    "poddisruptionbudget.spec",
    "lease.spec.holderIdentity",
    "clusterrole.rules",
    "validatingwebhookconfiguration.webhooks.rules",
    "crd.spec.names",
)


def explain(path: str, *options: str) -> str:
    """What `kubectl explain` prints, without spaces at the ends of lines."""
    kubectl = shutil.which("kubectl") or "kubectl"
    text = subprocess.run([kubectl, "explain", path, *options], capture_output=True, text=True, check=True).stdout  # noqa: S603
    return "\n".join(line.rstrip() for line in text.splitlines())


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(json.dumps({path: explain(path) for path in PATHS}, indent=1, ensure_ascii=False) + "\n")
