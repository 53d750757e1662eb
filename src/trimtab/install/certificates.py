"""The certificate of the webhooks, if cert-manager issues it: the Certificate, its issuer, and the mounted Secret.

cert-manager keeps the Secret of a Certificate current, and writes its CA into every webhook configuration with the
annotation `cert-manager.io/inject-ca-from`. The webhooks read the Secret as files. So they need no permission to write
Secrets or webhook configurations.
"""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.api.configuration import CERT_MANAGER_FOLDER
from trimtab.api.documents import JSON
from trimtab.install.options import NAME, Options

CERTIFICATE = f"{NAME}-webhooks"
ISSUER = f"{NAME}-self-signed"
INJECT = "cert-manager.io/inject-ca-from"
MOUNT: JSON = {"name": "certificates", "mountPath": CERT_MANAGER_FOLDER, "readOnly": True}

_API = "cert-manager.io/v1"


def manifests(options: Options) -> Iterator[JSON]:
    """The Certificate and, unless the configuration names an issuer, one that signs itself."""
    if not are_mounted(options, "webhooks") or "webhooks" not in options.components:
        return
    issuer = options.read().webhooks.certificates.issuer
    if issuer is None:
        yield _object("Issuer", ISSUER, options, {"selfSigned": {}})
        reference = {"name": ISSUER, "kind": "Issuer", "group": "cert-manager.io"}
    else:
        reference = {"name": issuer.name, "kind": issuer.kind, "group": issuer.group}
    yield _object("Certificate", CERTIFICATE, options, _spec(options, reference))


def are_mounted(options: Options, component: str) -> bool:
    """Whether a component's pods read a Secret of cert-manager."""
    return component == "webhooks" and options.read().webhooks.certificates.source == "CertManager"


def volume(options: Options) -> JSON:
    """The volume of the Secret. Pods start when cert-manager has created it."""
    name = options.read().webhooks.certificates.stored_in
    return {"name": MOUNT["name"], "secret": {"secretName": name}}


def injection(options: Options) -> dict[str, str]:
    """The annotation of webhook configurations whose CA bundle cert-manager keeps current; none for other sources."""
    return {INJECT: f"{options.namespace}/{CERTIFICATE}"} if are_mounted(options, "webhooks") else {}


def _spec(options: Options, issuer: JSON) -> JSON:
    """Our label on the Secret says that it may be removed with the installation."""
    webhooks = options.read().webhooks
    name = f"{webhooks.service}.{options.namespace}.svc"
    return {
        "secretName": webhooks.certificates.stored_in,
        "secretTemplate": {"labels": options.labels("webhooks")},
        "dnsNames": [name, f"{name}.cluster.local"],
        "issuerRef": issuer,
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
        "usages": ["digital signature", "server auth"],
    }


def _object(kind: str, name: str, options: Options, spec: JSON) -> JSON:
    metadata = {"namespace": options.namespace, "name": name, "labels": options.labels("webhooks")}
    return {"apiVersion": _API, "kind": kind, "metadata": metadata, "spec": spec}
