"""Garbage collection: what becomes of objects whose owner is deleted.

The collector hears of every change and keeps who owns whom, by uid. Of an object it asks:

1. Is it being deleted in the foreground? Its dependents that block it are deleted; when none is left, it may go.
2. Is it being deleted as an orphan's parent? Its dependents forget it, and it may go.
3. Is one of its owners still there? Then it stays, and forgets the owners that are not.
4. Has it owners, and none is there (or they all wait for it to go)? Then it is deleted.

An owner counts as there if an object with its uid exists, in the same namespace or in none. Of an owner whose kind is
not served nobody can say whether it is there: what it owns is left as it is.
"""

from __future__ import annotations

from trimtab_lab.apiserver.admission.users import AUTHENTICATED, User
from trimtab_lab.apiserver.controllers.workqueue import Chores
from trimtab_lab.apiserver.storage.store import Entry, Event, Shelf, Tree
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.apiserver.verbs.deletes import FOREGROUND, ORPHAN, DeleteOptions, remove
from trimtab_lab.apiserver.verbs.requests import Request, Target

USER = User("system:serviceaccount:kube-system:generic-garbage-collector", ("system:serviceaccounts", AUTHENTICATED))

Place = tuple[str, str]
"""A shelf's name and a key on it."""


class Collector:
    """Deletes what nobody owns any more."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._places: dict[str, Place] = {}
        self._dependents: dict[str, set[Place]] = {}
        self._chores: Chores[Place] = Chores(self._look_at)
        cluster.store.listen(self._heard)

    @property
    def idle(self) -> bool:
        """Whether everything that can be collected is."""
        return self._chores.idle

    async def close(self) -> None:
        """Stop collecting."""
        await self._chores.close()

    def _heard(self, shelf: Shelf, event: Event) -> None:
        entry, place = event.entry, (shelf.name, event.entry.key)
        before = event.previous.owners if event.previous is not None else ()
        if event.type == "DELETED":
            self._forget(place, entry.uid, before)
            return
        self._places[entry.uid] = place
        if entry.owners != before:
            self._own(place, before, entry.owners)
        if entry.deleting and _finalizer(entry):
            self._chores.add(place)

    def _own(self, place: Place, before: tuple[str, ...], owners: tuple[str, ...]) -> None:
        for uid in before:
            self._dependents.get(uid, set()).discard(place)
        for uid in owners:
            self._dependents.setdefault(uid, set()).add(place)
            if uid not in self._places:
                self._chores.add(place)

    def _forget(self, place: Place, uid: str, owners: tuple[str, ...]) -> None:
        self._places.pop(uid, None)
        for dependent in self._dependents.pop(uid, ()):
            self._chores.add(dependent)
        for owner in owners:
            siblings = self._dependents.get(owner)
            if siblings is not None:
                siblings.discard(place)
            if owner in self._places and _finalizer(self._entry(self._places[owner])):
                self._chores.add(self._places[owner])

    def _entry(self, place: Place) -> Entry | None:
        shelf, key = place
        return self._cluster.store.shelf(shelf).entries.get(key)

    async def _look_at(self, place: Place) -> None:
        entry = self._entry(place)
        if entry is None:
            return
        finalizer = _finalizer(entry) if entry.deleting else ""
        if finalizer == FOREGROUND:
            await self._delete_dependents(place, entry)
        elif finalizer == ORPHAN:
            self._orphan_dependents(place, entry)
        elif entry.owners and not entry.deleting:
            await self._judge(place, entry)

    async def _judge(self, place: Place, entry: Entry) -> None:
        tree = entry.tree()
        owners = tree["metadata"]["ownerReferences"]
        if any(self._cluster.registry.named(owner["apiVersion"], owner["kind"]) is None for owner in owners):
            return
        present = [owner for owner in owners if self._present(owner["uid"], entry) is not None]
        waiting = [o for o in present if _finalizer(self._present(o["uid"], entry)) == FOREGROUND]
        solid = [owner for owner in present if owner not in waiting]
        if solid:
            if len(solid) < len(owners):
                tree["metadata"]["ownerReferences"] = solid
                self._cluster.store.replace(self._cluster.store.shelf(place[0]), entry, tree)
            return
        foreground = bool(waiting) and bool(self._dependents.get(entry.uid))
        await self._delete(place, entry, "Foreground" if foreground else "")

    def _present(self, uid: str, dependent: Entry) -> Entry | None:
        place = self._places.get(uid)
        owner = None if place is None else self._entry(place)
        if owner is None or owner.namespace not in ("", dependent.namespace):
            return None
        return owner

    async def _delete_dependents(self, place: Place, entry: Entry) -> None:
        """Only those that block it need to be gone; the others are collected when it is."""
        blocking = [p for p in self._dependents.get(entry.uid, ()) if self._blocks(p, entry.uid)]
        for dependent in blocking:
            found = self._entry(dependent)
            if found is not None and not found.deleting:
                await self._judge(dependent, found)
        blocking = [p for p in self._dependents.get(entry.uid, ()) if self._blocks(p, entry.uid)]
        if not blocking:
            self._release(place, FOREGROUND)

    def _blocks(self, place: Place, uid: str) -> bool:
        entry = self._entry(place)
        owners = () if entry is None else entry.tree()["metadata"].get("ownerReferences", ())
        return any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners)

    def _orphan_dependents(self, place: Place, entry: Entry) -> None:
        for shelf, key in tuple(self._dependents.get(entry.uid, ())):
            dependent = self._entry((shelf, key))
            if dependent is not None:
                tree = dependent.tree()
                _disown(tree["metadata"], entry.uid)
                self._cluster.store.replace(self._cluster.store.shelf(shelf), dependent, tree)
        self._release(place, ORPHAN)

    def _release(self, place: Place, finalizer: str) -> None:
        """Take the finalizer away; an object without any is gone."""
        entry = self._entry(place)
        if entry is None:
            return
        tree = entry.tree()
        metadata = tree["metadata"]
        metadata["finalizers"] = [name for name in metadata.get("finalizers", ()) if name != finalizer]
        shelf = self._cluster.store.shelf(place[0])
        if metadata["finalizers"]:
            self._cluster.store.replace(shelf, entry, tree)
            return
        del metadata["finalizers"]
        if metadata.get("deletionGracePeriodSeconds"):
            self._cluster.store.replace(shelf, entry, tree)
        else:
            self._cluster.store.remove(shelf, entry, tree)

    async def _delete(self, place: Place, entry: Entry, propagation: str) -> None:
        kind = self._cluster.registry.on_shelf(place[0])
        if kind is None:
            return
        request = Request(Target(kind, entry.namespace, entry.name), {}, USER)
        options = DeleteOptions(uid=entry.uid, propagation=propagation, tree={"preconditions": {"uid": entry.uid}})
        await remove(self._cluster, request, options)


def _finalizer(entry: Entry | None) -> str:
    """The finalizer of an object that the collector works off, if it is being deleted and has one."""
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
