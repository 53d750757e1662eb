"""How callers are authenticated, and what they may see.

| who serves it | callers | may see |
|---|---|---|
| `trimtab dashboard` on loopback | whoever is on this machine | everything that the kubeconfig may list |
| `trimtab dashboard` beyond loopback | whoever has the token | the same |
| `trimtab run` | users of the API server (TokenReview) | what they may list themselves (SubjectAccessReview) |

Answers of the API server count for a short while. A caller who may list pods nowhere sees an empty cluster.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from trimtab.api.core import Namespace
from trimtab.api.documents import JSON
from trimtab.dashboard.rights import EVERYTHING, Rights
from trimtab.inspection.cluster import KINDS, KindInfo
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND
from trimtab.kube.resources import Resource, untyped

T = TypeVar("T")

MOST_VIEWERS = 200
"""How many streams may be open at once."""
VALID_SECONDS = 30.0
"""For how many seconds an answer of the API server counts."""
_REMEMBERED = 1000
_CONCURRENT = 16
_LONGEST = 16_384
"""Characters of a token; longer ones are refused unseen."""

TOKEN_REVIEWS = untyped("authentication.k8s.io/v1", "TokenReview", "tokenreviews", namespaced=False)
ACCESS_REVIEWS = untyped("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False)


class UnauthenticatedError(Exception):
    """A caller without a valid token; the text says what to do."""


class Access(Protocol):
    """Decides what a caller may see."""

    needs_token: bool
    most_streams: int
    """How many streams callers with the same token may have open."""

    async def rights(self, token: str) -> Rights:
        """What the caller with this token may see. Raises UnauthenticatedError."""
        ...


class OpenAccess:
    """Everyone who can connect sees everything: for loopback only."""

    needs_token = False
    most_streams = MOST_VIEWERS

    async def rights(self, token: str) -> Rights:  # noqa: ARG002 - the interface
        """Everything."""
        return EVERYTHING


class TokenAccess:
    """Whoever has the token sees everything."""

    needs_token = True
    most_streams = MOST_VIEWERS

    def __init__(self, token: str) -> None:
        if not token:
            raise ValueError("an empty token protects nothing")
        self._token = token.encode()

    async def rights(self, token: str) -> Rights:
        """Everything, for the right token."""
        if not token:
            raise UnauthenticatedError("a token is needed: the one that `trimtab dashboard` printed or was given")
        if not hmac.compare_digest(token.encode(), self._token):
            raise UnauthenticatedError("the token is wrong")
        return EVERYTHING


class ClusterAccess:
    """Users of the API server see what they may list."""

    needs_token = True
    most_streams = 20

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[bytes, tuple[int, Rights]] = {}
        self._refused: dict[bytes, int] = {}
        """Until when tokens are refused; apart, so that made-up tokens do not displace those of users."""
        self._slots = asyncio.Semaphore(_CONCURRENT)

    async def rights(self, token: str) -> Rights:
        """What the user of this token may list."""
        if not token:
            raise UnauthenticatedError("a token of the cluster is needed, such as `kubectl create token NAME` prints")
        key = hashlib.sha256(token.encode()).digest()
        now = self._client.clock.monotonic()
        until, rights = self._known.get(key, (0, None))
        if until <= now or rights is None:
            is_refused = len(token) > _LONGEST or self._refused.get(key, 0) > now
            rights = None if is_refused else await self._reviewed(token, key, now + round(VALID_SECONDS * SECOND))
        if rights is None:
            raise UnauthenticatedError("the API server does not accept the token")
        return rights

    async def _reviewed(self, token: str, key: bytes, until: int) -> Rights | None:
        """Ask the API server, and remember the answer."""
        rights = await self._asked(token)
        if rights is None:
            self._known.pop(key, None)
            _remember(self._refused, key, until)
        else:
            _remember(self._known, key, (until, rights))
        return rights

    async def _asked(self, token: str) -> Rights | None:
        async with self._slots:
            review = await self._client.create(TOKEN_REVIEWS, _review(TOKEN_REVIEWS, {"token": token}))
        status = review.get("status") or {}
        if status.get("authenticated") is not True or status.get("error"):
            return None
        user: JSON = status.get("user") or {}
        allowed = await self._allowed(user, [(info, "") for info in KINDS])
        cluster = frozenset(info.plural for info, _ in allowed)
        if len(cluster) == len(KINDS):
            return EVERYTHING
        if "pods" in cluster:
            return Rights(cluster=cluster)
        return Rights(cluster=cluster, namespaced=await self._by_namespace(user, cluster))

    async def _by_namespace(self, user: JSON, cluster: frozenset[str]) -> frozenset[tuple[str, str]]:
        """What may be listed in the namespaces in which the user may list pods."""
        page = await self._client.list(Namespace)
        pods = next(info for info in KINDS if info.plural == "pods")
        places = await self._allowed(user, [(pods, each.metadata.name) for each in page.items])
        rest = [info for info in KINDS if _is_namespaced(info) and info.plural not in {"pods", *cluster}]
        others = await self._allowed(user, [(info, namespace) for _, namespace in places for info in rest])
        return frozenset((info.plural, namespace) for info, namespace in (*places, *others))

    async def _allowed(self, user: JSON, asked: Sequence[tuple[KindInfo, str]]) -> list[tuple[KindInfo, str]]:
        answers = await asyncio.gather(*(self._may_list(user, info, namespace) for info, namespace in asked))
        return [each for each, is_allowed in zip(asked, answers, strict=True) if is_allowed]

    async def _may_list(self, user: JSON, info: KindInfo, namespace: str) -> bool:
        resource: Resource[Any] = Resource.of(info.model)
        spec = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
            "resourceAttributes": {
                "verb": "list",
                "group": resource.group,
                "version": resource.version,
                "resource": resource.plural,
                "namespace": namespace,
            },
        }
        async with self._slots:
            review = await self._client.create(ACCESS_REVIEWS, _review(ACCESS_REVIEWS, spec))
        status = review.get("status") or {}
        return status.get("allowed") is True and status.get("denied") is not True


def _remember(known: dict[bytes, T], key: bytes, value: T) -> None:
    """Add an entry as the newest; the oldest ones go."""
    known.pop(key, None)
    known[key] = value
    while len(known) > _REMEMBERED:
        del known[next(iter(known))]


def _is_namespaced(info: KindInfo) -> bool:
    resource: Resource[Any] = Resource.of(info.model)
    return resource.namespaced


def _review(resource: Resource[JSON], spec: Mapping[str, Any]) -> JSON:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "spec": dict(spec)}
