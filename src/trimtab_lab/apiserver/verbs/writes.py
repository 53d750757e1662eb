"""Create, update and patch: decode, default, admit, prepare, validate, admit again, store.

1. Mutating webhooks come before validation, validating webhooks after it; these receive the object as it will be
   stored.
2. Other requests write while a webhook is called. A commit therefore names the entry that the decision was based on; if
   that is no longer the present one, the steps are repeated with the new one, unless the client named a version.
3. An update that changes nothing is not written: the version stays.
4. An object that is being deleted is removed when an update removes its last finalizer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trimtab_lab.apiserver.admission.attributes import Attributes
from trimtab_lab.apiserver.kinds import objects, registry_strategies
from trimtab_lab.apiserver.kinds.conversions import TO_STORED
from trimtab_lab.apiserver.kinds.errors import (
    already_exists,
    bad_request,
    conflict,
    internal_error,
    invalid,
    not_found,
    status_error,
)
from trimtab_lab.apiserver.kinds.registry import Kind
from trimtab_lab.apiserver.kinds.serialization.wirevalues import WrongTypeError
from trimtab_lab.apiserver.kinds.validation import causes
from trimtab_lab.apiserver.storage.store import ConflictError, Entry, KeyExistsError, Tree, decode, encode, key_of
from trimtab_lab.apiserver.verbs import create_templates
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.apiserver.verbs.create_templates import CreateTemplate
from trimtab_lab.apiserver.verbs.encoding import versioned_tree
from trimtab_lab.apiserver.verbs.negotiation import negotiate
from trimtab_lab.apiserver.verbs.options import WriteOptions, write_options
from trimtab_lab.apiserver.verbs.patches import Patch
from trimtab_lab.apiserver.verbs.requests import Request, Response

ATTEMPTS = 5
_NAME_ATTEMPTS = 8

Draft = Callable[[Entry | None], Tree]
"""Returns the new state, given the present entry or None; the result may be modified."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a write. `entry` is the object as it is now, or as it would be after a dry run."""

    entry: Entry
    created: bool = False


# --- create ----------------------------------------------------------------------------------------------------------


async def create(cluster: Cluster, request: Request) -> Response:
    """POST: a new object."""
    output = negotiate(request.accept)
    options = write_options(request.query, "CreateOptions")
    kind = request.kind
    if kind.unsupported:
        raise status_error(422, f"{kind.kind}: {kind.unsupported}")
    template = create_templates.find(kind, request.body, request.content_type, options.validation)
    if template is None:
        tree = objects.read(kind, request.body, request.content_type, options.validation, request.warnings)
        objects.complete(kind, tree)
    else:
        tree = decode(template.data)
        request.warnings += template.unknown
    entry = await insert(cluster, request, tree, options, template)
    return cluster.respond(201, kind, output, entry)


async def insert(
    cluster: Cluster, request: Request, tree: Tree, options: WriteOptions, template: CreateTemplate | None = None
) -> Entry:
    """Admit, validate and store a new object that was decoded and defaulted; `template` may be known to be valid."""
    kind = request.kind
    objects.set_namespace(kind, tree, request.namespace)
    objects.wipe_system_fields(tree)
    name = tree["metadata"].get("name", "")
    cluster.plugins.admit_create(kind, request.namespace, tree)
    attributes = None
    if cluster.webhooks.is_needed(kind, "CREATE"):
        attributes = Attributes(
            "CREATE",
            kind,
            request.user,
            request.namespace,
            name,
            tree,
            dry_run=options.dry_run,
            complete=lambda changed: _complete_patched(kind, changed),
            reinvoke=lambda changed: cluster.plugins.admit_create(kind, request.namespace, changed),
        )
        tree = await cluster.webhooks.mutate(attributes, request.warnings) or tree
    valid = template if attributes is None and template is not None and template.valid else None
    return await _insert(cluster, request, tree, options, attributes, valid)


async def create_system_object(cluster: Cluster, request: Request, tree: Tree) -> Entry:
    """Create an object on behalf of the server; `tree` is not changed. Raises StatusError."""
    copy: Tree = decode(encode(tree))
    objects.conform(request.kind, copy)
    objects.complete(request.kind, copy)
    return await insert(cluster, request, copy, WriteOptions())


async def _insert(
    cluster: Cluster,
    request: Request,
    tree: Tree,
    options: WriteOptions,
    attributes: Attributes | None,
    valid: CreateTemplate | None,
) -> Entry:
    kind = request.kind
    metadata = tree["metadata"]
    base = metadata.get("generateName", "")
    generated = bool(base) and not metadata.get("name")
    now = cluster.now()
    objects.fill_system_fields(tree, now, cluster.rng)
    if generated:
        metadata["name"] = objects.generate_name(base, cluster.rng)
    registry_strategies.prepare_create(kind, tree, now)
    if valid is None:
        registry_strategies.validate(kind, tree, warnings=request.warnings)
    else:
        request.warnings += valid.warnings
    if attributes is not None:
        await cluster.webhooks.validate(attributes.with_object(tree, metadata["name"]), request.warnings)
    objects.check_new_version(tree)
    return _store_new(cluster, kind, tree, options, base if generated else "")


def _store_new(cluster: Cluster, kind: Kind, tree: Tree, options: WriteOptions, base: str) -> Entry:
    """Store a new object; a generated name is replaced until one is free."""
    collection = cluster.store.collection(kind.collection)
    metadata = tree["metadata"]
    tree = TO_STORED[kind.name](tree) if kind.name in TO_STORED else tree
    for attempt in range(_NAME_ATTEMPTS):
        if attempt:
            metadata["name"] = objects.generate_name(base, cluster.rng)
        key = key_of(metadata.get("namespace", ""), metadata["name"])
        try:
            if options.dry_run:
                if key in collection.entries:
                    raise KeyExistsError(collection.entries[key])
                return Entry(key, tree, 0)
            return cluster.store.insert(collection, key, tree)
        except KeyExistsError as taken:
            if not base or attempt == _NAME_ATTEMPTS - 1:
                raise already_exists(kind, metadata["name"], deleting=taken.entry.deleting) from None
    raise AssertionError("unreachable: the last attempt raises")


# --- update and patch ------------------------------------------------------------------------------------------------


async def update(cluster: Cluster, request: Request) -> Response:
    """PUT: replace an object."""
    output = negotiate(request.accept)
    options = write_options(request.query, "UpdateOptions")
    kind = request.kind
    tree = objects.read(kind, request.body, request.content_type, options.validation, request.warnings)
    check_name(request, tree)
    objects.complete(kind, tree)
    sent = encode(tree)
    creates = kind.collection in registry_strategies.CREATE_ON_UPDATE and not request.target.subresource
    written = await write(cluster, request, lambda _: decode(sent), options, creates=creates)
    return cluster.respond(201 if written.created else 200, kind, output, written.entry)


async def patch(cluster: Cluster, request: Request) -> Response:
    """PATCH: patch an object."""
    output = negotiate(request.accept)
    kind = request.kind
    change = Patch.read(kind, request.content_type, request.body)
    options = write_options(request.query, "PatchOptions")

    def draft(present: Entry | None) -> Tree:
        if present is None:
            raise not_found(kind, request.name)
        return change.apply(kind, versioned_tree(kind, present), options.validation, request.warnings)

    written = await write(cluster, request, draft, options, creates=False)
    return cluster.respond(200, kind, output, written.entry)


async def write(
    cluster: Cluster, request: Request, draft: Draft, options: WriteOptions, *, creates: bool
) -> WriteResult:
    """Replace an object by the result of `draft`, and retry on conflicts."""
    for _ in range(ATTEMPTS):
        try:
            return await _write(cluster, request, draft, options, creates=creates)
        except ConflictError:
            continue
    raise conflict(request.kind, request.name)


async def _write(
    cluster: Cluster, request: Request, draft: Draft, options: WriteOptions, *, creates: bool
) -> WriteResult:
    kind = request.kind
    collection = cluster.store.collection(kind.collection)
    seen = collection.entries.get(key_of(request.namespace, request.name))
    if seen is None and not creates:
        raise not_found(kind, request.name)
    tree = draft(seen)
    check_name(request, tree)
    if seen is None:
        return WriteResult(await insert(cluster, request, tree, options), created=True)
    objects.set_namespace(kind, tree, request.namespace)
    old = versioned_tree(kind, seen)
    check_identity(kind, seen, tree["metadata"], needed=registry_strategies.needs_version(kind))
    tree = await _admit_update(cluster, request, tree, old, options)
    if collection.entries.get(seen.key) is not seen:
        raise ConflictError(seen.key)
    return WriteResult(commit(cluster, kind, seen, tree, old, options))


async def _admit_update(cluster: Cluster, request: Request, tree: Tree, old: Tree, options: WriteOptions) -> Tree:
    """Admit, prepare and validate an update; returns the state to store."""
    kind, part = request.kind, request.target.subresource
    if not part:
        cluster.plugins.admit_update(kind, request.namespace, tree, old)
    attributes = None
    if cluster.webhooks.is_needed(kind, "UPDATE", part):
        attributes = Attributes(
            "UPDATE",
            kind,
            request.user,
            request.namespace,
            request.name,
            tree,
            old,
            part,
            options.dry_run,
            complete=lambda changed: _complete_patched(kind, changed),
            reinvoke=lambda changed: cluster.plugins.admit_update(kind, request.namespace, changed, old),
        )
        tree = await cluster.webhooks.mutate(attributes, request.warnings) or tree
    _prepare(kind, part, tree, old)
    _keep_identity(tree["metadata"], old["metadata"])
    registry_strategies.validate(kind, tree, old, part, warnings=request.warnings)
    if attributes is not None:
        await cluster.webhooks.validate(attributes.with_object(tree), request.warnings)
    return tree


def commit(cluster: Cluster, kind: Kind, seen: Entry, tree: Tree, old: Tree, options: WriteOptions) -> Entry:
    """Store the next state of the object `seen`, unless nothing changed. Raises ConflictError."""
    metadata = tree["metadata"]
    metadata["resourceVersion"] = str(seen.version)
    if _is_finalized(kind, tree, old):
        gone = Entry(seen.key, _stored(kind, tree), seen.version)
        if not options.dry_run:
            cluster.store.remove(cluster.store.collection(kind.collection), seen, _stored(kind, tree))
        return gone
    if tree == old:
        return seen
    if options.dry_run:
        return Entry(seen.key, _stored(kind, tree), seen.version)
    return cluster.store.replace(cluster.store.collection(kind.collection), seen, _stored(kind, tree))


def _is_finalized(kind: Kind, tree: Tree, old: Tree) -> bool:
    """Whether an object that is being deleted has nothing left that delays its removal."""
    before = old["metadata"]
    if "deletionTimestamp" not in before or tree["metadata"].get("finalizers"):
        return False
    if kind.collection == "/namespaces" and tree["spec"].get("finalizers"):
        return False
    return not before.get("deletionGracePeriodSeconds")


def _prepare(kind: Kind, part: str, tree: Tree, old: Tree) -> None:
    if part == "status":
        registry_strategies.prepare_status(kind, tree, old)
    elif part == "finalize":
        finalizers = (tree.get("spec") or {}).get("finalizers")
        tree.clear()
        tree |= old | {"metadata": {**old["metadata"]}, "spec": {"finalizers": finalizers} if finalizers else {}}
    else:
        registry_strategies.prepare_update(kind, tree, old)


def _keep_identity(metadata: Tree, before: Tree) -> None:
    """Keep the fields that no update can change."""
    metadata["uid"] = metadata.get("uid") or before["uid"]
    metadata["creationTimestamp"] = before["creationTimestamp"]
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if field in before:
            metadata[field] = before[field]
        else:
            metadata.pop(field, None)


def check_identity(kind: Kind, seen: Entry, metadata: Tree, *, needed: bool = False) -> None:
    """Check the uid and the version that the client states, if any; a version is required if `needed`."""
    uid, version = metadata.get("uid"), metadata.get("resourceVersion", "")
    if uid and uid != seen.uid:
        failed = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {seen.uid}"
        resource = kind.plural if kind.custom is None else kind.collection
        place = f"Key: /registry/{resource}/{seen.key}, ResourceVersion: 0"
        raise conflict(kind, seen.name, f"StorageError: invalid object, Code: 4, {place}, AdditionalErrorMsg: {failed}")
    if version in ("", "0"):
        if needed:
            cause = causes.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(kind.group, kind.plural, seen.name, [cause])
        metadata["resourceVersion"] = str(seen.version)
    elif not version.isascii() or not version.isdigit():
        raise status_error(500, f'strconv.ParseUint: parsing "{version}": invalid syntax', reason="")
    elif int(version) != seen.version:
        raise conflict(kind, seen.name)


def check_name(request: Request, tree: Tree) -> None:
    """Check that the object has the name of the path. Raises a StatusError of 400."""
    name = tree["metadata"].get("name", "")
    if not name:
        raise bad_request(
            f"the name of the object ({request.name} based on URL) was undeterminable: name must be provided"
        )
    if name != request.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({request.name})")


# --- what both need --------------------------------------------------------------------------------------------------


def _complete_patched(kind: Kind, tree: Tree) -> None:
    """Decode and default an object that a webhook patched. Raises a StatusError of 500."""
    try:
        objects.conform(kind, tree)
    except WrongTypeError as error:
        raise internal_error(str(error)) from None
    objects.complete(kind, tree)


def _stored(kind: Kind, tree: Tree) -> Tree:
    return TO_STORED[kind.name](tree) if kind.name in TO_STORED else tree
