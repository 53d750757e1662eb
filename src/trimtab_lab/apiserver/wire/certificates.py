"""The lab's certificates: an authority, the certificates that it signs, and the kubeconfig that trusts it.

The authority and the key of the server are kept in the state folder, so that a kubeconfig stays valid when the server
is restarted. trustme makes them: elliptic keys, and certificates that are valid for years.
"""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import trustme
import yaml

_ADDRESSES = ("127.0.0.1", "::1", "10.0.0.1")
_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_ORGANIZATION = "trimtab-lab"
_PERSON = "client@trimtab.invalid"
"""The alternative name of a client's certificate, which must have one; API servers read the subject alone."""
ADMIN = "kubernetes-admin"
MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes

    def write(self, certificate: Path, key: Path) -> None:
        """Write the pair to two files; only the owner can read the key."""
        certificate.write_bytes(self.certificate)
        key.touch(mode=0o600)
        key.write_bytes(self.key)


class Identity:
    """The authority and the certificate of a server, kept in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder = folder
        self._server = folder / "server.crt", folder / "server.key"
        self._authority = self._load()

    @property
    def authority(self) -> bytes:
        """The certificate of the authority, PEM."""
        return self._authority.cert_pem.bytes()

    def server(self, name: str) -> Pair:
        """A certificate for a server on this machine."""
        return self._signed(*_ADDRESSES, *_NAMES, name=name)

    def client(self, user: str, group: str = _ORGANIZATION) -> Pair:
        """A client certificate: the common name is the user, the organization is the group."""
        return self._signed(_PERSON, name=user, group=group)

    def _signed(self, *identities: str, name: str, group: str = _ORGANIZATION) -> Pair:
        issued = self._authority.issue_cert(
            *identities, common_name=name, organization_name=group, organization_unit_name="lab"
        )
        return Pair(issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes())

    def ssl_context(self) -> ssl.SSLContext:
        """The server's TLS context: client certificates of the authority are optional."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(*self._server)
        context.load_verify_locations(cadata=self.authority.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        context.set_alpn_protocols(["http/1.1"])
        return context

    def write_kubeconfig(self, path: Path, url: str, context: str = "lab") -> None:
        """Write a kubeconfig for an administrator."""
        user = client_credentials(self.client(ADMIN, MASTERS))
        write_kubeconfig(path, url, self.authority, ADMIN, user, context=context)

    def _load(self) -> trustme.CA:
        certificate, key = self.folder / "ca.crt", self.folder / "ca.key"
        if certificate.exists() and key.exists() and self._server[0].exists():
            return trustme.CA.from_pem(certificate.read_bytes(), key.read_bytes())
        self._authority = trustme.CA(organization_name=_ORGANIZATION, organization_unit_name="authority")
        Pair(self.authority, self._authority.private_key_pem.bytes()).write(certificate, key)
        self.server("kube-apiserver").write(*self._server)
        return self._authority


def client_credentials(pair: Pair) -> dict[str, str]:
    """The user of a kubeconfig who presents a client certificate."""
    return {"client-certificate-data": _base64(pair.certificate), "client-key-data": _base64(pair.key)}


def write_kubeconfig(
    path: Path, url: str, authority: bytes, name: str, user: Mapping[str, str], *, context: str = "lab"
) -> None:
    """Write a kubeconfig for a user, which only its owner can read, in one step."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": context, "cluster": {"server": url, "certificate-authority-data": _base64(authority)}}],
        "users": [{"name": name, "user": dict(user)}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": name}}],
        "current-context": context,
    }
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.touch(mode=0o600)
    partial.write_text(yaml.safe_dump(config, sort_keys=False))
    partial.replace(path)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
