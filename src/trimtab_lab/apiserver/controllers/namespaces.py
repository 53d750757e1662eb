"""The namespace lifecycle: objects that every namespace has, and the deletion of its contents.

A new namespace gets a service account and the certificate of the authority, so that pods can be created in it. In a
deleted one the pods are deleted first, then everything else; when it is empty, it is removed. Objects with finalizers
delay that, and the conditions of the namespace report them.
"""

from __future__ import annotations

from collections import Counter

from trimtab_lab.apiserver.admission.users import AUTHENTICATED, User
from trimtab_lab.apiserver.controllers.workqueue import QueueController
from trimtab_lab.apiserver.kinds.errors import StatusError
from trimtab_lab.apiserver.kinds.registry import Kind
from trimtab_lab.apiserver.storage.store import Collection, Entry, Event, Tree
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.apiserver.verbs.delete_options import DeleteOptions
from trimtab_lab.apiserver.verbs.deletes import remove
from trimtab_lab.apiserver.verbs.requests import Request, Target
from trimtab_lab.apiserver.verbs.writes import create_system_object

USER = User("system:serviceaccount:kube-system:namespace-controller", ("system:serviceaccounts", AUTHENTICATED))
COLLECTION = "/namespaces"


class NamespaceController(QueueController[str]):
    """Creates the first objects of new namespaces, and deletes the contents of deleted ones."""

    def __init__(self, cluster: Cluster, authority: str) -> None:
        super().__init__()
        self._cluster = cluster
        self._authority = authority
        cluster.store.listen(self._on_event)

    async def ensure_defaults(self, namespace: str) -> None:
        """Create the objects that every namespace has."""
        await self._ensure("serviceaccounts", namespace, {"metadata": {"name": "default"}})
        certificate: Tree = {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": self._authority}}
        await self._ensure("configmaps", namespace, certificate)

    def _on_event(self, collection: Collection, event: Event) -> None:
        if collection.name == COLLECTION:
            if event.type == "ADDED" or (event.entry.deleting and event.type == "MODIFIED"):
                self._queue.add(event.entry.name)
        elif event.type == "DELETED" and event.entry.namespace:
            namespace = self._cluster.store.collection(COLLECTION).entries.get(event.entry.namespace)
            if namespace is not None and namespace.deleting:
                self._queue.add(namespace.name)

    async def _reconcile(self, name: str) -> None:
        entry = self._cluster.store.collection(COLLECTION).entries.get(name)
        if entry is None:
            return
        if not entry.deleting:
            await self.ensure_defaults(name)
        elif entry.tree()["spec"].get("finalizers"):
            await self._delete_contents(name)

    async def _ensure(self, plural: str, namespace: str, tree: Tree) -> None:
        kind = self._cluster.registry.find("v1", plural)
        assert kind is not None  # noqa: S101 – built in
        try:
            await create_system_object(self._cluster, Request(Target(kind, namespace), {}, USER), tree)
        except StatusError as error:
            if error.code != 409:
                raise

    async def _delete_contents(self, namespace: str) -> None:
        kinds = self._kinds()
        pods = [kind for kind in kinds if kind.collection == "/pods"]
        left = await self._delete_all(pods, namespace)
        if not left:
            left = await self._delete_all(kinds, namespace)
        entry = self._cluster.store.collection(COLLECTION).entries.get(namespace)
        if entry is None or not entry.deleting:
            return
        tree = entry.tree()
        tree["status"]["conditions"] = _conditions(left, tree, self._cluster.now())
        if not left:
            tree["spec"].pop("finalizers", None)
        self._write(entry, tree, left)

    def _write(self, entry: Entry, tree: Tree, left: list[tuple[Kind, Entry]]) -> None:
        store, collection = self._cluster.store, self._cluster.store.collection(COLLECTION)
        if not left and not tree["metadata"].get("finalizers"):
            store.remove(collection, entry, tree)
        elif tree != entry.tree():
            store.replace(collection, entry, tree)

    def _kinds(self) -> list[Kind]:
        """One kind for each namespaced collection."""
        kinds = {kind.collection: kind for kind in reversed(list(self._cluster.registry)) if kind.namespaced}
        return list(kinds.values())

    async def _delete_all(self, kinds: list[Kind], namespace: str) -> list[tuple[Kind, Entry]]:
        """Delete objects; returns those that still exist."""
        for kind in kinds:
            for entry in list(self._cluster.store.collection(kind.collection).present(f"{namespace}/")):
                if not entry.deleting:
                    request = Request(Target(kind, namespace, entry.name), {}, USER)
                    await self._delete(request)
        return [(k, e) for k in kinds for e in self._cluster.store.collection(k.collection).present(f"{namespace}/")]

    async def _delete(self, request: Request) -> None:
        try:
            await remove(self._cluster, request, DeleteOptions(propagation="Background", tree={}))
        except StatusError as error:
            if error.code != 404:
                raise


def _conditions(left: list[tuple[Kind, Entry]], tree: Tree, now: str) -> list[Tree]:
    """The conditions that report what remains, with Kubernetes' messages."""
    resources = Counter(f"{kind.group_resource}." if not kind.group else kind.group_resource for kind, _ in left)
    finalizers = Counter(name for _, entry in left for name in entry.tree()["metadata"].get("finalizers", ()))
    remaining = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(resources.items()))
    holding = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
    states = [
        ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            str(bool(remaining)),
            "SomeResourcesRemain" if remaining else "ContentRemoved",
            f"Some resources are remaining: {remaining}" if remaining else "All content successfully removed",
        ),
        (
            "NamespaceFinalizersRemaining",
            str(bool(holding)),
            "SomeFinalizersRemain" if holding else "ContentHasNoFinalizers",
            f"Some content in the namespace has finalizers remaining: {holding}"
            if holding
            else "All content-preserving finalizers finished",
        ),
    ]
    before = {c["type"]: c for c in tree["status"].get("conditions") or ()}
    return [_condition(before.get(state[0], {}), *state, now=now) for state in states]


def _condition(before: Tree, type_: str, status: str, reason: str, message: str, *, now: str) -> Tree:
    moved = before.get("lastTransitionTime", now) if before.get("status") == status else now
    return {"type": type_, "status": status, "lastTransitionTime": moved, "reason": reason, "message": message}
