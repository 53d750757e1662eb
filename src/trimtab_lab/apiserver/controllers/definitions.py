"""The lifecycle of CustomResourceDefinitions: their kinds are served as soon as they are stored.

1. A definition that is created or changed takes effect at once; its status reports that afterwards (`Established`).
2. Names that another definition or a built-in kind uses are not accepted, and the status reports that.
3. Stored objects are shown with the defaults of the present schema (that of the storage version), and not written.
4. A deleted definition is removed when all its objects are gone.
"""

from __future__ import annotations

from trimtab_lab.apiserver.admission.users import AUTHENTICATED, User
from trimtab_lab.apiserver.controllers.workqueue import QueueController
from trimtab_lab.apiserver.kinds.errors import StatusError
from trimtab_lab.apiserver.kinds.printers.custom import custom_layout
from trimtab_lab.apiserver.kinds.registry import VERBS, CustomKind, Kind
from trimtab_lab.apiserver.kinds.schemas import Schema
from trimtab_lab.apiserver.storage.store import Collection, Entry, Event, Tree
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.apiserver.verbs.delete_options import DeleteOptions
from trimtab_lab.apiserver.verbs.deletes import CUSTOM_CLEANUP, remove
from trimtab_lab.apiserver.verbs.requests import Request, Target

USER = User("system:apiserver", ("system:masters", AUTHENTICATED))
COLLECTION = "apiextensions.k8s.io/customresourcedefinitions"


class DefinitionController(QueueController[str]):
    """Serves the kinds of the stored CustomResourceDefinitions."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._cluster = cluster
        self._kinds: dict[str, list[Kind]] = {}
        cluster.store.listen(self._on_event)

    def _on_event(self, collection: Collection, event: Event) -> None:
        if collection.name != COLLECTION:
            if event.type == "DELETED":
                self._on_object_deleted(collection)
            return
        name = event.entry.name
        if event.type == "DELETED":
            self._serve(name, [])
            return
        tree = event.entry.tree()
        if event.previous is None or event.previous.tree()["spec"] != tree["spec"]:
            self._serve(name, kinds_of(tree))
        if event.previous is None or event.entry.deleting or event.previous.tree()["spec"] != tree["spec"]:
            self._queue.add(name)

    def _on_object_deleted(self, collection: Collection) -> None:
        """Requeue the definition of a collection that is empty: it may be waiting for that."""
        kind = self._cluster.registry.stored_kind(collection.name)
        if kind is not None and kind.custom is not None and not len(collection):
            self._queue.add(kind.custom.definition)

    def _serve(self, name: str, kinds: list[Kind]) -> None:
        registry = self._cluster.registry
        for kind in self._kinds.pop(name, ()):
            registry.remove(kind)
        if kinds and self._conflict(name, kinds[0]) == "":
            for kind in kinds:
                registry.add(kind)
            self._kinds[name] = kinds
            self._default(kinds[0])

    def _default(self, kind: Kind) -> None:
        """Show stored objects with the defaults of the present schema, as if these were applied when they are read."""
        assert kind.custom is not None  # noqa: S101 - called for custom kinds only
        for entry in self._cluster.store.collection(kind.collection).present():
            tree = entry.tree()
            kind.custom.schema.default(tree)
            if tree != entry.tree():
                entry.rewrite(tree)

    def _conflict(self, name: str, wanted: Kind) -> str:
        """Why the names of a definition cannot be accepted; empty if they can."""
        for kind in self._cluster.registry:
            if kind.group != wanted.group or (kind.custom is not None and kind.custom.definition == name):
                continue
            if kind.custom is None:
                return f'"{wanted.group}" is a group of built-in kinds'
            if kind.plural == wanted.plural or kind.singular == wanted.singular:
                return f'"{wanted.plural}" is already in use'
            if kind.kind == wanted.kind:
                return f'"{wanted.kind}" is already in use'
        return ""

    async def _reconcile(self, name: str) -> None:
        entry = self._cluster.store.collection(COLLECTION).entries.get(name)
        if entry is None:
            return
        if entry.deleting:
            await self._clean_up(entry)
            return
        tree = entry.tree()
        self._update_status(tree)
        if tree != entry.tree():
            self._cluster.store.replace(self._cluster.store.collection(COLLECTION), entry, tree)

    def _update_status(self, tree: Tree) -> None:
        """Report in the status which names were accepted."""
        now, status, kinds = self._cluster.now(), tree["status"], kinds_of(tree)
        problem = self._conflict(tree["metadata"]["name"], kinds[0]) if kinds else ""
        if problem:
            _set_condition(status, "NamesAccepted", "False", "PluralConflict", problem, now)
            _set_condition(status, "Established", "False", "NotAccepted", "not all names are accepted", now)
            return
        status["acceptedNames"] = tree["spec"]["names"]
        _set_condition(status, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
        accepted = "the initial names have been accepted"
        _set_condition(status, "Established", "True", "InitialNamesAccepted", accepted, now)
        stored = status.get("storedVersions") or []
        storage = [version["name"] for version in tree["spec"]["versions"] if version["storage"]]
        status["storedVersions"] = [*stored, *(name for name in storage if name not in stored)]

    async def _clean_up(self, entry: Entry) -> None:
        """Delete the objects of a deleted definition, then remove the definition."""
        left = False
        for kind in self._kinds.get(entry.name, [])[:1]:
            collection = self._cluster.store.collection(kind.collection)
            for custom in list(collection.present()):
                if not custom.deleting:
                    await self._delete(kind, custom)
            left = bool(len(collection))
        present = self._cluster.store.collection(COLLECTION).entries.get(entry.name)
        if present is None or left:
            return
        tree = present.tree()
        finalizers = [name for name in tree["metadata"].get("finalizers", ()) if name != CUSTOM_CLEANUP]
        tree["metadata"]["finalizers"] = finalizers
        if finalizers:
            self._cluster.store.replace(self._cluster.store.collection(COLLECTION), present, tree)
        else:
            del tree["metadata"]["finalizers"]
            self._cluster.store.remove(self._cluster.store.collection(COLLECTION), present, tree)

    async def _delete(self, kind: Kind, entry: Entry) -> None:
        try:
            request = Request(Target(kind, entry.namespace, entry.name), {}, USER)
            await remove(self._cluster, request, DeleteOptions(tree={}))
        except StatusError as error:
            if error.code != 404:
                raise


def kinds_of(tree: Tree) -> list[Kind]:
    """The kinds of a definition, one for each served version; the storage version comes first."""
    versions = [version for version in tree["spec"]["versions"] if version["served"]]
    return [_kind(tree, version) for version in sorted(versions, key=lambda version: not version["storage"])]


def _kind(tree: Tree, version: Tree) -> Kind:
    spec, names = tree["spec"], tree["spec"]["names"]
    parts = version.get("subresources") or {}
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return Kind(
        api_version=f"{spec['group']}/{version['name']}",
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        list_kind=names.get("listKind") or f"{names['kind']}List",
        short_names=tuple(names.get("shortNames") or ()),
        namespaced=spec["scope"] == "Namespaced",
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(part for part in ("status", "scale") if part in parts),
        verbs=VERBS,
        custom=CustomKind(
            definition=tree["metadata"]["name"],
            schema=Schema(schema or None, parts.get("scale")),
            layout=custom_layout(version.get("additionalPrinterColumns") or ()),
            schema_tree=schema,
            scale=parts.get("scale"),
            selectable=tuple(field["jsonPath"].strip(".") for field in version.get("selectableFields") or ()),
            deprecation=_deprecation(spec, names, version),
        ),
    )


def _deprecation(spec: Tree, names: Tree, version: Tree) -> str:
    """The warning for clients that use a deprecated version."""
    if not version.get("deprecated"):
        return ""
    default = f"{spec['group']}/{version['name']} {names['kind']} is deprecated"
    return str(version.get("deprecationWarning") or default)


def _set_condition(status: Tree, type_: str, value: str, reason: str, message: str, now: str) -> None:
    conditions = [dict(condition) for condition in status.get("conditions") or ()]
    present = next((condition for condition in conditions if condition["type"] == type_), None)
    if present is None:
        present = {"type": type_}
        conditions.append(present)
    if present.get("status") != value:
        present["lastTransitionTime"] = now
    present |= {"status": value, "reason": reason, "message": message}
    status["conditions"] = conditions
