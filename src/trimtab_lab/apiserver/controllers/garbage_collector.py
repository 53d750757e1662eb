"""The garbage collector: deletes objects whose owners are deleted.

It receives every event and keeps the graph of owners and dependents, by uid. For an object:

1. If it is being deleted in the foreground, its blocking dependents are deleted first; then its finalizer is removed.
   In a circle of owners that all wait for one another, one of them is made not to block.
2. If it is being deleted with orphaning, it is removed from the owners of its dependents; then its finalizer is
   removed.
3. If one of its owners exists, it stays, and references to missing owners are removed.
4. If it has owners and none exists (or all of them wait for it in the foreground), it is deleted.

An owner exists if an object with its uid does, in the same namespace or cluster-scoped. Objects with an owner whose
kind is not served are left alone, since it is not known whether the owner exists.
"""

from __future__ import annotations

from trimtab_lab.apiserver.admission.users import AUTHENTICATED, User
from trimtab_lab.apiserver.controllers.workqueue import QueueController
from trimtab_lab.apiserver.storage.store import Collection, Entry, Event, Tree
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.apiserver.verbs.delete_options import DeleteOptions
from trimtab_lab.apiserver.verbs.deletes import FOREGROUND, ORPHAN, remove
from trimtab_lab.apiserver.verbs.requests import Request, Target

USER = User("system:serviceaccount:kube-system:generic-garbage-collector", ("system:serviceaccounts", AUTHENTICATED))

ObjectKey = tuple[str, str]
"""The name of a collection, and a key in it."""


class GarbageCollector(QueueController[ObjectKey]):
    """Deletes objects that have no owner any more."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._cluster = cluster
        self._keys: dict[str, ObjectKey] = {}
        self._dependents: dict[str, set[ObjectKey]] = {}
        cluster.store.listen(self._on_event)

    def _on_event(self, collection: Collection, event: Event) -> None:
        entry, object_key = event.entry, (collection.name, event.entry.key)
        before = event.previous.owners if event.previous is not None else ()
        if event.type == "DELETED":
            self._forget(object_key, entry.uid, before)
            return
        self._keys[entry.uid] = object_key
        if entry.owners != before:
            self._own(object_key, before, entry.owners)
        if entry.deleting and _finalizer(entry):
            self._queue.add(object_key)

    def _own(self, object_key: ObjectKey, before: tuple[str, ...], owners: tuple[str, ...]) -> None:
        for uid in before:
            self._dependents.get(uid, set()).discard(object_key)
        for uid in owners:
            self._dependents.setdefault(uid, set()).add(object_key)
            if uid not in self._keys:
                self._queue.add(object_key)

    def _forget(self, object_key: ObjectKey, uid: str, owners: tuple[str, ...]) -> None:
        self._keys.pop(uid, None)
        for dependent in self._dependents.pop(uid, ()):
            self._queue.add(dependent)
        for owner in owners:
            siblings = self._dependents.get(owner)
            if siblings is not None:
                siblings.discard(object_key)
            if owner in self._keys and _finalizer(self._entry(self._keys[owner])):
                self._queue.add(self._keys[owner])

    def _entry(self, object_key: ObjectKey) -> Entry | None:
        collection, key = object_key
        return self._cluster.store.collection(collection).entries.get(key)

    async def _reconcile(self, object_key: ObjectKey) -> None:
        entry = self._entry(object_key)
        if entry is None:
            return
        finalizer = _finalizer(entry) if entry.deleting else ""
        if finalizer == FOREGROUND:
            await self._delete_dependents(object_key, entry)
        elif finalizer == ORPHAN:
            self._orphan_dependents(object_key, entry)
        elif entry.owners and not entry.deleting:
            await self._collect(object_key, entry)

    async def _collect(self, object_key: ObjectKey, entry: Entry) -> None:
        tree = entry.tree()
        owners = tree["metadata"]["ownerReferences"]
        if any(self._cluster.registry.named(owner["apiVersion"], owner["kind"]) is None for owner in owners):
            return
        present = [owner for owner in owners if self._present(owner["uid"], entry) is not None]
        waiting = [o for o in present if _finalizer(self._present(o["uid"], entry)) == FOREGROUND]
        remaining = [owner for owner in present if owner not in waiting]
        if remaining:
            if len(remaining) < len(owners):
                tree["metadata"]["ownerReferences"] = remaining
                self._cluster.store.replace(self._cluster.store.collection(object_key[0]), entry, tree)
            return
        foreground = bool(waiting) and bool(self._dependents.get(entry.uid))
        if foreground and self._is_circular(entry):
            entry = self._unblock(object_key, entry)
        await self._delete(object_key, entry, "Foreground" if foreground else "")

    def _is_circular(self, entry: Entry) -> bool:
        """Whether a dependent waits in the foreground as well; like Kubernetes' check, it has false positives."""
        dependents = (self._entry(key) for key in self._dependents.get(entry.uid, ()))
        return any(_finalizer(each) == FOREGROUND for each in dependents)

    def _unblock(self, object_key: ObjectKey, entry: Entry) -> Entry:
        """Make an object block the deletion of none of its owners, and check these again."""
        tree = entry.tree()
        for owner in tree["metadata"]["ownerReferences"]:
            if owner.get("blockOwnerDeletion"):
                owner["blockOwnerDeletion"] = False
            if owner["uid"] in self._keys:
                self._queue.add(self._keys[owner["uid"]])
        return self._cluster.store.replace(self._cluster.store.collection(object_key[0]), entry, tree)

    def _present(self, uid: str, dependent: Entry) -> Entry | None:
        object_key = self._keys.get(uid)
        owner = None if object_key is None else self._entry(object_key)
        if owner is None or owner.namespace not in ("", dependent.namespace):
            return None
        return owner

    async def _delete_dependents(self, object_key: ObjectKey, entry: Entry) -> None:
        """Delete the dependents that block the deletion of an owner; the others are collected when it is gone."""
        blocking = [p for p in self._dependents.get(entry.uid, ()) if self._blocks(p, entry.uid)]
        for dependent in blocking:
            found = self._entry(dependent)
            if found is not None and not found.deleting:
                await self._collect(dependent, found)
        blocking = [p for p in self._dependents.get(entry.uid, ()) if self._blocks(p, entry.uid)]
        if not blocking:
            self._release(object_key, FOREGROUND)

    def _blocks(self, object_key: ObjectKey, uid: str) -> bool:
        entry = self._entry(object_key)
        owners = () if entry is None else entry.tree()["metadata"].get("ownerReferences", ())
        return any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners)

    def _orphan_dependents(self, object_key: ObjectKey, entry: Entry) -> None:
        for collection, key in tuple(self._dependents.get(entry.uid, ())):
            dependent = self._entry((collection, key))
            if dependent is not None:
                tree = dependent.tree()
                _disown(tree["metadata"], entry.uid)
                self._cluster.store.replace(self._cluster.store.collection(collection), dependent, tree)
        self._release(object_key, ORPHAN)

    def _release(self, object_key: ObjectKey, finalizer: str) -> None:
        """Remove a finalizer; an object that is being deleted and has none left is removed."""
        entry = self._entry(object_key)
        if entry is None:
            return
        tree = entry.tree()
        metadata = tree["metadata"]
        metadata["finalizers"] = [name for name in metadata.get("finalizers", ()) if name != finalizer]
        collection = self._cluster.store.collection(object_key[0])
        if metadata["finalizers"]:
            self._cluster.store.replace(collection, entry, tree)
            return
        del metadata["finalizers"]
        if metadata.get("deletionGracePeriodSeconds"):
            self._cluster.store.replace(collection, entry, tree)
        else:
            self._cluster.store.remove(collection, entry, tree)

    async def _delete(self, object_key: ObjectKey, entry: Entry, propagation: str) -> None:
        kind = self._cluster.registry.stored_kind(object_key[0])
        if kind is None:
            return
        request = Request(Target(kind, entry.namespace, entry.name), {}, USER)
        options = DeleteOptions(uid=entry.uid, propagation=propagation, tree={"preconditions": {"uid": entry.uid}})
        await remove(self._cluster, request, options)


def _finalizer(entry: Entry | None) -> str:
    """The finalizer of an object that the garbage collector handles, if the object is being deleted and has one."""
    if entry is None or not entry.deleting:
        return ""
    finalizers = entry.tree()["metadata"].get("finalizers", ())
    return next((name for name in finalizers if name in (FOREGROUND, ORPHAN)), "")


def _disown(metadata: Tree, uid: str) -> None:
    kept = [owner for owner in metadata.get("ownerReferences", ()) if owner["uid"] != uid]
    if kept:
        metadata["ownerReferences"] = kept
    else:
        metadata.pop("ownerReferences", None)
