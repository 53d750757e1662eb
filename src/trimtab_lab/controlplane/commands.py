"""The command lines of a control plane, as values. Everything listens on loopback.

etcd accepts only client certificates of the lab's authority. The API server runs with RBAC and an audit log. Arguments
of users come last, where they override those of the lab; feature gates of both are merged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trimtab_lab.controlplane import versions
from trimtab_lab.controlplane.versions import API_SERVER, CONTROLLER_MANAGER, ETCD, SCHEDULER, Version

ISSUER = "https://kubernetes.default.svc.cluster.local"
FRONT_PROXY = "front-proxy-client"
SERVICE_RANGE = "10.0.0.0/16"
PROGRESS_INTERVAL = "5s"
"""How often etcd reports the progress of a watch, as kubeadm configures it."""
_LISTENING = ("--secure-port", "--listen-client-urls", "--listen-peer-urls")
_PORT = re.compile(r"(?:^|:)(\d+)(?=$|[,/])")
COMPONENTS = (ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER)

AUDIT_POLICY: Mapping[str, object] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
        {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*", "/version", "/openapi/*"]},
        {"level": "Metadata"},
    ],
}
"""Every request with its user, without bodies; heartbeats and health checks would be most of the log."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of a control plane on this machine."""

    api_server: int
    etcd_client: int
    etcd_peer: int
    controller_manager: int
    scheduler: int


@dataclass(frozen=True, slots=True)
class Customization:
    """What users pass through to the binaries."""

    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    emulated_version: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further arguments by binary."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The folder of a lab, an absolute path, with the files of its control plane."""

    state: Path

    @property
    def pki(self) -> Path:
        """The folder of certificates and keys."""
        return self.state / "pki"

    @property
    def data(self) -> Path:
        """The folder of etcd's data."""
        return self.state / "etcd"

    @property
    def audit_policy(self) -> Path:
        """The audit policy."""
        return self.state / "audit-policy.json"

    @property
    def audit_log(self) -> Path:
        """The audit log."""
        return self.state / "logs" / "audit.log"

    def certificate(self, name: str) -> tuple[str, str]:
        """The certificate and the key of this name."""
        return str(self.pki / f"{name}.crt"), str(self.pki / f"{name}.key")

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig of a component."""
        return self.state / f"{user}.kubeconfig"


@dataclass(frozen=True, slots=True)
class Commands:
    """Builds the arguments of each binary."""

    layout: Layout
    ports: Ports
    versions: Mapping[str, Version]
    customization: Customization = field(default_factory=Customization)

    def arguments(self, name: str) -> tuple[str, ...]:
        """The arguments of a binary, those of the user last."""
        lines = {
            ETCD: self._etcd,
            API_SERVER: self._api_server,
            CONTROLLER_MANAGER: self._controller_manager,
            SCHEDULER: self._scheduler,
        }
        common = () if name == ETCD else self._common(name)
        return (*lines[name](), *common, *self.customization.extra.get(name, ()))

    def _etcd(self) -> Iterator[str]:
        client, peer = (f"https://127.0.0.1:{port}" for port in (self.ports.etcd_client, self.ports.etcd_peer))
        certificate, key = self.layout.certificate("etcd")
        authority = str(self.layout.pki / "ca.crt")
        yield "--name=lab"
        yield f"--data-dir={self.layout.data}"
        yield f"--listen-client-urls={client}"
        yield f"--advertise-client-urls={client}"
        yield f"--listen-peer-urls={peer}"
        yield f"--initial-advertise-peer-urls={peer}"
        yield f"--initial-cluster=lab={peer}"
        for prefix in ("", "peer-"):
            yield f"--{prefix}cert-file={certificate}"
            yield f"--{prefix}key-file={key}"
            yield f"--{prefix}trusted-ca-file={authority}"
            yield f"--{prefix}client-cert-auth=true"
        yield "--unsafe-no-fsync"
        yield "--quota-backend-bytes=8589934592"
        yield "--log-level=warn"
        prefix = "" if versions.has_settled_flags(self.versions[ETCD]) else "experimental-"
        yield f"--{prefix}watch-progress-notify-interval={PROGRESS_INTERVAL}"

    def _api_server(self) -> Iterator[str]:
        pki = self.layout.pki
        certificate, key = self.layout.certificate("server")
        etcd_certificate, etcd_key = self.layout.certificate("etcd")
        yield f"--etcd-servers=https://127.0.0.1:{self.ports.etcd_client}"
        yield f"--etcd-cafile={pki / 'ca.crt'}"
        yield f"--etcd-certfile={etcd_certificate}"
        yield f"--etcd-keyfile={etcd_key}"
        yield "--bind-address=127.0.0.1"
        yield "--advertise-address=127.0.0.1"
        yield "--endpoint-reconciler-type=none"
        yield f"--secure-port={self.ports.api_server}"
        yield f"--cert-dir={pki}"
        yield f"--tls-cert-file={certificate}"
        yield f"--tls-private-key-file={key}"
        yield f"--client-ca-file={pki / 'ca.crt'}"
        yield "--authorization-mode=Node,RBAC"
        yield "--allow-privileged=true"
        yield f"--service-account-issuer={ISSUER}"
        yield f"--service-account-key-file={pki / 'service-accounts.crt'}"
        yield f"--service-account-signing-key-file={pki / 'service-accounts.key'}"
        yield f"--service-cluster-ip-range={SERVICE_RANGE}"
        yield from self._aggregation()
        yield f"--audit-policy-file={self.layout.audit_policy}"
        yield f"--audit-log-path={self.layout.audit_log}"
        yield "--audit-log-maxsize=100"
        yield "--audit-log-maxbackup=2"
        if CONTROLLER_MANAGER not in self.versions:  # which would create the ServiceAccounts that pods run as
            yield "--disable-admission-plugins=ServiceAccount"

    def _aggregation(self) -> Iterator[str]:
        """For aggregated API servers; the controller manager and the scheduler read these settings as well."""
        certificate, key = self.layout.certificate(FRONT_PROXY)
        yield f"--requestheader-client-ca-file={self.layout.pki / 'ca.crt'}"
        yield f"--requestheader-allowed-names={FRONT_PROXY}"
        yield "--requestheader-username-headers=X-Remote-User"
        yield "--requestheader-group-headers=X-Remote-Group"
        yield "--requestheader-extra-headers-prefix=X-Remote-Extra-"
        yield f"--proxy-client-cert-file={certificate}"
        yield f"--proxy-client-key-file={key}"

    def _controller_manager(self) -> Iterator[str]:
        yield from self._client(CONTROLLER_MANAGER, self.ports.controller_manager)
        yield f"--service-account-private-key-file={self.layout.pki / 'service-accounts.key'}"
        yield f"--root-ca-file={self.layout.pki / 'ca.crt'}"
        yield "--use-service-account-credentials=true"

    def _scheduler(self) -> Iterator[str]:
        yield from self._client(SCHEDULER, self.ports.scheduler)

    def _client(self, name: str, port: int) -> Iterator[str]:
        certificate, key = self.layout.certificate("server")
        kubeconfig = self.layout.kubeconfig(name)
        for flag in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"):
            yield f"--{flag}={kubeconfig}"
        yield "--bind-address=127.0.0.1"
        yield f"--secure-port={port}"
        yield f"--tls-cert-file={certificate}"
        yield f"--tls-private-key-file={key}"
        yield "--leader-elect=false"

    def _common(self, name: str) -> Iterator[str]:
        gates = {**self._needed_gates(name), **self.customization.feature_gates}
        if gates:
            yield "--feature-gates=" + ",".join(f"{gate}={str(value).lower()}" for gate, value in gates.items())
        if self.customization.emulated_version:
            yield f"--emulated-version={self.customization.emulated_version}"

    def _needed_gates(self, name: str) -> dict[str, bool]:
        """Without progress of watches on request, the API server rejects streaming lists: better not offer them."""
        is_needed = name == API_SERVER and not versions.supports_watch_progress(self.versions[ETCD])
        return {"WatchList": False} if is_needed else {}


def listening_ports(arguments: Sequence[str]) -> tuple[int, ...]:
    """The ports on which a binary with these arguments listens; of a repeated flag, the last one counts."""
    flags = dict(argument.partition("=")[::2] for argument in arguments)
    texts = [flags[name] for name in _LISTENING if name in flags]
    return tuple(int(port) for text in texts for port in _PORT.findall(text))


def parse_gates(texts: tuple[str, ...]) -> dict[str, bool]:
    """Parse feature gates as Kubernetes writes them: `A=true,B=false`. Raises ValueError."""
    gates: dict[str, bool] = {}
    for part in (part.strip() for text in texts for part in text.split(",") if part.strip()):
        name, _, value = part.partition("=")
        if value not in ("true", "false"):
            raise ValueError(f'"{part}" is not a feature gate; write Name=true or Name=false')
        gates[name] = value == "true"
    return gates


def parse_extra(texts: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Parse further arguments: `kube-apiserver=--v=4`. Raises ValueError."""
    extra: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, _, argument = text.partition("=")
        if name not in COMPONENTS or not argument.startswith("-"):
            raise ValueError(f'"{text}" is not NAME=--FLAG, where NAME is one of {", ".join(COMPONENTS)}')
        extra[name] = (*extra.get(name, ()), argument)
    return extra
