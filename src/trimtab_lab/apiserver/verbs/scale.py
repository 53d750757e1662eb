"""The scale subresource: the number of replicas, in the same form for everything that can be scaled.

Requests and responses hold a Scale; the workload is what is stored. Webhooks receive the Scale.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trimtab.api import codec, selectors
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector
from trimtab_lab.apiserver.admission.attributes import Attributes
from trimtab_lab.apiserver.kinds import objects, registry_strategies
from trimtab_lab.apiserver.kinds.errors import bad_request, conflict, internal_error, invalid, not_found
from trimtab_lab.apiserver.kinds.registry import Kind
from trimtab_lab.apiserver.kinds.serialization import decoding, field_validation, wiretypes
from trimtab_lab.apiserver.kinds.serialization.wirevalues import WrongTypeError
from trimtab_lab.apiserver.kinds.validation import causes
from trimtab_lab.apiserver.storage.store import ConflictError, Entry, Tree, encode, key_of
from trimtab_lab.apiserver.verbs import writes
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.apiserver.verbs.options import WriteOptions, write_options
from trimtab_lab.apiserver.verbs.patches import Patch
from trimtab_lab.apiserver.verbs.requests import Request, Response

Draft = Callable[[Tree], Tree]
"""Returns the requested Scale, given the present one."""

_TYPE = {"kind": "Scale", "apiVersion": "autoscaling/v1"}
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_PATHS = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


def get(cluster: Cluster, request: Request) -> Response:
    """GET: the scale of a workload."""
    entry = _present(cluster, request)
    return Response(200, encode({**_TYPE, **scale_of(request.kind, entry.tree())}))


async def update(cluster: Cluster, request: Request) -> Response:
    """PUT: replace the Scale."""
    options = write_options(request.query, "UpdateOptions")
    body, sent_as = request.body, request.content_type
    level = options.validation
    sent = objects.read_subresource("autoscaling/v1", "Scale", body, sent_as, level, request.warnings)
    writes.check_name(request, sent)
    return await _write(cluster, request, lambda _present: sent, options)


async def patch(cluster: Cluster, request: Request) -> Response:
    """PATCH: patch the Scale."""
    options = write_options(request.query, "PatchOptions")
    change = Patch.read(request.kind, request.content_type, request.body)
    return await _write(cluster, request, lambda present: _patched(request, change, present, options), options)


def scale_of(kind: Kind, tree: Tree) -> Tree:
    """The Scale of a workload, without kind and version."""
    paths = _paths(kind)
    metadata = {name: tree["metadata"][name] for name in _METADATA if name in tree["metadata"]}
    wanted = _at(tree, paths["specReplicasPath"]) or 0
    status: Tree = {"replicas": _at(tree, paths["statusReplicasPath"]) or 0}
    selector = _selector(kind, tree, paths)
    if selector:
        status["selector"] = selector
    return {"metadata": metadata, "spec": {"replicas": wanted} if wanted else {}, "status": status}


async def _write(cluster: Cluster, request: Request, draft: Draft, options: WriteOptions) -> Response:
    for _ in range(writes.ATTEMPTS):
        try:
            entry = await _scale(cluster, request, draft, options)
            return Response(200, encode({**_TYPE, **scale_of(request.kind, entry.tree())}))
        except ConflictError:
            continue
    raise conflict(request.kind, request.name)


async def _scale(cluster: Cluster, request: Request, draft: Draft, options: WriteOptions) -> Entry:
    kind = request.kind
    seen = _present(cluster, request)
    old = seen.tree()
    present = scale_of(kind, old)
    scale = draft(present)
    objects.set_namespace(kind, scale, request.namespace)
    writes.check_identity(kind, seen, scale["metadata"])
    if cluster.webhooks.is_needed(kind, "UPDATE", "scale"):
        attributes = Attributes(
            "UPDATE",
            kind,
            request.user,
            request.namespace,
            request.name,
            scale,
            present,
            "scale",
            options.dry_run,
            type=(_TYPE["apiVersion"], _TYPE["kind"]),
            complete=_read_patched,
        )
        scale = await cluster.webhooks.mutate(attributes, request.warnings) or scale
        await cluster.webhooks.validate(attributes.with_object(scale), request.warnings)
        if cluster.store.collection(kind.collection).entries.get(seen.key) is not seen:
            raise ConflictError(seen.key)
    return writes.commit(cluster, kind, seen, _scaled(request, seen, scale, old), old, options)


def _scaled(request: Request, seen: Entry, scale: Tree, old: Tree) -> Tree:
    """The workload with the number of replicas of the Scale. Raises a StatusError of 422."""
    kind = request.kind
    wanted = (scale.get("spec") or {}).get("replicas", 0)
    if wanted < 0:
        cause = causes.invalid("spec.replicas", wanted, "must be greater than or equal to 0")
        raise invalid("autoscaling", "Scale", seen.name, [cause])
    tree = seen.tree()
    _set(tree, _paths(kind)["specReplicasPath"], wanted)
    registry_strategies.prepare_update(kind, tree, old)
    registry_strategies.validate(kind, tree, old, warnings=request.warnings)
    return tree


def _present(cluster: Cluster, request: Request) -> Entry:
    kind = request.kind
    entry = cluster.store.collection(kind.collection).entries.get(key_of(request.namespace, request.name))
    if entry is None:
        raise not_found(kind, request.name)
    return entry


def _patched(request: Request, change: Patch, present: Tree, options: WriteOptions) -> Tree:
    document = {**_TYPE, **present}
    patched = change.apply_to(document)
    patched.pop("kind", None)
    patched.pop("apiVersion", None)
    decoding.without_huge_numbers(patched)
    try:
        problems = field_validation.unknown_fields(wiretypes.read("autoscaling/v1 Scale", patched))
    except WrongTypeError as error:
        raise change.invalid_result(document, str(error)) from None
    if problems and options.validation == "Strict":
        raise change.invalid_result(document, field_validation.strict_error(problems))
    objects.handle_problems("", problems, options.validation, request.warnings)
    writes.check_name(request, patched)
    return patched


def _read_patched(scale: Tree) -> None:
    try:
        wiretypes.read("autoscaling/v1 Scale", scale)
    except WrongTypeError as error:
        raise internal_error(str(error)) from None


def _paths(kind: Kind) -> dict[str, str]:
    return {**_PATHS, **(kind.custom.scale or {})} if kind.custom is not None else _PATHS


def _at(tree: Tree, path: str) -> Any:
    value: Any = tree
    for step in path.strip(".").split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _set(tree: Tree, path: str, value: int) -> None:
    *steps, last = path.strip(".").split(".")
    for step in steps:
        tree = tree.setdefault(step, {})
        if not isinstance(tree, dict):
            raise bad_request(f"{path} cannot be set: {step} is not an object")
    tree[last] = value


def _selector(kind: Kind, tree: Tree, paths: dict[str, str]) -> str:
    if kind.custom is not None:
        return str(_at(tree, paths["labelSelectorPath"]) or "") if "labelSelectorPath" in paths else ""
    selector = tree["spec"].get("selector") or {}
    if kind.collection == "/replicationcontrollers":
        return str(selectors.from_labels(selector))
    try:
        return str(selectors.compile(codec.convert(selector, LabelSelector)))
    except InvalidError:
        return ""
