"""Asks the webhooks about a change: the bridge between the verbs, which know kinds and entries, and `admission`.

While no webhook is configured nothing is built and nobody is asked: `watch` says so at the cost of a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from trimtab_lab.apiserver.admission.users import User
from trimtab_lab.apiserver.admission.webhooks import Call, Operation, Resource, Webhooks
from trimtab_lab.apiserver.admission.webhooks import Request as Asked
from trimtab_lab.apiserver.kinds.conversions import FROM_STORED, TO_STORED
from trimtab_lab.apiserver.kinds.registry import Kind, Registry
from trimtab_lab.apiserver.storage.store import Event, Shelf, Store, Tree

MUTATING = "admissionregistration.k8s.io/mutatingwebhookconfigurations"
VALIDATING = "admissionregistration.k8s.io/validatingwebhookconfigurations"

Step = Callable[[Tree], None]
"""Changes an object in place."""


def _nothing(_tree: Tree) -> None:
    """Changes nothing."""


@dataclass(frozen=True, slots=True)
class Review:
    """A change that is to be reviewed. Objects are without kind and version, as everywhere in the server.

    `type` is what was sent, where that is not an object of the kind. `settle` reads and completes what a webhook made
    of the object; `between` does again what the server does before webhooks are asked.
    """

    operation: Operation
    kind: Kind
    user: User
    namespace: str
    name: str
    object: Tree | None
    old: Tree | None = None
    part: str = ""
    dry_run: bool = False
    options: Tree | None = None
    type: tuple[str, str] | None = None
    settle: Step = _nothing
    between: Step = _nothing

    def about(self, tree: Tree, name: str = "") -> Review:
        """The same, with another object."""
        return replace(self, object=tree, name=name or self.name)

    def asked(self) -> Asked:
        """As webhooks are told about it."""
        return Asked(
            operation=self.operation,
            resource=resource_of(self.kind),
            object=self._whole(self.object),
            old=self._whole(self.old),
            subresource=self.part,
            namespace=self.namespace or (self.name if self.kind.shelf == "/namespaces" else ""),
            name=self.name,
            user=self.user.tree(),
            options=self.options,
            dry_run=self.dry_run,
            sent_kind=self.type,
        )

    def _whole(self, tree: Tree | None) -> Tree | None:
        if tree is None:
            return None
        api_version, kind = self.type or (self.kind.api_version, self.kind.kind)
        return {"kind": kind, "apiVersion": api_version, **tree}


class Reviews:
    """The webhooks of a cluster, kept in step with their configurations."""

    def __init__(self, store: Store, registry: Registry, call: Call) -> None:
        self._store = store
        self._registry = registry
        self._changes = registry.changes
        self._webhooks = Webhooks(call, self._namespace_labels, self._equivalents, self._converted)
        self._configured = False
        store.listen(self._heard)

    def watch(self, kind: Kind, operation: Operation, part: str = "") -> bool:
        """Whether any webhook may want to know about such a change."""
        if not self._configured:
            return False
        if self._changes != self._registry.changes:
            self._changes = self._registry.changes
            self._webhooks.forget()
        return self._webhooks.watch(operation, resource_of(kind), part)

    async def mutate(self, review: Review, warnings: list[str]) -> Tree | None:
        """The object as webhooks changed it, or None if none did. Raises a Status."""
        settle, between = _on_whole(review.settle), _on_whole(review.between)
        changed = await self._webhooks.mutate(review.asked(), warnings, settle, between)
        if changed is not None:
            changed.pop("kind", None)
            changed.pop("apiVersion", None)
        return changed

    async def validate(self, review: Review, warnings: list[str]) -> None:
        """Ask those that only look. Raises a Status."""
        await self._webhooks.validate(review.asked(), warnings)

    def _heard(self, shelf: Shelf, _event: Event) -> None:
        if shelf.name in (MUTATING, VALIDATING):
            mutating = [entry.tree() for entry in self._store.shelf(MUTATING).present()]
            validating = [entry.tree() for entry in self._store.shelf(VALIDATING).present()]
            self._configured = bool(mutating or validating)
            self._webhooks.load(mutating, validating)

    def _namespace_labels(self, name: str) -> Mapping[str, str] | None:
        entry = self._store.shelf("/namespaces").entries.get(name)
        return None if entry is None else entry.labels

    def _kind(self, resource: Resource) -> Kind | None:
        version = f"{resource.group}/{resource.version}" if resource.group else resource.version
        return self._registry.find(version, resource.name)

    def _equivalents(self, resource: Resource, part: str) -> Sequence[Resource]:
        kind = self._kind(resource)
        others = [] if kind is None else self._registry.versions(kind.shelf)
        return [resource_of(other) for other in others if not part or part in other.subresources]

    def _converted(self, tree: Tree, target: Resource) -> Tree:
        """An object in another version of its kind."""
        kind = self._kind(target)
        if kind is None:
            return tree
        bare = {key: value for key, value in tree.items() if key not in ("kind", "apiVersion")}
        sent = f"{tree.get('apiVersion', '')} {tree.get('kind', '')}"
        stored = TO_STORED[sent](bare) if sent in TO_STORED else bare
        shown = FROM_STORED[kind.name](stored) if kind.name in FROM_STORED else stored
        return {"kind": kind.kind, "apiVersion": kind.api_version, **shown}


def resource_of(kind: Kind) -> Resource:
    """A kind as webhooks' rules name it."""
    return Resource(kind.group, kind.version, kind.plural, kind.kind)


def _on_whole(step: Step) -> Step:
    """A step for objects without type, made one for whole objects."""

    def on_whole(tree: Tree) -> None:
        kind, api_version = tree.pop("kind", None), tree.pop("apiVersion", None)
        step(tree)
        tree["kind"], tree["apiVersion"] = kind, api_version

    return on_whole
