"""Delete and deletecollection.

The steps of a delete:

1. Preconditions: the client may state the uid and the version that it means.
2. Admission webhooks.
3. A pod on a node is deleted gracefully: it gets a `deletionTimestamp`, and the kubelet deletes it with a grace period
   of zero when its containers have ended. The grace period can only be shortened. A pod that was never scheduled, or
   has ended, is removed at once.
4. The propagation policies `Foreground` and `Orphan` are finalizers that the garbage collector handles.
5. An object with finalizers gets a `deletionTimestamp`, and is removed when an update removes the last finalizer.
   Every other object is removed now.

Namespaces and CustomResourceDefinitions contain other objects: they get a `deletionTimestamp`, a controller deletes
their contents, and then they are removed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from trimtab.api import times
from trimtab_lab.apiserver.admission.attributes import Attributes
from trimtab_lab.apiserver.kinds import registry_strategies
from trimtab_lab.apiserver.kinds.errors import (
    StatusError,
    conflict,
    forbidden,
    not_found,
    object_details,
    success,
)
from trimtab_lab.apiserver.kinds.registry import Kind
from trimtab_lab.apiserver.storage.store import ConflictError, Entry, Tree, encode, key_of
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.apiserver.verbs.delete_options import DeleteOptions, delete_options
from trimtab_lab.apiserver.verbs.encoding import versioned_tree
from trimtab_lab.apiserver.verbs.negotiation import negotiate
from trimtab_lab.apiserver.verbs.options import list_options
from trimtab_lab.apiserver.verbs.requests import Request, Response
from trimtab_lab.apiserver.verbs.selectors import select
from trimtab_lab.apiserver.verbs.writes import ATTEMPTS

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
REPLICATION_CONTROLLERS = "/replicationcontrollers"
"""Their pods are orphaned unless a client asks for something else, for the sake of old clients."""
CUSTOM_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
UNDELETABLE_NAMESPACES = ("default", "kube-system", "kube-public")
_ENDED = ("Succeeded", "Failed")
_TERMINATING = {
    "type": "Terminating",
    "status": "True",
    "reason": "InstanceDeletionPending",
    "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
}


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """The result of a delete: whether the object is gone, and its last or present state."""

    entry: Entry
    gone: bool


async def delete(cluster: Cluster, request: Request) -> Response:
    """DELETE of one object."""
    output = negotiate(request.accept)
    options = delete_options(request)
    removed = await remove(cluster, request, options)
    kind, entry = request.kind, removed.entry
    if not removed.gone or kind.collection in registry_strategies.RETURNED_WHEN_DELETED:
        accepted = not removed.gone and options.orphan is False
        return cluster.respond(202 if accepted else 200, kind, output, entry)
    details = object_details(kind, entry.name) | {"uid": entry.uid}
    return Response(200, encode(success(**details)))


async def delete_collection(cluster: Cluster, request: Request) -> Response:
    """DELETE of all selected objects; the response lists them as they were."""
    output = negotiate(request.accept)
    options = delete_options(request)
    requested = list_options(request.query)
    kind = request.kind
    selection = select(kind, request.namespace, "", requested.labels, requested.fields)
    entries = [e for e in cluster.store.collection(kind.collection).present(selection.prefix) if selection.matches(e)]
    metadata = {"resourceVersion": str(cluster.store.version)}
    for entry in entries:
        target = replace(request.target, name=entry.name)
        try:
            await remove(cluster, replace(request, target=target), options)
        except StatusError as error:
            if error.code != 404:
                raise
    return cluster.respond_list(kind, output, entries, metadata)


async def remove(
    cluster: Cluster, request: Request, options: DeleteOptions, *, call_webhooks: bool = True
) -> DeleteResult:
    """Delete an object. Webhooks are called unless they were called for the request that led to the delete."""
    for _ in range(ATTEMPTS):
        try:
            return await _remove(cluster, request, options, call_webhooks=call_webhooks)
        except ConflictError:
            continue
    raise conflict(request.kind, request.name)


async def _remove(cluster: Cluster, request: Request, options: DeleteOptions, *, call_webhooks: bool) -> DeleteResult:
    kind = request.kind
    seen = cluster.store.collection(kind.collection).entries.get(key_of(request.namespace, request.name))
    if seen is None:
        raise not_found(kind, request.name)
    check_preconditions(kind, seen, options)
    if kind.collection == "/namespaces" and seen.name in UNDELETABLE_NAMESPACES:
        raise forbidden(kind, seen.name, "this namespace may not be deleted")

    async def review(entry: Entry, grace: int | None) -> None:
        if call_webhooks and cluster.webhooks.is_needed(kind, "DELETE"):
            await _call_webhooks(cluster, request, options, entry, grace)

    return await _Deletion(cluster, kind, seen, options, review).run()


async def _call_webhooks(
    cluster: Cluster, request: Request, options: DeleteOptions, entry: Entry, grace: int | None
) -> None:
    """Call webhooks with the object and the options; `grace` is the effective grace period of a pod."""
    known = {**(options.tree or {}), "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
    attributes = Attributes(
        "DELETE",
        request.kind,
        request.user,
        request.namespace,
        request.name,
        None,
        versioned_tree(request.kind, entry),
        dry_run=options.dry_run,
        options=known if grace is None else {**known, "gracePeriodSeconds": grace},
    )
    await cluster.webhooks.mutate(attributes, request.warnings)
    await cluster.webhooks.validate(attributes, request.warnings)


class _Deletion:
    """One delete. It awaits nothing except webhooks."""

    def __init__(
        self,
        cluster: Cluster,
        kind: Kind,
        seen: Entry,
        options: DeleteOptions,
        review: Callable[[Entry, int | None], Awaitable[None]],
    ) -> None:
        self._cluster = cluster
        self._kind = kind
        self._seen = seen
        self._options = options
        self._review = review
        self._tree = seen.tree()
        self._metadata: Tree = self._tree["metadata"]

    async def run(self) -> DeleteResult:
        if self._kind.collection == "/pods":
            return await self._pod()
        await self._review(self._seen, None)
        self._set_finalizers()
        if self._has_contents() or self._metadata.get("finalizers"):
            self._set_deletion_timestamp()
            return DeleteResult(self._replace(), gone=False)
        return self._remove()

    async def _pod(self) -> DeleteResult:
        """Delete a pod with the requested grace period, or its own; none is needed where nothing runs.

        A pod that is removed at once gets a `deletionTimestamp` first, and webhooks are called for both, as in
        Kubernetes.
        """
        if "deletionTimestamp" not in self._metadata:
            self._start_grace()
        elif not self._metadata.get("deletionGracePeriodSeconds"):
            return await self._terminating_pod()
        elif not self._shorten(self._metadata["deletionTimestamp"]):
            return DeleteResult(self._seen, gone=False)
        grace = self._metadata["deletionGracePeriodSeconds"]
        await self._review(self._seen, grace)
        self._set_finalizers()
        self._seen = self._replace()
        if self._metadata.get("finalizers") or grace:
            return DeleteResult(self._seen, gone=False)
        if not self._options.dry_run:
            await self._review(self._seen, grace)
        return self._remove()

    async def _terminating_pod(self) -> DeleteResult:
        """Remove a pod whose grace period is over, unless it has finalizers."""
        await self._review(self._seen, None)
        self._set_finalizers()
        if self._metadata.get("finalizers"):
            self._set_deletion_timestamp()
            return DeleteResult(self._replace(), gone=False)
        return self._remove()

    def _start_grace(self) -> None:
        grace = self._options.grace
        if grace is None:
            grace = self._tree["spec"].get("terminationGracePeriodSeconds", 0)
        if not self._tree["spec"].get("nodeName") or self._tree.get("status", {}).get("phase") in _ENDED:
            grace = 0
        self._set_grace(max(grace, 1) if grace < 0 else grace, self._cluster.clock())
        self._increase_generation()

    def _shorten(self, timestamp: str) -> bool:
        """Shorten the grace period; whether that changed anything."""
        requested, left = self._options.grace, self._metadata["deletionGracePeriodSeconds"]
        if requested is None or requested >= left:
            return False
        requested = max(requested, 0)
        now = self._cluster.clock()
        started = times.parse_ns(timestamp) - left * 10**9
        if started + requested * 10**9 < now:
            started, requested = now - min(requested, 1) * 10**9, min(requested, 1)
        self._set_grace(requested, started)
        return True

    def _set_grace(self, seconds: int, start: int) -> None:
        self._metadata["deletionTimestamp"] = times.format_time(start + seconds * 10**9)
        self._metadata["deletionGracePeriodSeconds"] = seconds

    def _set_finalizers(self) -> None:
        """Replace the finalizers of a propagation policy by the one that is requested now."""
        finalizers = list(self._metadata.get("finalizers") or ())
        wanted = _propagation(self._kind, self._options, finalizers)
        kept = [name for name in finalizers if name not in (FOREGROUND, ORPHAN)]
        kept += [wanted] if wanted and self._kind.collection != "/events" else []
        if set(kept) != set(finalizers):
            self._metadata["finalizers"] = kept

    def _set_deletion_timestamp(self) -> None:
        if self._has_contents():
            self._start_emptying()
            return
        if "deletionTimestamp" not in self._metadata:
            self._increase_generation()
            self._metadata["deletionTimestamp"] = self._cluster.now()
        self._metadata["deletionGracePeriodSeconds"] = 0

    def _start_emptying(self) -> None:
        """Start the deletion of an object that contains other objects."""
        if "deletionTimestamp" in self._metadata:
            return
        self._metadata["deletionTimestamp"] = self._cluster.now()
        if self._kind.collection == "/namespaces":
            self._tree["status"]["phase"] = "Terminating"
        else:
            self._metadata["finalizers"] = [*(self._metadata.get("finalizers") or ()), CUSTOM_CLEANUP]
            conditions = self._tree["status"].get("conditions") or []
            self._tree["status"]["conditions"] = [
                *conditions,
                {**_TERMINATING, "lastTransitionTime": self._cluster.now()},
            ]

    def _increase_generation(self) -> None:
        if self._metadata.get("generation"):
            self._metadata["generation"] += 1

    def _has_contents(self) -> bool:
        if self._kind.collection == "/namespaces":
            return bool(self._tree["spec"].get("finalizers"))
        return self._kind.collection == "apiextensions.k8s.io/customresourcedefinitions"

    def _replace(self) -> Entry:
        if self._tree == self._seen.tree():
            return self._seen
        if self._options.dry_run:
            return Entry(self._seen.key, self._tree, self._seen.version)
        return self._cluster.store.replace(
            self._cluster.store.collection(self._kind.collection), self._seen, self._tree
        )

    def _remove(self) -> DeleteResult:
        if self._options.dry_run:
            return DeleteResult(self._seen, gone=True)
        collection = self._cluster.store.collection(self._kind.collection)
        return DeleteResult(self._cluster.store.remove(collection, self._seen, self._tree), gone=True)


def _propagation(kind: Kind, options: DeleteOptions, finalizers: list[str]) -> str:
    """The finalizer that the options request; without options, the one that the object has already, or the kind's."""
    if options.orphan is not None:
        return ORPHAN if options.orphan else ""
    if options.propagation:
        return {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(options.propagation, "")
    default = ORPHAN if kind.collection == REPLICATION_CONTROLLERS else ""
    return next((name for name in finalizers if name in (FOREGROUND, ORPHAN)), default)


def check_preconditions(kind: Kind, seen: Entry, options: DeleteOptions) -> None:
    """Raise a 409 if the client means another object, or another version of it."""
    if options.uid is not None and options.uid != seen.uid:
        message = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({seen.uid}). "
            "The object might have been deleted and then recreated"
        )
        raise conflict(kind, seen.name, message, resource=kind.kind)
    if options.version is not None and options.version != str(seen.version):
        message = (
            f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in record "
            f"({seen.version}). The object might have been modified"
        )
        raise conflict(kind, seen.name, message, resource=kind.kind)
