"""Record what `kubectl explain` prints on a real API server (`tests/recordings/kubectl/explain.json`).

KUBECONFIG=… python -m tools.explain

Our kinds are created first, from `deploy/crds`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "tests" / "recordings" / "kubectl" / "explain.json"
CRDS = ROOT / "deploy" / "crds"
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
    "clonesets",
    "scaledownpolicy.spec.strategies",
)


def explain(path: str, *options: str) -> str:
    """What `kubectl explain` prints, without spaces at the ends of lines."""
    text = _kubectl("explain", path, *options)
    return "\n".join(line.rstrip() for line in text.splitlines())


def _kubectl(*arguments: str) -> str:
    command = [shutil.which("kubectl") or "kubectl", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603


if __name__ == "__main__":
    _kubectl("apply", "-f", str(CRDS))
    _kubectl("wait", "--for=condition=Established", "-f", str(CRDS))
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(json.dumps({path: explain(path) for path in PATHS}, indent=1, ensure_ascii=False) + "\n")
