"""Delete and deletecollection.

What a delete does, in this order:

1. Preconditions: the client may name the uid and the version that he means.
2. Webhooks are asked.
3. A pod on a node goes gracefully: it is marked (`deletionTimestamp`), and whoever runs it deletes it with a grace of
   zero when it has ended. The grace can only be shortened. A pod that was never placed, or has ended, goes at once.
4. Propagation `Foreground` and `Orphan` are finalizers that the collector works off.
5. What has finalizers is marked, and goes when an update takes the last one away. Everything else goes now.

A namespace and a CustomResourceDefinition hold other objects; they are marked first, emptied by others, and go then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from trimtab.api import times
from trimtab_lab.apiserver.admission.reviews import Review
from trimtab_lab.apiserver.kinds import registry_strategies
from trimtab_lab.apiserver.kinds.errors import (
    Refusal,
    about,
    bad_options,
    bad_request,
    conflict,
    forbidden,
    not_found,
    success,
)
from trimtab_lab.apiserver.kinds.registry import Kind
from trimtab_lab.apiserver.kinds.serialization import decoding, wiretypes
from trimtab_lab.apiserver.kinds.validation import causes
from trimtab_lab.apiserver.storage.store import Changed, Entry, Tree, encode, key_of
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.apiserver.verbs.encoding import converted
from trimtab_lab.apiserver.verbs.negotiation import negotiate
from trimtab_lab.apiserver.verbs.options import Query, dry_run_causes, flag, list_options, one, whole
from trimtab_lab.apiserver.verbs.requests import Answer, Request
from trimtab_lab.apiserver.verbs.selectors import select
from trimtab_lab.apiserver.verbs.writes import ATTEMPTS

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
CUSTOM_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
IMMORTAL = ("default", "kube-system", "kube-public")

_POLICIES = ("Foreground", "Background", "Orphan")
_ENDED = ("Succeeded", "Failed")
_TERMINATING = {
    "type": "Terminating",
    "status": "True",
    "reason": "InstanceDeletionPending",
    "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
}


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete."""

    grace: int | None = None
    uid: str | None = None
    version: str | None = None
    propagation: str = ""
    orphan: bool | None = None
    dry_run: bool = False
    tree: Tree | None = None


@dataclass(frozen=True, slots=True)
class Removed:
    """What a delete led to: whether the object is gone, and its last or present state."""

    entry: Entry
    gone: bool


async def delete(cluster: Cluster, request: Request) -> Answer:
    """DELETE of one object."""
    form = negotiate(request.accept)
    options = delete_options(request)
    removed = await remove(cluster, request, options)
    kind, entry = request.kind, removed.entry
    if not removed.gone or kind.shelf in registry_strategies.RETURNED_WHEN_DELETED:
        accepted = not removed.gone and options.orphan is False
        return cluster.answer(202 if accepted else 200, kind, form, entry)
    details = about(kind, entry.name) | {"uid": entry.uid}
    return Answer(200, encode(success(**details)))


async def delete_collection(cluster: Cluster, request: Request) -> Answer:
    """DELETE of all that a selection means; the answer lists them as they were."""
    form = negotiate(request.accept)
    options = delete_options(request)
    asked = list_options(request.query)
    kind = request.kind
    selection = select(kind, request.namespace, "", asked.labels, asked.fields)
    entries = [e for e in cluster.store.shelf(kind.shelf).present(selection.prefix) if selection.matches(e)]
    metadata = {"resourceVersion": str(cluster.store.version)}
    for entry in entries:
        target = replace(request.target, name=entry.name)
        try:
            await remove(cluster, replace(request, target=target), options)
        except Refusal as error:
            if error.code != 404:
                raise
    return cluster.answer_list(kind, form, entries, metadata)


async def remove(cluster: Cluster, request: Request, options: DeleteOptions, *, reviewed: bool = True) -> Removed:
    """Delete an object, whoever asked for it. Webhooks are asked unless they were about what led to it."""
    for _ in range(ATTEMPTS):
        try:
            return await _remove(cluster, request, options, reviewed=reviewed)
        except Changed:
            continue
    raise conflict(request.kind, request.name)


async def _remove(cluster: Cluster, request: Request, options: DeleteOptions, *, reviewed: bool) -> Removed:
    kind = request.kind
    seen = cluster.store.shelf(kind.shelf).entries.get(key_of(request.namespace, request.name))
    if seen is None:
        raise not_found(kind, request.name)
    check_preconditions(kind, seen, options)
    if kind.shelf == "/namespaces" and seen.name in IMMORTAL:
        raise forbidden(kind, seen.name, "this namespace may not be deleted")

    async def review(entry: Entry, grace: int | None) -> None:
        if reviewed and cluster.admissions.watch(kind, "DELETE"):
            await _review(cluster, request, options, entry, grace)

    return await _Removal(cluster, kind, seen, options, review).run()


async def _review(cluster: Cluster, request: Request, options: DeleteOptions, entry: Entry, grace: int | None) -> None:
    """Have webhooks see what is deleted, and how; `grace` is what a pod's comes to."""
    known = {**(options.tree or {}), "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
    review = Review(
        "DELETE",
        request.kind,
        request.user,
        request.namespace,
        request.name,
        None,
        converted(request.kind, entry),
        dry_run=options.dry_run,
        options=known if grace is None else {**known, "gracePeriodSeconds": grace},
    )
    await cluster.admissions.mutate(review, request.warnings)
    await cluster.admissions.validate(review, request.warnings)


class _Removal:
    """One delete. Between two reviews, and after the last, nothing waits."""

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

    async def run(self) -> Removed:
        if self._kind.shelf == "/pods":
            return await self._pod()
        await self._review(self._seen, None)
        self._set_finalizers()
        if self._holds_others() or self._metadata.get("finalizers"):
            self._mark()
            return Removed(self._replace(), gone=False)
        return self._gone()

    async def _pod(self) -> Removed:
        """A pod's grace is what was asked for, or its own; none is needed where nothing runs.

        One that goes at once is marked first, and webhooks are asked about both: as Kubernetes does it.
        """
        if "deletionTimestamp" not in self._metadata:
            self._start_grace()
        elif not self._metadata.get("deletionGracePeriodSeconds"):
            return await self._marked_pod()
        elif not self._shorten(self._metadata["deletionTimestamp"]):
            return Removed(self._seen, gone=False)
        grace = self._metadata["deletionGracePeriodSeconds"]
        await self._review(self._seen, grace)
        self._set_finalizers()
        self._seen = self._replace()
        if self._metadata.get("finalizers") or grace:
            return Removed(self._seen, gone=False)
        if not self._options.dry_run:
            await self._review(self._seen, grace)
        return self._gone()

    async def _marked_pod(self) -> Removed:
        """One whose grace is over goes as soon as nobody's finalizer keeps it."""
        await self._review(self._seen, None)
        self._set_finalizers()
        if self._metadata.get("finalizers"):
            self._mark()
            return Removed(self._replace(), gone=False)
        return self._gone()

    def _start_grace(self) -> None:
        grace = self._options.grace
        if grace is None:
            grace = self._tree["spec"].get("terminationGracePeriodSeconds", 0)
        if not self._tree["spec"].get("nodeName") or self._tree.get("status", {}).get("phase") in _ENDED:
            grace = 0
        self._set_grace(max(grace, 1) if grace < 0 else grace, self._cluster.clock())
        self._count()

    def _shorten(self, marked: str) -> bool:
        """Whether there was something to shorten."""
        asked, left = self._options.grace, self._metadata["deletionGracePeriodSeconds"]
        if asked is None or asked >= left:
            return False
        asked = max(asked, 0)
        now = self._cluster.clock()
        started = times.parse_ns(marked) - left * 10**9
        if started + asked * 10**9 < now:
            started, asked = now - min(asked, 1) * 10**9, min(asked, 1)
        self._set_grace(asked, started)
        return True

    def _set_grace(self, seconds: int, start: int) -> None:
        self._metadata["deletionTimestamp"] = times.format_time(start + seconds * 10**9)
        self._metadata["deletionGracePeriodSeconds"] = seconds

    def _set_finalizers(self) -> None:
        """Replace the finalizers that stand for a propagation by the one that is asked for now."""
        finalizers = list(self._metadata.get("finalizers") or ())
        wanted = _propagation(self._options, finalizers)
        kept = [name for name in finalizers if name not in (FOREGROUND, ORPHAN)]
        kept += [wanted] if wanted and self._kind.shelf != "/events" else []
        if set(kept) != set(finalizers):
            self._metadata["finalizers"] = kept

    def _mark(self) -> None:
        if self._holds_others():
            self._mark_holder()
            return
        if "deletionTimestamp" not in self._metadata:
            self._count()
            self._metadata["deletionTimestamp"] = self._cluster.now()
        self._metadata["deletionGracePeriodSeconds"] = 0

    def _mark_holder(self) -> None:
        """Begin to empty what holds other objects."""
        if "deletionTimestamp" in self._metadata:
            return
        self._metadata["deletionTimestamp"] = self._cluster.now()
        if self._kind.shelf == "/namespaces":
            self._tree["status"]["phase"] = "Terminating"
        else:
            self._metadata["finalizers"] = [*(self._metadata.get("finalizers") or ()), CUSTOM_CLEANUP]
            conditions = self._tree["status"].get("conditions") or []
            self._tree["status"]["conditions"] = [
                *conditions,
                {**_TERMINATING, "lastTransitionTime": self._cluster.now()},
            ]

    def _count(self) -> None:
        if self._metadata.get("generation"):
            self._metadata["generation"] += 1

    def _holds_others(self) -> bool:
        if self._kind.shelf == "/namespaces":
            return bool(self._tree["spec"].get("finalizers"))
        return self._kind.shelf == "apiextensions.k8s.io/customresourcedefinitions"

    def _replace(self) -> Entry:
        if self._tree == self._seen.tree():
            return self._seen
        if self._options.dry_run:
            return Entry(self._seen.key, self._tree, self._seen.version)
        return self._cluster.store.replace(self._cluster.store.shelf(self._kind.shelf), self._seen, self._tree)

    def _gone(self) -> Removed:
        if self._options.dry_run:
            return Removed(self._seen, gone=True)
        shelf = self._cluster.store.shelf(self._kind.shelf)
        return Removed(self._cluster.store.remove(shelf, self._seen, self._tree), gone=True)


def _propagation(options: DeleteOptions, finalizers: list[str]) -> str:
    """The finalizer that the options ask for; where they say nothing, the one that is there already."""
    if options.orphan is not None:
        return ORPHAN if options.orphan else ""
    if options.propagation:
        return {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(options.propagation, "")
    return next((name for name in finalizers if name in (FOREGROUND, ORPHAN)), "")


def check_preconditions(kind: Kind, seen: Entry, options: DeleteOptions) -> None:
    """Refuse with 409 if the client means another object, or another version of it."""
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


def delete_options(request: Request) -> DeleteOptions:
    """What the body says, or the query where there is no body. Raises a Status of 400 or 422."""
    return options_of(_read_options(request) if request.body else _from_query(request.query))


def options_of(tree: Tree) -> DeleteOptions:
    """What a DeleteOptions says. Raises a Status of 422."""
    preconditions = tree.get("preconditions") or {}
    options = DeleteOptions(
        grace=tree.get("gracePeriodSeconds"),
        uid=preconditions.get("uid"),
        version=preconditions.get("resourceVersion"),
        propagation=tree.get("propagationPolicy", ""),
        orphan=tree.get("orphanDependents"),
        dry_run=bool(tree.get("dryRun")),
        tree=tree,
    )
    problems = [*_policy_causes(options), *dry_run_causes(tuple(tree.get("dryRun") or ()))]
    if problems:
        raise bad_options("DeleteOptions", problems)
    return options


def _read_options(request: Request) -> Tree:
    try:
        tree = decoding.read_object(request.body, request.content_type, "DeleteOptions")
        wiretypes.read("v1 DeleteOptions", tree)
    except wiretypes.WrongTypeError as error:
        raise bad_request(str(error)) from None
    return tree


def _from_query(query: Query) -> Tree:
    tree: Tree = {}
    grace = whole(query, "gracePeriodSeconds")
    if grace is not None:
        tree["gracePeriodSeconds"] = grace
    if "orphanDependents" in query:
        tree["orphanDependents"] = flag(query, "orphanDependents")
    if one(query, "propagationPolicy"):
        tree["propagationPolicy"] = one(query, "propagationPolicy")
    if "dryRun" in query:
        tree["dryRun"] = list(query["dryRun"])
    return tree


def _policy_causes(options: DeleteOptions) -> list[causes.Cause]:
    policy = options.propagation
    if policy and options.orphan is not None:
        return [
            causes.invalid("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set")
        ]
    if policy and policy not in _POLICIES:
        return [causes.unsupported("propagationPolicy", policy, (*_POLICIES, "nil"))]
    return []
