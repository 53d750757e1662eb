"""What the webhook server proves who it is with: certificates that Trimtab makes and renews, or that it is given.

`MadeCertificates` keeps a keyring (see `authorities`) in a Secret that all replicas read. Only the leader writes it,
and writes the bundle of authorities into the webhook configurations; the others take what they find. A replica that has
no certificate yet waits for one: it is not ready, and nobody asks it.

`GivenCertificates` are an administrator's files, read again when they change, as cert-manager or a kubelet changes
them. The configurations' `caBundle` is then the administrator's matter too.

A certificate is put into the context in use: connections that are open go on, new ones get the new certificate.

While a certificate is good that is all that counts for health: API servers do not ask a replica that is not ready, and
nobody would be helped by that. What is wrong with the next one, or that nobody renews it, is said in the log.
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

from trimtab.admission.authorities import Keyring, Pair, renewed
from trimtab.api.documents import JSON
from trimtab.kube.client import Client, PatchKind
from trimtab.kube.clocks import SECOND, Clock
from trimtab.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from trimtab.kube.resources import Resource, untyped

SECRETS = untyped("v1", "Secret", "secrets")
CONFIGURATIONS: Mapping[str, Resource[JSON]] = {
    kind: untyped("admissionregistration.k8s.io/v1", kind, f"{kind.lower()}s", namespaced=False)
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
}
LOOK_EVERY = 10.0
"""Seconds between looks at what may have changed."""
_WITHOUT_ONE = 1.0
"""The same while there is no certificate, for nobody is served until then."""

log = logging.getLogger(__name__)


def always() -> bool:
    """For a process that is alone: it may write."""
    return True


class _Context:
    """A TLS context, and the pair that it shows at present."""

    def __init__(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        self.pair: Pair | None = None
        self._loaded = asyncio.Event()
        self._ending: Pair | None = None

    @property
    def loaded(self) -> bool:
        return self.pair is not None

    async def wait(self) -> None:
        await self._loaded.wait()

    def show(self, pair: Pair) -> None:
        """Use a pair from now on. The library takes files only; they are gone when this returns."""
        if pair == self.pair:
            return
        with tempfile.TemporaryDirectory(prefix="trimtab-") as folder:
            certificate, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
            certificate.write_bytes(pair.certificate)
            key.touch(mode=0o600)
            key.write_bytes(pair.key)
            self.context.load_cert_chain(
                certificate, key, password=""
            )  # an encrypted key fails at once, and asks nobody
        self.pair = pair
        self._loaded.set()

    def problems(self, problem: str, now: datetime) -> list[str]:
        """What keeps API servers from trusting us right now; `problem` is what is wrong with the next certificate."""
        if self.pair is not None and now < self.pair.ends:
            return []
        ended = "" if self.pair is None else "the webhook certificate has ended"
        return [each for each in (ended, problem) if each]

    def watch_its_end(self, now: datetime) -> None:
        """Say once of a certificate that nobody has renewed it, when a tenth of its life is left."""
        pair = self.pair
        if pair is not None and pair is not self._ending and now >= pair.ends - (pair.ends - pair.made) / 10:
            self._ending = pair
            log.warning("the webhook certificate ends at %s, and has not been renewed", pair.ends.isoformat())


class GivenCertificates:
    """Files that somebody else keeps current."""

    def __init__(self, certificate: Path, key: Path, *, clock: Clock, look_every: float = LOOK_EVERY) -> None:
        self._files = (certificate, key)
        self._clock = clock
        self._look_every = look_every
        self._shown = _Context()
        self._problem = ""

    @property
    def context(self) -> ssl.SSLContext:
        """For new connections."""
        return self._shown.context

    @property
    def synced(self) -> bool:
        """Whether there is a certificate."""
        return self._shown.loaded

    @property
    def problems(self) -> list[str]:
        """What is wrong with the files."""
        return self._shown.problems(self._problem, _now(self._clock))

    async def ready(self) -> None:
        """Wait until there is a certificate."""
        await self._shown.wait()

    async def run(self) -> None:
        """Read the files whenever they change, until cancelled."""
        while True:
            self.look()
            self._shown.watch_its_end(_now(self._clock))
            await self._clock.sleep(self._look_every)

    def look(self) -> None:
        """Read the files. While they do not fit each other, as when only one has been replaced, the old ones stay."""
        try:
            certificate, key = (path.read_bytes() for path in self._files)
            self._shown.show(Pair(certificate, key))
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            problem = f"{self._files[0]}: {error}"
            if problem != self._problem:
                log.warning("the webhook certificate cannot be used: %s", problem)
            self._problem = problem
        else:
            self._problem = ""


class MadeCertificates:
    """A keyring in a Secret, kept current by the leader.

    `names` are the names and addresses that API servers use for us (`trimtab-webhooks.trimtab-system.svc`);
    `configurations` the webhook configurations to keep the bundle in, each as kind and name.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        names: Sequence[str],
        configurations: Sequence[tuple[str, str]] = (),
        leads: Callable[[], bool] = always,
        look_every: float = LOOK_EVERY,
    ) -> None:
        self._client = client
        self._clock = client.clock
        self._namespace = namespace
        self._name = name
        self._names = tuple(names)
        self._configurations = tuple(configurations)
        self._leads = leads
        self._look_every = look_every
        self._shown = _Context()
        self._problem = ""

    @property
    def context(self) -> ssl.SSLContext:
        """For new connections."""
        return self._shown.context

    @property
    def synced(self) -> bool:
        """Whether there is a certificate."""
        return self._shown.loaded

    @property
    def problems(self) -> list[str]:
        """What keeps the certificate from being current."""
        return self._shown.problems(self._problem, _now(self._clock))

    async def ready(self) -> None:
        """Wait until there is a certificate."""
        await self._shown.wait()

    async def run(self) -> None:
        """Keep everything current until cancelled."""
        while True:
            try:
                await self.look()
                self._problem = ""
            except (AlreadyExists, Conflict):
                pass  # somebody else was faster: the next look sees what they wrote
            except (KubeError, OSError, ValueError) as error:  # ssl.SSLError is an OSError
                log.warning("webhook certificates: %s", error)
                self._problem = str(error)
            self._shown.watch_its_end(_now(self._clock))
            await self._clock.sleep(self._look_every if self.synced else min(self._look_every, _WITHOUT_ONE))

    async def look(self) -> None:
        """Read the keyring; as the leader, renew what is due and publish the bundle, in that order."""
        secret = await self._secret()
        keyring = None if secret is None else read(secret)
        if self._leads():
            wanted = renewed(keyring, self._names, _now(self._clock))
            if wanted != keyring:
                await self._write(secret, wanted)
                log.info("webhook certificates are renewed")
            keyring = wanted
            await self._publish(keyring.bundle)
        if keyring is not None:
            self._shown.show(keyring.serving)

    async def _secret(self) -> JSON | None:
        try:
            return await self._client.get(SECRETS, self._name, namespace=self._namespace)
        except NotFound:
            return None

    async def _write(self, secret: JSON | None, keyring: Keyring) -> None:
        data = written(keyring)
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
        """Have API servers trust these authorities."""
        text = base64.b64encode(bundle).decode()
        for kind, name in self._configurations:
            resource = CONFIGURATIONS[kind]
            with contextlib.suppress(NotFound):  # not installed, or not yet: the next look sees it
                found = await self._client.get(resource, name)
                patch = _bundle_patch(found, text)
                if patch:
                    await self._client.patch(resource, name, patch, how=PatchKind.JSON)


def written(keyring: Keyring) -> dict[str, str]:
    """The `data` of a Secret."""
    parts = {
        "ca.crt": keyring.authority.certificate,
        "ca.key": keyring.authority.key,
        "tls.crt": keyring.serving.certificate,
        "tls.key": keyring.serving.key,
    }
    if keyring.following is not None:
        parts |= {"next-ca.crt": keyring.following.certificate, "next-ca.key": keyring.following.key}
    if keyring.before is not None:
        parts["previous-ca.crt"] = keyring.before
    return {name: base64.b64encode(part).decode() for name, part in parts.items()}


def read(secret: JSON) -> Keyring | None:
    """The keyring in a Secret; None where it is not whole, and has to be made anew."""
    try:
        parts = {name: base64.b64decode(text) for name, text in (secret.get("data") or {}).items()}
        following = Pair(parts["next-ca.crt"], parts["next-ca.key"]) if "next-ca.crt" in parts else None
        keyring = Keyring(
            Pair(parts["ca.crt"], parts["ca.key"]),
            Pair(parts["tls.crt"], parts["tls.key"]),
            following,
            parts.get("previous-ca.crt"),
        )
        for pair in (keyring.authority, keyring.serving, *([following] if following else [])):
            _ = pair.ends
    except (KeyError, ValueError, binascii.Error):
        return None
    return keyring


def _bundle_patch(configuration: JSON, text: str) -> list[JSON]:
    """What brings the bundle of every webhook up to date; each step holds for the webhook of that name alone."""
    patch: list[JSON] = []
    for at, hook in enumerate(configuration.get("webhooks") or ()):
        if hook.get("clientConfig", {}).get("caBundle") != text:
            patch.append({"op": "test", "path": f"/webhooks/{at}/name", "value": hook["name"]})
            patch.append({"op": "add", "path": f"/webhooks/{at}/clientConfig/caBundle", "value": text})
    return patch


def _now(clock: Clock) -> datetime:
    return datetime.fromtimestamp(clock.now() / SECOND, UTC)
