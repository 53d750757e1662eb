"""The serving certificate of the admission server: managed by Trimtab, or read from an administrator's files.

`ManagedCertificates` keeps a keyring (see `certificate_authority`) in a Secret that all replicas read. Only the leader
writes it, and writes the CA bundle into the webhook configurations. A replica that has no certificate yet is not ready.

`FileCertificates` reads files again when they change, as cert-manager or a kubelet changes them. The configurations'
`caBundle` is then up to the administrator.

A new certificate is loaded into the TLS context in use: open connections continue, new ones get the new certificate.

A replica is healthy while its certificate is valid: API servers do not call a replica that is not ready, and taking it
out of service would help nothing. Problems with the next certificate are logged. Whether a certificate is valid is
decided by the API server's clock.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import logging
import ssl
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from trimtab.admission.certificate_authority import KeyPair, Keyring, invalid_reason, renew
from trimtab.api.documents import JSON
from trimtab.kube.client import Client, PatchKind
from trimtab.kube.clock_offset import describe_offset
from trimtab.kube.clocks import SECOND, Clock
from trimtab.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from trimtab.kube.resources import Resource, untyped
from trimtab.kube.server_time import ServerTime

SECRETS = untyped("v1", "Secret", "secrets")
CONFIGURATIONS: Mapping[str, Resource[JSON]] = {
    kind: untyped("admissionregistration.k8s.io/v1", kind, f"{kind.lower()}s", namespaced=False)
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
}
CHECK_INTERVAL = 10.0
"""Seconds between checks for changes."""
_INTERVAL_WITHOUT_CERTIFICATE = 1.0
"""The same while there is no certificate: no review is answered until then."""

log = logging.getLogger(__name__)


def always() -> bool:
    """The `is_leader` of a process that runs alone."""
    return True


class _ServingContext:
    """A TLS context, and the key pair that it serves."""

    def __init__(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        self.pair: KeyPair | None = None
        self.loaded = asyncio.Event()
        self._warned_about: KeyPair | None = None
        self._invalid = ""

    def load(self, pair: KeyPair) -> None:
        """Serve this key pair from now on. The library takes files only; they are deleted before this returns."""
        if pair == self.pair:
            return
        with tempfile.TemporaryDirectory(prefix="trimtab-") as folder:
            certificate, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
            certificate.write_bytes(pair.certificate)
            key.touch(mode=0o600)
            key.write_bytes(pair.key)
            self.context.load_cert_chain(certificate, key, password="")  # an encrypted key fails, without a prompt
        self.pair = pair
        self.loaded.set()

    def problems(self, problem: str, server_time: ServerTime) -> list[str]:
        """Why API servers cannot trust us right now; `problem` is what is wrong with the next certificate."""
        invalid = self._validity_problem(server_time)
        if self.pair is not None and not invalid:
            return []
        return [each for each in (invalid, problem) if each]

    def _validity_problem(self, server_time: ServerTime) -> str:
        return "" if self.pair is None else _validity_problem(self.pair, server_time)

    def warn(self, server_time: ServerTime) -> None:
        """Log once that the certificate is invalid, or that it has not been renewed in time."""
        invalid = self._validity_problem(server_time)
        if invalid and not self._invalid:
            log.warning("%s; API servers refuse it until it is replaced", invalid)
        self._invalid = invalid
        self._warn_before_expiry(_now(server_time))

    def _warn_before_expiry(self, now: datetime) -> None:
        """Log once per certificate that it has not been renewed, when a tenth of its lifetime is left."""
        pair = self.pair
        if (
            pair is not None
            and pair is not self._warned_about
            and now >= pair.expires - (pair.expires - pair.valid_from) / 10
        ):
            self._warned_about = pair
            log.warning(
                "the webhook certificate expires at %s and has not been renewed; check what renews it",
                pair.expires.isoformat(),
            )


class _Certificates:
    """What the server asks of certificates, wherever they come from."""

    def __init__(self, clock: Clock, server_time: ServerTime, interval: float) -> None:
        self._clock = clock
        self._server_time = server_time
        self._interval = interval
        self._serving = _ServingContext()
        self._problem = ""

    @property
    def context(self) -> ssl.SSLContext:
        """The TLS context for new connections."""
        return self._serving.context

    @property
    def pair(self) -> KeyPair | None:
        """The key pair that new connections are served with."""
        return self._serving.pair

    @property
    def synced(self) -> bool:
        """Whether there is a certificate."""
        return self._serving.pair is not None

    @property
    def problems(self) -> list[str]:
        """Why API servers cannot trust the certificate."""
        return self._serving.problems(self._problem, self._server_time)

    async def ready(self) -> None:
        """Wait until there is a certificate."""
        await self._serving.loaded.wait()


class FileCertificates(_Certificates):
    """The serving certificate in files that an administrator keeps current."""

    def __init__(
        self,
        certificate: Path,
        key: Path,
        *,
        clock: Clock,
        server_time: ServerTime | None = None,
        interval: float = CHECK_INTERVAL,
    ) -> None:
        super().__init__(clock, server_time or ServerTime(clock), interval)
        self._files = (certificate, key)

    @property
    def trusted(self) -> bytes:
        """The certificate itself: who signed it is not known here."""
        return self.pair.certificate if self.pair is not None else b""

    async def run(self) -> None:
        """Read the files whenever they change, until cancelled."""
        while True:
            self.check()
            self._serving.warn(self._server_time)
            await self._clock.sleep(self._interval)

    def check(self) -> None:
        """Read the files. While they do not match, as when only one has been replaced, the old pair stays in use."""
        try:
            certificate, key = (path.read_bytes() for path in self._files)
            self._serving.load(KeyPair(certificate, key))
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            problem = f"{self._files[0]}: {error}"
            if problem != self._problem:
                log.warning("the webhook certificate cannot be loaded: %s", problem)
            self._problem = problem
        else:
            self._problem = ""


class ManagedCertificates(_Certificates):
    """A keyring in a Secret, kept current by the leader.

    `names` are the DNS names and addresses that API servers call (`trimtab-webhooks.trimtab-system.svc`);
    `configurations` are the webhook configurations to write the CA bundle to, each as kind and name.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        names: Sequence[str],
        configurations: Sequence[tuple[str, str]] = (),
        is_leader: Callable[[], bool] = always,
        interval: float = CHECK_INTERVAL,
    ) -> None:
        super().__init__(client.clock, client.server_time, interval)
        self._client = client
        self._namespace = namespace
        self._name = name
        self._names = tuple(names)
        self._configurations = tuple(configurations)
        self._is_leader = is_leader
        self._bundle = b""

    @property
    def trusted(self) -> bytes:
        """The CA bundle of the keyring."""
        return self._bundle

    async def run(self) -> None:
        """Keep the keyring, the context and the webhook configurations current, until cancelled."""
        while True:
            try:
                await self.check()
                self._problem = ""
            except (AlreadyExists, Conflict):
                pass  # another replica wrote first: the next check reads what it wrote
            except (KubeError, OSError, ValueError) as error:  # ssl.SSLError is an OSError
                log.warning("webhook certificates: %s", error)
                self._problem = str(error)
            self._serving.warn(self._server_time)
            shorter = min(self._interval, _INTERVAL_WITHOUT_CERTIFICATE)
            await self._clock.sleep(self._interval if self.synced else shorter)

    async def check(self) -> None:
        """Read the keyring; as the leader, renew what is due, then publish the CA bundle."""
        secret = await self._secret()
        keyring = None if secret is None else keyring_in(secret)
        if self._is_leader():
            wanted = renew(keyring, self._names, _now(self._server_time))
            if wanted != keyring:
                await self._write(secret, wanted)
                reason = "" if keyring is None else _validity_problem(keyring.serving, self._server_time)
                log.log(
                    logging.WARNING if reason else logging.INFO,
                    "the webhook certificates were renewed%s",
                    f": {reason}" if reason else "",
                )
            keyring = wanted
            await self._publish(keyring.bundle)
        if keyring is not None:
            self._bundle = keyring.bundle
            self._serving.load(keyring.serving)

    async def _secret(self) -> JSON | None:
        try:
            return await self._client.get(SECRETS, self._name, namespace=self._namespace)
        except NotFound:
            return None

    async def _write(self, secret: JSON | None, keyring: Keyring) -> None:
        data = secret_data(keyring)
        if secret is None:
            metadata = {"name": self._name, "labels": {"app.kubernetes.io/managed-by": "trimtab"}}
            body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
            await self._client.create(SECRETS, body, namespace=self._namespace)
            return
        stale = dict.fromkeys(secret.get("data") or {})
        patch = {
            "metadata": {"resourceVersion": secret["metadata"]["resourceVersion"]},
            "data": {**stale, **data},
        }
        await self._client.patch(SECRETS, self._name, patch, namespace=self._namespace)

    async def _publish(self, bundle: bytes) -> None:
        """Write the CA bundle into the webhook configurations."""
        text = base64.b64encode(bundle).decode()
        for kind, name in self._configurations:
            resource = CONFIGURATIONS[kind]
            with contextlib.suppress(NotFound):  # not installed, or not yet: the next check finds it
                configuration = await self._client.get(resource, name)
                patch = _bundle_patch(configuration, text)
                if patch:
                    await self._client.patch(resource, name, patch, how=PatchKind.JSON)


def secret_data(keyring: Keyring) -> dict[str, str]:
    """The `data` of the Secret that holds a keyring."""
    parts = {
        "ca.crt": keyring.authority.certificate,
        "ca.key": keyring.authority.key,
        "tls.crt": keyring.serving.certificate,
        "tls.key": keyring.serving.key,
    }
    if keyring.next_authority is not None:
        parts |= {"next-ca.crt": keyring.next_authority.certificate, "next-ca.key": keyring.next_authority.key}
    if keyring.previous_certificate is not None:
        parts["previous-ca.crt"] = keyring.previous_certificate
    return {name: base64.b64encode(part).decode() for name, part in parts.items()}


def keyring_in(secret: JSON) -> Keyring | None:
    """The keyring in a Secret; None if it is incomplete, and has to be created again."""
    try:
        parts = {name: base64.b64decode(text) for name, text in (secret.get("data") or {}).items()}
        upcoming = KeyPair(parts["next-ca.crt"], parts["next-ca.key"]) if "next-ca.crt" in parts else None
        keyring = Keyring(
            KeyPair(parts["ca.crt"], parts["ca.key"]),
            KeyPair(parts["tls.crt"], parts["tls.key"]),
            upcoming,
            parts.get("previous-ca.crt"),
        )
        for pair in (keyring.authority, keyring.serving, *([upcoming] if upcoming else [])):
            _ = pair.expires
    except (KeyError, ValueError, binascii.Error):
        return None
    return keyring


def _bundle_patch(configuration: JSON, text: str) -> list[JSON]:
    """A JSON patch that sets the CA bundle of every webhook; each step tests the webhook's name first."""
    patch: list[JSON] = []
    for at, hook in enumerate(configuration.get("webhooks") or ()):
        if hook.get("clientConfig", {}).get("caBundle") != text:
            patch.append({"op": "test", "path": f"/webhooks/{at}/name", "value": hook["name"]})
            patch.append({"op": "add", "path": f"/webhooks/{at}/clientConfig/caBundle", "value": text})
    return patch


def _validity_problem(pair: KeyPair, server_time: ServerTime) -> str:
    """Why a certificate is not valid by the API server's clock, with the offset of ours; empty if it is."""
    reason = invalid_reason(pair.certificate, _now(server_time))
    difference = describe_offset(server_time)
    return f"{reason} by the API server's clock ({difference})" if reason and difference else reason


def _now(server_time: ServerTime) -> datetime:
    return datetime.fromtimestamp(server_time.now() / SECOND, UTC)
