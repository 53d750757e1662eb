"""Installations as facts: a healthy one, from which each test takes something away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from trimtab.admission.certificate_authority import Keyring, make_authority, sign
from trimtab.admission.certificates import secret_data
from trimtab.api import crds
from trimtab.api.documents import JSON
from trimtab.doctor.facts import Facts
from trimtab.install import deployments, reviews
from trimtab.install.options import Options, account

NOW = datetime(2026, 11, 16, 3, 0, tzinfo=UTC)
SERVICE = "trimtab-webhooks.trimtab-system.svc"


def keyring(*, made: datetime = NOW, names: Sequence[str] = (SERVICE,)) -> Keyring:
    """The certificates of an installation."""
    authority = make_authority(made)
    return Keyring(authority, sign(authority, names, made))


def secret(ring: Keyring) -> JSON:
    """The Secret that holds them."""
    metadata = {"namespace": "trimtab-system", "name": "trimtab-webhooks"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": secret_data(ring)}


def lease(
    component: str, *, age: float = 2.0, ahead: float = 0.0, has_fields: bool = True, holder: str = "a_1"
) -> JSON:
    """A lease that was renewed so many seconds ago, by a process whose clock is ahead."""
    written = NOW - timedelta(seconds=age)
    fields = {"time": f"{written:%Y-%m-%dT%H:%M:%SZ}", "fieldsV1": {"f:spec": {"f:renewTime": {}}}}
    renewed = f"{written + timedelta(seconds=ahead):%Y-%m-%dT%H:%M:%S.%fZ}"
    metadata: JSON = {"namespace": "trimtab-system", "name": account(component)}
    metadata |= {"managedFields": [fields]} if has_fields else {}
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def definition(kind: crds.CustomKind, *, is_established: bool = True) -> JSON:
    """A definition of ours as the API server has it."""
    status = {"conditions": [{"type": "Established", "status": str(is_established)}]}
    return {**crds.manifest(kind), "status": status}


def registration(options: Options, ring: Keyring) -> list[JSON]:
    """The webhook configurations, with the CA bundle."""
    return list(reviews.manifests(replace(options, ca_bundle=ring.bundle)))


def running(options: Options) -> list[JSON]:
    """The Deployments, with all pods ready."""
    found = [each for each in deployments.manifests(options) if each["kind"] == "Deployment"]
    return [{**each, "status": {"readyReplicas": each["spec"]["replicas"]}} for each in found]


def healthy(**changes: Any) -> Facts:
    """An installation in which nothing is wrong."""
    options, ring = Options(), keyring()
    (stored,) = (each for each in deployments.manifests(options) if each["kind"] == "ConfigMap")
    text = stored["data"][deployments.CONFIGURATION_FILE]
    facts = Facts(
        namespace="trimtab-system",
        now=NOW,
        configuration_text=text,
        options=options,
        server_version="v1.36.4",
        deployments=running(options),
        definitions=[definition(kind) for kind in crds.KINDS],
        webhooks=registration(options, ring),
        slices=[{"endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}]}],
        secrets=[secret(ring)],
        leases=[lease(component) for component in options.components],
    )
    return replace(facts, **changes)
