"""The binding subresource: a scheduler assigns a pod to a node.

The pod gets the node name, the condition PodScheduled, the labels and annotations of the binding, and the zone and
region of the node. A pod is bound once.
"""

from __future__ import annotations

from dataclasses import replace

from trimtab_lab.apiserver.admission.attributes import Attributes
from trimtab_lab.apiserver.kinds import objects
from trimtab_lab.apiserver.kinds.errors import StatusError, bad_request, conflict, not_found, status_error, success
from trimtab_lab.apiserver.kinds.validation import validate
from trimtab_lab.apiserver.storage.store import ConflictError, Entry, Tree, encode, key_of
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.apiserver.verbs.options import write_options
from trimtab_lab.apiserver.verbs.requests import Request, Response
from trimtab_lab.apiserver.verbs.writes import ATTEMPTS, check_identity


async def create(cluster: Cluster, request: Request) -> Response:
    """POST: bind a pod."""
    options = write_options(request.query, "CreateOptions")
    binding = objects.read_subresource(
        "v1", "Binding", request.body, request.content_type, options.validation, request.warnings
    )
    name = binding["metadata"].get("name", "")
    if request.name and name != request.name:
        raise bad_request("name in URL does not match name in Binding object")
    request = replace(request, target=replace(request.target, name=name))
    objects.set_namespace(request.kind, binding, request.namespace)
    labels = cluster.plugins.topology_labels(binding.get("target", {}).get("name", ""))
    if labels:
        binding["metadata"].setdefault("labels", {}).update(labels)
    binding = await _admit(cluster, request, binding, dry_run=options.dry_run)
    for _ in range(ATTEMPTS):
        try:
            _bind(cluster, request, binding, dry_run=options.dry_run)
            return Response(201, encode({**success(), "code": 201}))
        except ConflictError:
            continue
    raise conflict(request.kind, request.name)


async def _admit(cluster: Cluster, request: Request, binding: Tree, *, dry_run: bool) -> Tree:
    kind = request.kind
    attributes = None
    if cluster.webhooks.is_needed(kind, "CREATE", "binding"):
        attributes = Attributes(
            "CREATE",
            kind,
            request.user,
            request.namespace,
            request.name,
            binding,
            None,
            "binding",
            dry_run,
            type=("v1", "Binding"),
        )
        binding = await cluster.webhooks.mutate(attributes, request.warnings) or binding
    problems = validate("v1 Binding", binding)
    if problems:
        texts = ", ".join(map(str, problems))
        raise status_error(500, texts if len(problems) == 1 else f"[{texts}]", reason="")
    if attributes is not None:
        await cluster.webhooks.validate(attributes.with_object(binding), request.warnings)
    return binding


def _bind(cluster: Cluster, request: Request, binding: Tree, *, dry_run: bool) -> Entry:
    kind = request.kind
    collection = cluster.store.collection(kind.collection)
    seen = collection.entries.get(key_of(request.namespace, request.name))
    if seen is None:
        raise not_found(kind, request.name)
    check_identity(kind, seen, binding["metadata"])
    tree = seen.tree()
    problem = _binding_problem(tree)
    if problem:
        raise _binding_conflict(request, problem)
    _assign(tree, binding, cluster.now())
    return seen if dry_run else cluster.store.replace(collection, seen, tree)


def _assign(pod: Tree, binding: Tree, now: str) -> None:
    pod["spec"]["nodeName"] = binding["target"]["name"]
    metadata, given = pod["metadata"], binding["metadata"]
    for field in ("annotations", "labels"):
        if given.get(field):
            metadata[field] = {**(metadata.get(field) or {}), **given[field]}
    status = pod.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    set_condition(status, {"type": "PodScheduled", "status": "True"}, now)


def set_condition(status: Tree, condition: Tree, now: str) -> None:
    """Set a condition in a pod's status; its last transition time changes only if its value does."""
    conditions = status.setdefault("conditions", [])
    for index, present in enumerate(conditions):
        if present.get("type") == condition["type"]:
            same = present.get("status") == condition["status"]
            moved = present.get("lastTransitionTime") if same else now
            conditions[index] = {**condition, "lastProbeTime": None, "lastTransitionTime": moved}
            return
    conditions.append({**condition, "lastProbeTime": None, "lastTransitionTime": now})


def _binding_problem(pod: Tree) -> str:
    name, spec = pod["metadata"]["name"], pod["spec"]
    if "deletionTimestamp" in pod["metadata"]:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _binding_conflict(request: Request, problem: str) -> StatusError:
    return conflict(request.kind, request.name, problem, resource="pods/binding")
