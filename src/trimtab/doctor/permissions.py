"""The permissions of an installation's accounts: every request that its roles are for, asked about one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trimtab.api.documents import JSON
from trimtab.doctor.facts import Denial
from trimtab.install import access
from trimtab.install.options import Options, account
from trimtab.kube.client import Client
from trimtab.kube.resources import untyped

ACCESS_REVIEWS = untyped(
    "authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Request:
    """One permission, as an API server is asked about it."""

    group: str
    resource: str
    verb: str
    name: str
    namespace: str

    def shown(self) -> str:
        """The resource as kubectl names it, with the object's name if it is limited to one."""
        resource, slash, subresource = self.resource.partition("/")
        group = f".{self.group}" if self.group else ""
        return f"{resource}{group}{slash}{subresource}" + (f" {self.name}" if self.name else "")


def requests(options: Options, *components: str) -> Iterator[Request]:
    """All requests that the roles of these components are for."""
    accounts = {account(component) for component in components}
    objects = list(access.manifests(options))
    roles = {(each["kind"], each["metadata"]["name"]): each for each in objects if "rules" in each}
    for binding in objects:
        subjects = binding.get("subjects") or ()
        if any(each["name"] in accounts for each in subjects):
            role = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
            namespace = binding["metadata"].get("namespace", "")
            for rule in role["rules"]:
                yield from _of_rule(rule, namespace)


def _of_rule(rule: JSON, namespace: str) -> Iterator[Request]:
    for resource in rule["resources"]:
        for verb in rule["verbs"]:
            for name in rule.get("resourceNames") or [""]:
                yield Request(rule["apiGroups"][0], resource, verb, name, namespace)


async def denials(client: Client, user: str, wanted: Iterable[Request]) -> Sequence[Denial]:
    """What of these a user may not do, as the client's user is told."""
    limit = asyncio.Semaphore(_AT_ONCE)
    found = await asyncio.gather(*(_denied(client, limit, user, each) for each in dict.fromkeys(wanted)))
    return [each for each in found if each is not None]


async def _denied(client: Client, limit: asyncio.Semaphore, user: str, request: Request) -> Denial | None:
    resource, _, subresource = request.resource.partition("/")
    attributes = {
        "group": request.group,
        "resource": resource,
        "subresource": subresource,
        "verb": request.verb,
        "name": request.name,
        "namespace": request.namespace,
    }
    async with limit:
        review = await client.create(ACCESS_REVIEWS, {"spec": {"resourceAttributes": attributes}})
    if (review.get("status") or {}).get("allowed"):
        return None
    return Denial(user, request.verb, request.shown(), request.namespace)
