"""Reads the steps of a story from YAML values.

A step does one thing, waits until it is complete, and checks the pods:

    - title: the new zone fills                           # optional; by default made from the verb
      scale: {kind: Deployment, name: web, replicas: 30}  # one verb, or none where a step only waits
      wait: {ready: 30, within: 60}                       # optional; by default until everything has settled
      expect: {domains: {zone: {a: 10, b: 10, c: 10}}, skew: {zone: "<= 1"}}
      compare: exact                                      # with the golden result: exact, levels or chance

`VERBS` lists the verbs: each has a type in `steps`, and one function in `actions` that carries it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trimtab.api.documents import Document
from trimtab.api.errors import InvalidError
from trimtab.kube.client import PatchKind
from trimtab_lab.nodes import shapes
from trimtab_lab.nodes.shapes import Shape
from trimtab_lab.scenarios import ranges
from trimtab_lab.scenarios.fields import Fields, or_list, short_repr, suggest, text_at
from trimtab_lab.scenarios.ranges import Range
from trimtab_lab.scenarios.steps import (
    DEFAULT_TIMEOUT,
    Action,
    Add,
    Age,
    Apply,
    Compare,
    Delete,
    Expectation,
    NodeOperation,
    NodeSelection,
    OperateNodes,
    Patch,
    Repeat,
    Scale,
    Step,
    Target,
    Wait,
)

COMPARISONS: Mapping[str, Compare] = {each.value: each for each in Compare}
PATCHES: Mapping[str, PatchKind] = {
    "strategic": PatchKind.STRATEGIC,
    "merge": PatchKind.MERGE,
    "json": PatchKind.JSON,
}

COUNTS = ("pods", "ready", "available", "unschedulable", "terminating")
"""The counts of a workload, or of all pods of a story; `pods` excludes terminating ones."""


def read(tree: Any, path: str) -> Step:
    """Read a step of a story."""
    fields = Fields(tree, path, f"one verb ({', '.join(VERBS)}) and what it is about")
    verbs = [name for name in fields.present() if name in VERBS]
    if len(verbs) > 1:
        raise InvalidError(path, f"{' and '.join(verbs)} are two verbs: make a step of each")
    if not verbs and not fields.has("wait"):
        raise InvalidError(path, _no_verb(fields))
    step = Step(
        path=path,
        action=VERBS[verbs[0]](fields.raw(verbs[0]), fields.at(verbs[0])) if verbs else None,
        title=fields.text("title", ""),
        wait=_wait(fields.raw("wait"), fields.at("wait")) if fields.has("wait") else None,
        expect=_expectations(fields),
        compare=fields.choice("compare", COMPARISONS, Compare.EXACT),
    )
    fields.done()
    if isinstance(step.action, OperateNodes) and step.action.operation is NodeOperation.FAIL and step.wait is None:
        raise InvalidError(
            path, "needs a wait with the counts that are left after the failure: wait: {ready: 4, terminating: 2}"
        )
    return step


def _no_verb(fields: Fields) -> str:
    unknown = [name for name in fields.present() if name not in ("title", "wait", "expect", "compare")]
    hint = suggest(unknown[0], [*VERBS, "wait"]) if unknown else f"write {or_list([*VERBS, 'wait'])}"
    return f"{short_repr(unknown[0])} is not a verb: {hint}" if unknown else f"has no verb: {hint}"


def manifest(tree: Any, path: str) -> Document:
    """Read a manifest, which is kept as it is; its namespace is the run's."""
    fields = Fields(tree, path, "a manifest with apiVersion, kind and metadata.name")
    fields.text("apiVersion")
    fields.text("kind")
    metadata = Fields(fields.raw("metadata"), fields.at("metadata"), "metadata: {name: web}")
    metadata.text("name")
    if metadata.has("namespace"):
        raise InvalidError(metadata.at("namespace"), "each run has a namespace of its own: leave it out")
    if fields.has("spec"):
        Fields(fields.raw("spec"), fields.at("spec"), "spec: {replicas: 3, …}")
    return Document(tree)


def target(tree: Any, path: str) -> Target:
    """Read the kind and name of an object."""
    fields = Fields(tree, path, "{kind: Deployment, name: web}")
    found = _target(fields)
    fields.done()
    return found


def _target(fields: Fields) -> Target:
    return Target(fields.text("kind"), fields.text("name"))


def _apply(tree: Any, path: str) -> Apply:
    if not isinstance(tree, list) or not tree:
        raise InvalidError(path, f"{short_repr(tree)} is not a list of manifests: write each after a dash")
    return Apply(tuple(manifest(each, f"{path}[{index}]") for index, each in enumerate(tree)))


def _scale(tree: Any, path: str) -> Scale:
    fields = Fields(tree, path, "{kind: Deployment, name: web, replicas: 30}")
    scale = Scale(_target(fields), fields.count("replicas"))
    fields.done()
    return scale


def _patch(tree: Any, path: str) -> Patch:
    fields = Fields(tree, path, "{kind: Deployment, name: web, patch: {spec: {paused: true}}}")
    how = fields.choice("how", PATCHES, "strategic")
    content = fields.raw("patch")
    wanted: type[Any] = list if how is PatchKind.JSON else dict
    if not isinstance(content, wanted):
        form = "a list of operations" if wanted is list else "a mapping with the fields to change"
        raise InvalidError(fields.at("patch"), f"{short_repr(content)} is not {form}")
    patch = Patch(_target(fields), content, how)
    fields.done()
    return patch


def _delete(tree: Any, path: str) -> Delete:
    return Delete(target(tree, path))


def _add(tree: Any, path: str) -> Add:
    return Add(shape(tree, path))


def shape(tree: Any, path: str) -> Shape:
    """Read the nodes of a cluster, or additional ones."""
    try:
        return shapes.read(tree)
    except InvalidError as error:
        raise error.under(path) from error


def _operate(operation: NodeOperation) -> Callable[[Any, str], OperateNodes]:
    def read_choice(tree: Any, path: str) -> OperateNodes:
        fields = Fields(tree, path, "{zone: zone-c}, {nodes: [zone-c-1]} or {labels: {example.com/rack: r1}}")
        selection = NodeSelection(
            fields.text("zone", ""), fields.table("labels", text_at), fields.items("nodes", text_at)
        )
        fields.done()
        if sum(map(bool, (selection.zone, selection.labels, selection.nodes))) != 1:
            raise InvalidError(path, "which nodes? Write one of zone, nodes and labels")
        return OperateNodes(operation, selection)

    return read_choice


def _age(tree: Any, path: str) -> Age:
    fields = Fields(tree, path, "{atLeast: 10} or {together: true}")
    at_least = fields.seconds("atLeast", 0.0) if fields.has("atLeast") else None
    together = fields.flag("together")
    fields.done()
    if together == (at_least is not None):
        raise InvalidError(path, "how old? Write either atLeast: SECONDS or together: true")
    return Age(at_least, together)


def _repeat(tree: Any, path: str) -> Repeat:
    fields = Fields(tree, path, "{times: 3, steps: [...]}")
    repeat = Repeat(fields.count("times", least=1), fields.items("steps", read, needed=True))
    fields.done()
    return repeat


def _wait(tree: Any, path: str) -> Wait:
    fields = Fields(tree, path, "{ready: 20, within: 60}")
    wait = Wait(fields.text("of", ""), _counts(fields), fields.seconds("within", DEFAULT_TIMEOUT))
    fields.done()
    return wait


def _counts(fields: Fields) -> dict[str, Range]:
    found = {name: fields.range(name) for name in COUNTS}
    return {name: number for name, number in found.items() if number is not None}


def _expectations(fields: Fields) -> tuple[Expectation, ...]:
    """One mapping, or a list of them for several workloads."""
    if not fields.has("expect"):
        return ()
    if isinstance(fields.raw("expect"), list):
        return fields.items("expect", _expectation)
    return (_expectation(fields.raw("expect"), fields.at("expect")),)


def _expectation(tree: Any, path: str) -> Expectation:
    fields = Fields(tree, path, '{domains: {zone: {zone-a: 10, zone-b: 10}}, skew: {zone: "<= 1"}}')
    expectation = Expectation(
        of=fields.text("of", ""),
        domains=fields.table("domains", _domains),
        levels=fields.table("levels", _levels),
        skew=fields.table("skew", ranges.read),
        counts=_counts(fields),
    )
    fields.done()
    return expectation


def _domains(tree: Any, path: str) -> dict[str, Range]:
    if not isinstance(tree, dict) or not tree:
        raise InvalidError(path, f"{short_repr(tree)} is not a mapping of domains: write {{zone-a: 10, zone-b: 10}}")
    return {str(domain): ranges.read(number, f"{path}[{domain}]") for domain, number in tree.items()}


def _levels(tree: Any, path: str) -> tuple[int, ...]:
    if not isinstance(tree, list) or not all(type(each) is int and each >= 0 for each in tree):
        raise InvalidError(path, f"{short_repr(tree)} is not a list of numbers of pods: write [7, 7, 6]")
    return tuple(sorted(tree, reverse=True))


VERBS: Mapping[str, Callable[[Any, str], Action]] = {
    "apply": _apply,
    "scale": _scale,
    "patch": _patch,
    "delete": _delete,
    "add": _add,
    **{each.value: _operate(each) for each in NodeOperation},
    "age": _age,
    "repeat": _repeat,
}
"""All verbs, with their readers."""
