"""The files of a control plane: certificates, kubeconfigs and the audit policy.

The authority and the server's certificate are kept over restarts, as in an embedded lab; all others are made anew.
"""

from __future__ import annotations

import json
import shutil

from trimtab_lab.apiserver.wire.certificates import Identity, Pair, client_credentials, write_kubeconfig
from trimtab_lab.controlplane.commands import AUDIT_POLICY, FRONT_PROXY, Layout
from trimtab_lab.controlplane.versions import CONTROLLER_MANAGER, SCHEDULER

_USERS = (CONTROLLER_MANAGER, SCHEDULER)


def write(layout: Layout, url: str) -> None:
    """Write everything that the binaries read, and remove the data of an earlier control plane."""
    identity = Identity(layout.pki)
    _write_pair(layout, "etcd", identity.server("etcd"))
    for name in ("service-accounts", FRONT_PROXY):
        _write_pair(layout, name, identity.client(name))
    identity.write_kubeconfig(layout.state / "kubeconfig", url)
    for name in _USERS:
        user = client_credentials(identity.client(f"system:{name}"))
        write_kubeconfig(layout.kubeconfig(name), url, identity.authority, name, user)
    layout.audit_policy.write_text(json.dumps(AUDIT_POLICY, indent=2))
    shutil.rmtree(layout.data, ignore_errors=True)
    layout.data.mkdir(mode=0o700)


def _write_pair(layout: Layout, name: str, pair: Pair) -> None:
    pair.write(layout.pki / f"{name}.crt", layout.pki / f"{name}.key")
