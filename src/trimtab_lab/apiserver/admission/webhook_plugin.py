"""The webhooks that are configured in the cluster: the plugin that the verbs call.

It translates between the verbs, which use kinds and stored entries, and `webhook_dispatcher`, which uses the terms of
AdmissionReview. While no webhook is configured, nothing is built: `is_needed` then costs one comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trimtab_lab.apiserver.admission.admission_reviews import Operation, Resource
from trimtab_lab.apiserver.admission.attributes import Attributes, Step, resource_of
from trimtab_lab.apiserver.admission.webhook_dispatcher import Call, WebhookDispatcher
from trimtab_lab.apiserver.kinds.conversions import FROM_STORED, TO_STORED
from trimtab_lab.apiserver.kinds.registry import Kind, Registry
from trimtab_lab.apiserver.storage.store import Collection, Event, Store, Tree

MUTATING = "admissionregistration.k8s.io/mutatingwebhookconfigurations"
VALIDATING = "admissionregistration.k8s.io/validatingwebhookconfigurations"


class WebhookPlugin:
    """The webhooks of a cluster, updated when their configurations change."""

    def __init__(self, store: Store, registry: Registry, call: Call) -> None:
        self._store = store
        self._registry = registry
        self._changes = registry.changes
        self._dispatcher = WebhookDispatcher(call, self._namespace_labels, self._equivalents, self._convert)
        self._configured = False
        store.listen(self._on_event)

    def is_needed(self, kind: Kind, operation: Operation, subresource: str = "") -> bool:
        """Whether any webhook may match such a write."""
        if not self._configured:
            return False
        if self._changes != self._registry.changes:
            self._changes = self._registry.changes
            self._dispatcher.forget()
        return self._dispatcher.is_needed(operation, resource_of(kind), subresource)

    async def mutate(self, attributes: Attributes, warnings: list[str]) -> Tree | None:
        """Call the mutating webhooks; the object if they changed it, else None. Raises StatusError."""
        complete, reinvoke = _on_typed(attributes.complete), _on_typed(attributes.reinvoke)
        changed = await self._dispatcher.mutate(attributes.review_request(), warnings, complete, reinvoke)
        if changed is not None:
            changed.pop("kind", None)
            changed.pop("apiVersion", None)
        return changed

    async def validate(self, attributes: Attributes, warnings: list[str]) -> None:
        """Call the validating webhooks. Raises StatusError."""
        await self._dispatcher.validate(attributes.review_request(), warnings)

    def _on_event(self, collection: Collection, _event: Event) -> None:
        if collection.name in (MUTATING, VALIDATING):
            mutating = [entry.tree() for entry in self._store.collection(MUTATING).present()]
            validating = [entry.tree() for entry in self._store.collection(VALIDATING).present()]
            self._configured = bool(mutating or validating)
            self._dispatcher.load(mutating, validating)

    def _namespace_labels(self, name: str) -> Mapping[str, str] | None:
        entry = self._store.collection("/namespaces").entries.get(name)
        return None if entry is None else entry.labels

    def _kind(self, resource: Resource) -> Kind | None:
        version = f"{resource.group}/{resource.version}" if resource.group else resource.version
        return self._registry.find(version, resource.name)

    def _equivalents(self, resource: Resource, subresource: str) -> Sequence[Resource]:
        kind = self._kind(resource)
        others = [] if kind is None else self._registry.versions(kind.collection)
        return [resource_of(other) for other in others if not subresource or subresource in other.subresources]

    def _convert(self, tree: Tree, target: Resource) -> Tree:
        """An object in another version of its kind."""
        kind = self._kind(target)
        if kind is None:
            return tree
        untyped = {key: value for key, value in tree.items() if key not in ("kind", "apiVersion")}
        name = f"{tree.get('apiVersion', '')} {tree.get('kind', '')}"
        stored = TO_STORED[name](untyped) if name in TO_STORED else untyped
        converted = FROM_STORED[kind.name](stored) if kind.name in FROM_STORED else stored
        return {"kind": kind.kind, "apiVersion": kind.api_version, **converted}


def _on_typed(step: Step) -> Step:
    """Make a step for objects without type one for objects with `kind` and `apiVersion`."""

    def on_typed(tree: Tree) -> None:
        kind, api_version = tree.pop("kind", None), tree.pop("apiVersion", None)
        step(tree)
        tree["kind"], tree["apiVersion"] = kind, api_version

    return on_typed
