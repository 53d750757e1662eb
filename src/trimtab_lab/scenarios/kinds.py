"""Looks up the resources of the kinds in a story.

Kinds that Trimtab has types for are in a table; for others the API server's discovery is used, so that a story may use
any kind that the cluster serves.
"""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.api import codec
from trimtab.api.documents import JSON
from trimtab.api.model import Model
from trimtab.kube.client import Client
from trimtab.kube.errors import NotFound
from trimtab.kube.resources import RESOURCES, Resource, untyped
from trimtab_lab.scenarios.observations import NonRollingWorkload, Workload
from trimtab_lab.scenarios.stories import Story

WORKLOADS: Mapping[str, type[Workload]] = {
    "CloneSet": Workload,
    "Deployment": Workload,
    "ReplicaSet": NonRollingWorkload,
    "StatefulSet": Workload,
}
"""Kinds that keep a number of pods, with the type of their status."""

KNOWN: Mapping[str, Resource[JSON]] = {resource.kind: resource.raw for resource in RESOURCES.values()}


class ServedResource(Model):
    """A resource as discovery lists it; a subresource has a slash in its name."""

    name: str
    kind: str
    namespaced: bool = True


class ServedResources(Model):
    """All resources of a group and version."""

    resources: tuple[ServedResource, ...] = ()


class KindLookup:
    """Looks up kinds, each at most once."""

    def __init__(self, client: Client, story: Story) -> None:
        self._client = client
        self._found: dict[tuple[str, str], Resource[JSON]] = {}
        trees = [manifest.tree() for manifest in story.manifests()]
        self._versions: dict[str, str] = {tree["kind"]: tree["apiVersion"] for tree in trees}

    async def by_name(self, kind: str) -> Resource[JSON]:
        """The resource of a kind that a step names: one of the story's, or a built-in one."""
        if kind in self._versions:
            return await self.by_version(self._versions[kind], kind)
        if kind in KNOWN:
            return KNOWN[kind]
        raise LookupError(f"{kind} is neither the kind of an object in the story nor a built-in one")

    async def by_version(self, api_version: str, kind: str) -> Resource[JSON]:
        """The resource of a manifest."""
        known = KNOWN.get(kind)
        if known is not None and known.api_version == api_version:
            return known
        key = (api_version, kind)
        if key not in self._found:
            self._found[key] = await self._discover(api_version, kind)
        return self._found[key]

    async def _discover(self, api_version: str, kind: str) -> Resource[JSON]:
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            response = await self._client.call("GET", root)
        except NotFound as error:
            raise LookupError(f"the cluster does not serve {api_version}") from error
        for served in codec.decode_exactly(response.body, ServedResources).resources:
            if served.kind == kind and "/" not in served.name:
                return untyped(api_version, kind, served.name, namespaced=served.namespaced)
        raise LookupError(f"the cluster serves {api_version}, but no {kind} in it")


def watched_workloads(story: Story) -> dict[str, Resource[Workload]]:
    """The story's workloads by name, with their resources."""
    found: dict[str, Resource[Workload]] = {}
    for manifest in story.manifests():
        tree = manifest.tree()
        model = WORKLOADS.get(tree["kind"])
        if model is not None:
            raw = KNOWN[tree["kind"]]
            found[tree["metadata"]["name"]] = Resource(raw.group, raw.version, raw.kind, raw.plural, model)
    return found
