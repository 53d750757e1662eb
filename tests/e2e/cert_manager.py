"""A stand-in for cert-manager: its kinds, what its controller writes for a Certificate, and its CA injector.

It writes what cert-manager 1.21 writes for an issuer that signs itself: a certificate without a subject, signed by its
own key, in a Secret whose `ca.crt` is the same certificate, and which names the Certificate in an annotation. The
injector takes the CA from a Secret with that annotation only.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from trimtab.admission.certificates import CONFIGURATIONS, SECRETS
from trimtab.api.documents import JSON
from trimtab.kube.client import Client
from trimtab.kube.errors import NotFound
from trimtab.kube.resources import untyped

GROUP = "cert-manager.io"
CERTIFICATES = untyped(f"{GROUP}/v1", "Certificate", "certificates")
ISSUERS = untyped(f"{GROUP}/v1", "Issuer", "issuers")
_INJECT = f"{GROUP}/inject-ca-from"
_OWNER = f"{GROUP}/certificate-name"


def definitions() -> Iterator[JSON]:
    """The definitions of the kinds that an installation of Trimtab has objects of."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    for each in (CERTIFICATES, ISSUERS):
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{each.plural}.{GROUP}"},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {"kind": each.kind, "plural": each.plural},
                "versions": [version],
            },
        }


async def issue(client: Client) -> None:
    """Write the Secret of every Certificate, with a new key: the first time, and at each renewal."""
    for certificate in (await client.list(CERTIFICATES)).items:
        secret = _secret(certificate)
        name, namespace = secret["metadata"]["name"], secret["metadata"]["namespace"]
        try:
            await client.patch(SECRETS, name, {"data": secret["data"]}, namespace=namespace)
        except NotFound:
            await client.create(SECRETS, secret, namespace=namespace)


async def inject(client: Client) -> None:
    """Write the CA of the Certificate that a webhook configuration names into each of its webhooks."""
    for resource in CONFIGURATIONS.values():
        for each in (await client.list(resource)).items:
            source = (each["metadata"].get("annotations") or {}).get(_INJECT)
            if source:
                authority = await _authority(client, *source.split("/"))
                for webhook in each["webhooks"]:
                    webhook["clientConfig"]["caBundle"] = authority
                await client.replace(resource, each)


async def _authority(client: Client, namespace: str, name: str) -> str:
    certificate = await client.get(CERTIFICATES, name, namespace=namespace)
    secret = await client.get(SECRETS, certificate["spec"]["secretName"], namespace=namespace)
    assert secret["metadata"]["annotations"][_OWNER] == name
    return str(secret["data"]["ca.crt"])


def _secret(certificate: JSON) -> JSON:
    metadata, spec = certificate["metadata"], certificate["spec"]
    chain, key = _self_signed(spec["dnsNames"])
    parts = {"tls.crt": chain, "tls.key": key, "ca.crt": chain}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {
            "namespace": metadata["namespace"],
            "name": spec["secretName"],
            "labels": {**spec["secretTemplate"]["labels"], f"controller.{GROUP}/fao": "true"},
            "annotations": {_OWNER: metadata["name"]},
        },
        "data": {name: base64.b64encode(part).decode() for name, part in parts.items()},
    }


def _self_signed(names: Sequence[str]) -> tuple[bytes, bytes]:
    """A certificate for these names that is signed by its own key, and the key (PEM)."""
    key, now, nameless = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC), x509.Name([])
    builder = (
        x509.CertificateBuilder(nameless, nameless, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=90))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=True)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), private
