"""The plugin for krew: `kubectl trimtab`, and its manifest.

Trimtab is a Python program with compiled dependencies, which krew cannot install. So the plugin starts the `trimtab`
that is installed, or lets pipx fetch and run the version that the plugin belongs to.
"""

from __future__ import annotations

import trimtab
from tools.release.archives import Entry
from trimtab.api.documents import JSON

PLUGIN = f"""#!/bin/sh
# kubectl trimtab: starts trimtab, if it is installed, or lets pipx run it.
if command -v trimtab >/dev/null 2>&1; then
  exec trimtab "$@"
fi
if command -v pipx >/dev/null 2>&1; then
  exec pipx run --spec "trimtab=={trimtab.__version__}" trimtab "$@"
fi
echo "kubectl trimtab needs Python 3.11 or newer, and either of: pipx install trimtab; pip install trimtab" >&2
exit 127
"""


def entries(license_text: str) -> dict[str, Entry]:
    """The files of the archive that krew unpacks."""
    return {"kubectl-trimtab": Entry(PLUGIN.encode(), is_executable=True), "LICENSE": Entry(license_text.encode())}


def manifest(*, url: str, sha256: str) -> JSON:
    """The manifest for the archive at a URL."""
    files = [{"from": name, "to": "."} for name in ("kubectl-trimtab", "LICENSE")]
    systems = {"key": "os", "operator": "In", "values": ["linux", "darwin"]}
    platform = {
        "selector": {"matchExpressions": [systems]},
        "uri": url,
        "sha256": sha256,
        "files": files,
        "bin": "kubectl-trimtab",
    }
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "trimtab"},
        "spec": {
            "version": f"v{trimtab.__version__}",
            "shortDescription": "Show and keep workloads level over zones and nodes",
            "description": "Shows which pods a scale-down would delete and why, where a pod would go, and what keeps "
            "workloads from being level; installs Trimtab, which keeps them level.\n",
            "caveats": "Needs Python 3.11 or newer, and trimtab (pipx install trimtab) or pipx, which fetches it.\n",
            "platforms": [platform],
        },
    }
