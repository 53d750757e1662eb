"""The definitions of our kinds: an API server takes them, they agree with the types, the shipped files are current."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from tools import crds as shipping
from trimtab.api import cloneset, codec, crds, scaledown, unitedtopology
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.model import Model

KINDS = {kind.kind: kind for kind in crds.KINDS}

each_kind = pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.kind) for kind in crds.KINDS])

THREE_HALLS = """
apiVersion: apps.kruise.io/v1alpha1
kind: UnitedTopology
metadata: {namespace: shop, name: checkout}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: checkout}
  subsets:
  - name: north
    nodeSelectorTerm: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [north]}]}
    maxReplicas: 4
  - name: middle
    nodeSelectorTerm: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [middle]}]}
    maxReplicas: 25%
  - name: south
    nodeSelectorTerm: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [south]}]}
"""

SIX_OWNED_THEN_RENTED = """
apiVersion: apps.kruise.io/v1alpha1
kind: UnitedTopology
metadata: {namespace: shop, name: search}
spec:
  targetRef: {apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, name: search}
  subsets:
  - name: owned
    nodeSelectorTerm: {matchExpressions: [{key: node-pool, operator: NotIn, values: [burst]}]}
    maxReplicas: 6
  - name: rented
    nodeSelectorTerm: {matchExpressions: [{key: node-pool, operator: In, values: [burst]}]}
    tolerations: [{key: example.com/rented, operator: Exists, effect: NoExecute, tolerationSeconds: 4294967296}]
"""

OWNED_WHILE_THERE_IS_ROOM = """
apiVersion: apps.kruise.io/v1alpha1
kind: UnitedTopology
metadata: {namespace: shop, name: reports}
spec:
  targetRef: {apiVersion: apps/v1, kind: ReplicaSet, name: reports}
  subsets:
  - name: owned
    nodeSelectorTerm:
      matchExpressions: [{key: node-pool, operator: NotIn, values: [burst]}]
      matchFields: [{key: metadata.name, operator: NotIn, values: [old-node]}]
  - name: rented
    tolerations: [{key: example.com/rented, operator: Equal, value: "yes", effect: NoSchedule}]
    patch:
      metadata: {labels: {billing: metered}}
      spec:
        schedulerName: null
        aFieldOfTomorrow: [{deep: {as: [it, gets]}}]
        containers: [{name: main, env: [{name: POOL, value: rented}], $patch: merge}]
  scheduleStrategy:
    type: Adaptive
    adaptive: {disableSimulationSchedule: true, rescheduleCriticalSeconds: 45}
status:
  observedGeneration: 4294967296
  replicas: 3
  revision: 5f0c
  countedVersion: "41"
  shortages: [{name: owned, until: "2024-02-29T12:05:00Z", times: 2}]
  otherRevisions:
  - {revision: 4e1d, subsetStatuses: [{name: owned, replicas: 1, missingReplicas: -1}]}
  subsetStatuses:
  - {name: owned, missingReplicas: 2, creating: {reports-7d9-x2k: "2024-02-29T12:00:00Z"}}
  - {name: rented, missingReplicas: -1, missingReschedule: 1, deleting: {reports-7d9-b4t: "2024-02-29T12:00:01.5Z"}}
  conditions:
  - {type: Ready, status: "False", reason: TargetNotFound, message: no such workload, observedGeneration: 3,
     lastTransitionTime: "2024-02-29T11:59:00Z"}
"""

CLONES = """
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {namespace: shop, name: search}
spec:
  replicas: 0
  selector: {matchLabels: {app: search}, matchExpressions: [{key: tier, operator: Exists}]}
  template:
    metadata: {creationTimestamp: null, labels: {app: search, tier: back}}
    spec:
      aFieldOfTomorrow: {kept: true}
      containers:
      - {name: main, image: "registry.example/search:1", livenessProbe: {httpGet: {path: /, port: web}}}
  scaleStrategy: {podsToDelete: [search-old], maxUnavailable: 20%}
  updateStrategy: {type: ReCreate, partition: 0, maxUnavailable: 1, maxSurge: 10%, paused: true}
  revisionHistoryLimit: 3
  minReadySeconds: 5
status:
  {observedGeneration: 2, replicas: 6, readyReplicas: 5, availableReplicas: 4, updatedReplicas: 3,
   updatedReadyReplicas: 2, updateRevision: search-b, currentRevision: search-a, collisionCount: 1,
   labelSelector: app=search}
"""

POLICY = """
apiVersion: trimtab.dev/v1alpha1
kind: ScaleDownPolicy
metadata: {namespace: shop, name: checkout}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: checkout}
  strategies:
  - {name: Balance, weight: 3, threshold: 100, args: {topologyKeys: [topology.kubernetes.io/zone], nested: {a: 1.5}}}
  - {name: Taints, threshold: 10}
  delivery: Continuous
  carrier: PodGroupCost
  whenUnranked: {action: Fallback, timeoutSeconds: 0}
status:
  observedGeneration: 7
  rankedPods: 30
  unrankedPods: 1
  lastError: a pod went away
  conditions: [{type: Ready, status: "True"}]
  lastPlan:
    time: "2024-02-29T12:00:00Z"
    from: 30
    to: 20
    victims: [checkout-1, checkout-2]
    skews: [{topologyKey: topology.kubernetes.io/zone, before: 0, after: 1, stock: 10}]
"""

POLICY_BY_LABELS = """
apiVersion: trimtab.dev/v1alpha1
kind: ScaleDownPolicy
metadata: {namespace: shop, name: everything}
spec: {selector: {}, strategies: [{name: Balance}], whenUnranked: {}}
"""

COSTS = """
apiVersion: trimtab.dev/v1alpha1
kind: PodGroupCost
metadata: {namespace: shop, name: checkout}
spec:
  owner: {apiVersion: apps/v1, kind: ReplicaSet, name: checkout-7d9}
  costs: {checkout-7d9-x2k: 4, checkout-7d9-b4t: -8}
"""

SAMPLES = {
    "a number in one zone, a share in the next, the rest in the last": THREE_HALLS,
    "six on machines of our own, all others on rented ones": SIX_OWNED_THEN_RENTED,
    "rented machines only once our own have no room": OWNED_WHILE_THERE_IS_ROOM,
    "a CloneSet with everything": CLONES,
    "a policy with everything": POLICY,
    "a policy by labels, with little": POLICY_BY_LABELS,
    "costs of a group": COSTS,
}

each_sample = pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in SAMPLES.items()])

BARE: dict[str, JSON] = {
    "UnitedTopology": {
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
            "subsets": [{"name": "a"}],
        }
    },
    "CloneSet": {"spec": {"selector": {}, "template": {}}},
    "ScaleDownPolicy": {"spec": {"strategies": [{"name": "Balance"}]}},
    "PodGroupCost": {},
}
"""As little as an object of each kind can say."""


def load(text: str) -> tuple[crds.CustomKind, JSON]:
    """A sample, with its kind."""
    tree: JSON = yaml.safe_load(text)
    return KINDS[tree["kind"]], tree


def decoded(kind: crds.CustomKind, tree: JSON) -> Model:
    """An object as it arrives from the wire."""
    return codec.decode(codec.encode(tree), kind.model)


def nodes(node: JSON, path: str = "") -> Iterator[tuple[str, JSON]]:
    """Every node of a schema with its path: `spec.subsets[].name`, `spec.costs{}`."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}".lstrip("."))
    if "items" in node:
        yield from nodes(node["items"], f"{path}[]")
    if "additionalProperties" in node:
        yield from nodes(node["additionalProperties"], f"{path}{{}}")


# What an API server asks of a schema
#
# 1. Every node has a type, or is an integer or a string, or keeps unknown fields.
# 2. It uses no keywords but those of its type; so no references, alternatives, patterns of names or uniqueItems.
# 3. A list says what its items are; an object names its fields, or says what all are, not both.
# 4. What tells the items of a list apart is a scalar that is always there.
# 5. A default fits where it stands.
# 6. The root is an object, and leaves metadata to the server.

INT_OR_STRING = "x-kubernetes-int-or-string"
OPEN = "x-kubernetes-preserve-unknown-fields"

KEYWORDS: dict[str, set[str]] = {
    "object": {"maxProperties", "properties", "additionalProperties", "required", "x-kubernetes-map-type", OPEN},
    "array": {"items", "minItems", "maxItems", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"},
    "string": {"format", "enum", "minLength", "maxLength", "pattern"},
    "integer": {"format", "minimum", "maximum"},
    "boolean": set(),
    INT_OR_STRING: {INT_OR_STRING, "minimum", "maximum", "pattern"},
    OPEN: {OPEN},
}


def faults(schema: JSON) -> list[str]:
    """Why an API server would refuse a schema: `path: rule`."""
    found = [f"{path}: {rule}" for path, node in nodes(schema) for rule in _broken(node)]
    if schema.get("type") != "object" or schema["properties"]["metadata"] != {"type": "object"}:
        found.append(": 6")
    return found


def _broken(node: JSON) -> Iterator[int]:
    kind = node.get("type") or next((word for word in (INT_OR_STRING, OPEN) if node.get(word) is True), None)
    if not isinstance(kind, str) or kind not in KEYWORDS:
        yield 1
        return
    if node.keys() - KEYWORDS[kind] - {"type", "description", "default"}:
        yield 2
    if (kind == "array" and "items" not in node) or {"properties", "additionalProperties"} <= node.keys():
        yield 3
    if not _keyed(node):
        yield 4
    if "default" in node and not fits(node, node["default"]):
        yield 5


def _keyed(node: JSON) -> bool:
    if node.get("x-kubernetes-list-type") != "map":
        return "x-kubernetes-list-map-keys" not in node
    item = node["items"]
    scalars = {name for name, field in item.get("properties", {}).items() if field.get("type") in ("string", "integer")}
    keys = set(node.get("x-kubernetes-list-map-keys", ()))
    return bool(keys) and keys <= scalars & set(item.get("required", ()))


def misfits(schema: JSON, tree: Any) -> list[str]:
    """What a server that is told to be strict, as kubectl tells it, finds wrong with a value."""
    return [error.message for error in jsonschema.Draft202012Validator(_strict(schema)).iter_errors(tree)]


def fits(schema: JSON, tree: Any) -> bool:
    """Whether a strict server takes a value."""
    return not misfits(schema, tree)


def _strict(node: JSON) -> JSON:
    """The same schema in words that any validator knows, refusing fields that a server would prune."""
    strict = dict(node)
    if node.get(INT_OR_STRING):
        strict["type"] = ["integer", "string"]
    if "properties" in node:
        strict["properties"] = {name: _strict(child) for name, child in node["properties"].items()}
        strict["additionalProperties"] = bool(node.get(OPEN))
    for word in ("items", "additionalProperties"):
        if word in node:
            strict[word] = _strict(node[word])
    return strict


def filled_in(schema: JSON, tree: Any) -> Any:
    """A value with the defaults that a server writes into it, from the outside to the inside."""
    if isinstance(tree, list):
        return [filled_in(schema["items"], item) for item in tree]
    fields = schema.get("properties")
    if not fields or not isinstance(tree, dict):
        return tree
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    return {
        name: filled_in(fields[name], value) if name in fields else value for name, value in (defaults | tree).items()
    }


def changed(tree: JSON, path: str, value: Any) -> JSON:
    """A copy in which one field, `spec.subsets.0.name`, has another value."""
    copy: JSON = codec.to_tree(tree)
    at: Any = copy
    *steps, last = path.split(".")
    for step in steps:
        at = at[int(step)] if step.isdigit() else at.setdefault(step, {})
    at[last] = value
    return copy


def test_shipped_files_are_current() -> None:
    """The files that people apply say what the types say today; `make generate` makes it so."""
    shipped = {file.name: file.read_text(encoding="utf-8") for file in shipping.DIRECTORY.iterdir()}
    assert shipped == shipping.files()


def test_shipped_files_hold_the_manifests() -> None:
    """Nothing is lost or turned into something else on the way through YAML."""
    assert [yaml.safe_load(text) for text in shipping.files().values()] == crds.manifests()


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in shipping.files().items()])
def test_shipped_files_read_well(text: str) -> None:
    """A file begins with what it is, and repeats itself rather than refer to another place in it."""
    assert re.findall(r"^(\w+):", text, re.MULTILINE) == ["apiVersion", "kind", "metadata", "spec"]
    assert "&id" not in text


@each_kind
def test_schema_is_structural(kind: crds.CustomKind) -> None:
    """An API server refuses any other."""
    assert faults(crds.schema(kind)) == []


@pytest.mark.parametrize(
    ("field", "rule"),
    [
        pytest.param({}, 1, id="no type"),
        pytest.param({"type": ["string", "null"]}, 1, id="two types"),
        pytest.param({"$ref": "#/definitions/Subset"}, 1, id="a reference"),
        pytest.param({"anyOf": [{"type": "string"}, {"type": "integer"}]}, 1, id="alternatives"),
        pytest.param({"type": "string", "anyOf": [{"minLength": 1}]}, 2, id="alternatives beside a type"),
        pytest.param({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, 2, id="unique items"),
        pytest.param({"type": "array"}, 3, id="a list of anything"),
        pytest.param(
            {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}, 3, id="fields and others"
        ),
        pytest.param(
            {
                "type": "array",
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            4,
            id="a key that may be absent",
        ),
        pytest.param({"type": "integer", "default": "1"}, 5, id="a default of another type"),
        pytest.param({"type": "object", "properties": {}, "default": {"a": 1}}, 5, id="a default that is pruned"),
    ],
)
def test_checker_finds_schemas_that_are_not_structural(field: JSON, rule: int) -> None:
    """The check above would notice each of these."""
    schema = {"type": "object", "properties": {"metadata": {"type": "object"}, "spec": field}}
    assert faults(schema) == [f"spec: {rule}"]


@each_kind
def test_manifest_reads_as_a_definition(kind: crds.CustomKind) -> None:
    """It has one served and stored version, with a schema, under the right name."""
    manifest = crds.manifest(kind)
    spec = manifest["spec"]
    (version,) = spec["versions"]
    assert (
        codec.convert(manifest, CustomResourceDefinition).metadata.name == f"{spec['names']['plural']}.{spec['group']}"
    )
    assert spec["scope"] == "Namespaced"
    assert version["served"]
    assert version["storage"]
    assert version["schema"]["openAPIV3Schema"]["type"] == "object"


def test_kinds_are_those_of_the_types() -> None:
    """The registry and the modules of the types call the kinds the same."""
    assert {(kind.api_version, kind.kind, kind.model) for kind in crds.KINDS} == {
        (unitedtopology.API_VERSION, unitedtopology.KIND, unitedtopology.UnitedTopology),
        (cloneset.API_VERSION, cloneset.KIND, cloneset.CloneSet),
        (scaledown.API_VERSION, scaledown.POLICY_KIND, scaledown.ScaleDownPolicy),
        (scaledown.API_VERSION, scaledown.GROUP_COST_KIND, scaledown.PodGroupCost),
    }


def test_names_are_unique() -> None:
    """Two kinds of one name, long or short, would hide one another."""
    names = [name for kind in crds.KINDS for name in (kind.plural, kind.kind.lower(), kind.short_name)]
    assert len(set(names)) == len(names)


@each_kind
def test_status_is_a_subresource_where_there_is_one(kind: crds.CustomKind) -> None:
    """A kind with a status keeps it apart from the spec; PodGroupCost has none."""
    version = crds.manifest(kind)["spec"]["versions"][0]
    has_status = "status" in crds.schema(kind)["properties"]
    assert has_status == (kind.kind != "PodGroupCost")
    assert ("status" in version.get("subresources", {})) == has_status


def test_cloneset_can_be_scaled() -> None:
    """`kubectl scale` and autoscalers find the size and the selector of a CloneSet, and of no other kind."""
    scales = {kind.kind: kind.scale for kind in crds.KINDS if kind.scale is not None}
    types = {path: node.get("type") for path, node in nodes(crds.schema(KINDS["CloneSet"]))}
    assert scales.keys() == {"CloneSet"}
    paths = codec.to_tree(scales["CloneSet"])
    assert {word: types[path.lstrip(".")] for word, path in paths.items()} == {
        "specReplicasPath": "integer",
        "statusReplicasPath": "integer",
        "labelSelectorPath": "string",
    }


@each_kind
def test_columns_show_what_the_schema_has(kind: crds.CustomKind) -> None:
    """A column whose path leads nowhere stays empty without a word."""
    types = {f".{path}": node.get("type") for path, node in nodes(crds.schema(kind))}
    types[".metadata.creationTimestamp"] = "date"
    shown = {column.name: types.get(re.sub(r"\[.*?\]", "[]", column.json_path)) for column in kind.columns}
    assert shown == {column.name: column.type for column in kind.columns}


@each_kind
def test_fields_are_described(kind: crds.CustomKind) -> None:
    """`kubectl explain` has a sentence for every field of ours; metadata and conditions everyone knows."""
    known = re.compile(r"metadata$|.*\.conditions\[\]")
    silent = [path for path, node in nodes(crds.schema(kind)) if "description" not in node]
    assert [path for path in silent if not path.endswith(("[]", "{}")) and not known.match(path)] == []


@each_sample
def test_sample_fits_schema_and_type(text: str) -> None:
    """What people write is taken by the API server, and then by us."""
    kind, tree = load(text)
    assert misfits(crds.schema(kind), tree) == []
    assert isinstance(decoded(kind, tree), kind.model)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        pytest.param(OWNED_WHILE_THERE_IS_ROOM, ("spec", "subsets", 1, "patch"), id="a patch"),
        pytest.param(CLONES, ("spec", "template"), id="a template"),
        pytest.param(POLICY, ("spec", "strategies", 0, "args"), id="a strategy's settings"),
    ],
)
def test_unknown_fields_survive(text: str, path: tuple[str | int, ...]) -> None:
    """Raw documents keep what no type of ours knows, nulls too: in a patch, a null takes a field away."""
    kind, tree = load(text)
    before: Any = tree
    after: Any = codec.to_tree(decoded(kind, tree))
    for step in path:
        before, after = before[step], after[step]
    assert after == before


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        pytest.param("UnitedTopology", "spec.subsets", [], id="no subsets"),
        pytest.param("UnitedTopology", "spec.subsets.0.name", "", id="a subset without a name"),
        pytest.param("UnitedTopology", "spec.subsets.0.maxReplicas", 1.5, id="one and a half replicas"),
        pytest.param("UnitedTopology", "spec.subsets.0.maxReplicas", True, id="true replicas"),
        pytest.param("UnitedTopology", "spec.subsets.0.patch", "replicas: 1", id="a patch that is text"),
        pytest.param("UnitedTopology", "spec.targetRef", {"kind": "Deployment"}, id="half a target"),
        pytest.param("UnitedTopology", "spec.scheduleStrategy.type", "Random", id="a type that does not exist"),
        pytest.param(
            "UnitedTopology",
            "spec.scheduleStrategy.adaptive",
            {"rescheduleCriticalSeconds": 0},
            id="rescheduled at once",
        ),
        pytest.param("UnitedTopology", "spec", {}, id="an empty spec"),
        pytest.param("CloneSet", "spec.replicas", -1, id="fewer than no replicas"),
        pytest.param("CloneSet", "spec.template", [], id="a template that is a list"),
        pytest.param("CloneSet", "spec.selector", {"matchLabels": {"a": 1}}, id="a label that is a number"),
        pytest.param("ScaleDownPolicy", "spec.strategies.0.weight", 0, id="no weight"),
        pytest.param("ScaleDownPolicy", "spec.strategies.0.weight", 1001, id="too much weight"),
        pytest.param("ScaleDownPolicy", "spec.strategies.0.threshold", 0, id="a threshold of nothing"),
        pytest.param("ScaleDownPolicy", "spec.strategies.0.args", [], id="arguments in a list"),
        pytest.param("ScaleDownPolicy", "spec.mode", "enforce", id="a mode in lower case"),
        pytest.param("ScaleDownPolicy", "spec.delivery", "Never", id="a delivery that does not exist"),
        pytest.param("ScaleDownPolicy", "spec.whenUnranked.timeoutSeconds", 3601, id="more than an hour"),
        pytest.param("PodGroupCost", "spec.costs", {"a": "4"}, id="a cost in quotes"),
        pytest.param("PodGroupCost", "spec.costs", {f"p{n}": n for n in range(20_001)}, id="too many costs"),
        pytest.param("ScaleDownPolicy", "spec.strategies", [{"name": "Balance"}] * 33, id="too many strategies"),
        pytest.param(
            "ScaleDownPolicy", "spec.strategies.0.args", {f"a{n}": n for n in range(101)}, id="too many arguments"
        ),
        pytest.param("UnitedTopology", "spec.subsets.0.tolerations", [{}] * 101, id="too many tolerations"),
        pytest.param("UnitedTopology", "spec.subsets", [{"name": f"s{n}"} for n in range(1001)], id="too many subsets"),
        pytest.param("CloneSet", "spec.scaleStrategy", {"podsToDelete": ["p"] * 10_001}, id="too many pods to delete"),
    ],
)
def test_schema_and_type_refuse_the_same(name: str, path: str, value: Any) -> None:
    """What is wrong in form never reaches us, and where there is no API server in between, we say so ourselves."""
    kind = KINDS[name]
    assert fits(crds.schema(kind), BARE[name])
    tree = changed(BARE[name], path, value)
    assert not fits(crds.schema(kind), tree)
    with pytest.raises(InvalidError):
        decoded(kind, tree)


def unlimited(node: JSON, path: str) -> Iterator[str]:
    """The lists and maps of a schema without a maximum; the content of raw documents has none."""
    if node.get("type") == "array" and "maxItems" not in node:
        yield path
    if "additionalProperties" in node and "maxProperties" not in node:
        yield path
    for name, child in node.get("properties", {}).items():
        yield from unlimited(child, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(node.get(word), dict):
            yield from unlimited(node[word], f"{path}[]")


@each_kind
def test_every_list_and_map_has_a_maximum(kind: crds.CustomKind) -> None:
    """Whoever may create an object does not decide how much work it is."""
    assert list(unlimited(crds.schema(kind), "")) == []


@pytest.mark.parametrize(
    ("name", "change", "want"),
    [
        pytest.param(
            "ScaleDownPolicy",
            {"selector": {"matchLabels": {f"k{n}": "v" for n in range(101)}}},
            "spec.selector.matchLabels: has 101 entries; write at most 100",
            id="labels of a selector",
        ),
        pytest.param(
            "CloneSet",
            {"selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["v"] * 1001}]}},
            "spec.selector.matchExpressions[0].values: has 1001 entries; write at most 1000",
            id="values of an expression",
        ),
        pytest.param(
            "UnitedTopology",
            {"subsets": [{"name": "a", "nodeSelectorTerm": {"matchFields": [{"key": "a", "operator": "In"}] * 101}}]},
            "spec.subsets[0].nodeSelectorTerm.matchFields: has 101 entries; write at most 100",
            id="fields of a node selector",
        ),
        pytest.param(
            "UnitedTopology",
            {"subsets": [{"name": "a", "patch": {"metadata": {"annotations": {"a": "x" * 70_000}}}}]},
            "spec.subsets[0].patch: has 70037 bytes; write at most 65536",
            id="a patch",
        ),
    ],
)
def test_shared_types_are_limited_in_our_kinds(name: str, change: JSON, want: str) -> None:
    """By validation, since the same types occur in objects of others, which Kubernetes does not limit."""
    tree = {**BARE[name], "spec": {**BARE[name]["spec"], **change}}
    problems: Any = {
        "ScaleDownPolicy": scaledown.problems,
        "CloneSet": cloneset.problems,
        "UnitedTopology": unitedtopology.problems,
    }[name]
    assert want in [str(each) for each in problems(decoded(KINDS[name], tree))]


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param(
            "UnitedTopology",
            {
                "spec.scheduleStrategy": {"type": "Fixed"},
                "spec.scheduleStrategy.type": "Fixed",
                "spec.scheduleStrategy.adaptive.return.settlingSeconds": 60,
                "spec.scheduleStrategy.adaptive.return.maxPods": 1,
            },
            id="UnitedTopology",
        ),
        pytest.param(
            "CloneSet",
            {
                "spec.replicas": 1,
                "spec.updateStrategy": {"type": "ReCreate"},
                "spec.updateStrategy.type": "ReCreate",
                "spec.revisionHistoryLimit": 10,
            },
            id="CloneSet",
        ),
        pytest.param(
            "ScaleDownPolicy",
            {
                "spec": {
                    "mode": "Enforce",
                    "delivery": "OnScaleIntent",
                    "carrier": "Annotation",
                    "whenUnranked": {"action": "Wait", "timeoutSeconds": 30},
                },
                "spec.strategies[].weight": 1,
                "spec.mode": "Enforce",
                "spec.delivery": "OnScaleIntent",
                "spec.carrier": "Annotation",
                "spec.whenUnranked": {"action": "Wait", "timeoutSeconds": 30},
                "spec.whenUnranked.action": "Wait",
                "spec.whenUnranked.timeoutSeconds": 30,
            },
            id="ScaleDownPolicy",
        ),
        pytest.param("PodGroupCost", {}, id="PodGroupCost"),
    ],
)
def test_only_meaningful_defaults_are_stated(name: str, want: JSON) -> None:
    """A server writes these into every object, and no empty lists, zeros or empty objects beside them."""
    assert {path: node["default"] for path, node in nodes(crds.schema(KINDS[name])) if "default" in node} == want


@each_kind
def test_defaults_are_those_of_the_types(kind: crds.CustomKind) -> None:
    """An object means the same before and after a server has filled it in."""
    bare = BARE[kind.kind]
    filled = filled_in(crds.schema(kind), bare)
    assert decoded(kind, filled) == decoded(kind, bare)


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param(
            "UnitedTopology", {"spec.scheduleStrategy.type": (unitedtopology.ScheduleStrategy, "type")}, id="topologies"
        ),
        pytest.param("CloneSet", {}, id="clones"),
        pytest.param(
            "ScaleDownPolicy",
            {
                "spec.mode": (scaledown.ScaleDownPolicySpec, "mode"),
                "spec.delivery": (scaledown.ScaleDownPolicySpec, "delivery"),
                "spec.carrier": (scaledown.ScaleDownPolicySpec, "carrier"),
                "spec.whenUnranked.action": (scaledown.WhenUnranked, "action"),
                "spec.otherCosts": (scaledown.ScaleDownPolicySpec, "other_costs"),
            },
            id="policies",
        ),
        pytest.param("PodGroupCost", {}, id="costs"),
    ],
)
def test_enums_are_the_literals_of_the_types(name: str, want: dict[str, tuple[type[Model], str]]) -> None:
    """Where a type lists its values, so does the schema, and nowhere else."""
    enums = {path: set(node["enum"]) for path, node in nodes(crds.schema(KINDS[name])) if "enum" in node}
    assert enums == {path: set(literal(model, field)) for path, (model, field) in want.items()}


def literal(model: type[Model], field: str) -> tuple[Any, ...]:
    """The values that a field's annotation lists."""
    annotation = get_type_hints(model)[field]
    if get_origin(annotation) is not Literal:
        (annotation,) = [each for each in get_args(annotation) if each is not type(None)]
    assert get_origin(annotation) is Literal
    return get_args(annotation)


def test_lists_of_named_things_have_keys() -> None:
    """Two subsets of one name are refused by the server; conditions merge by type."""
    keyed = {
        f"{kind.kind} {path}": node["x-kubernetes-list-map-keys"]
        for kind in crds.KINDS
        for path, node in nodes(crds.schema(kind))
        if "x-kubernetes-list-map-keys" in node
    }
    assert keyed == {
        "UnitedTopology spec.subsets": ["name"],
        "UnitedTopology status.conditions": ["type"],
        "CloneSet status.conditions": ["type"],
        "ScaleDownPolicy status.conditions": ["type"],
    }


def test_atomic_lists_are_not_merged() -> None:
    """An API server keeps no author for each of a thousand reservations."""
    whole = {
        path
        for path, node in nodes(crds.schema(KINDS["UnitedTopology"]))
        if node.get("x-kubernetes-list-type") == "atomic"
    }
    rows = {"status.subsetStatuses", "status.otherRevisions", "status.otherRevisions[].subsetStatuses"}
    assert whole == rows | {"status.shortages"}


def test_integers_have_the_width_of_kubernetes() -> None:
    """Generations and toleration times are 64 bits wide, replicas 32."""
    formats = {path: node["format"] for path, node in nodes(crds.schema(KINDS["UnitedTopology"])) if "format" in node}
    assert formats["status.observedGeneration"] == "int64"
    assert formats["spec.subsets[].tolerations[].tolerationSeconds"] == "int64"
    assert formats["status.subsetStatuses[].missingReplicas"] == "int32"
    assert formats["status.subsetStatuses[].creating{}"] == "date-time"


class Either(Model):
    """A union that has no keyword."""

    field: int | bool


class Bytes(Model):
    """A scalar that has no form."""

    field: bytes


@pytest.mark.parametrize("model", [Either, Bytes])
def test_types_without_a_structural_form_are_refused(model: type[Model]) -> None:
    """A type that a schema cannot express is a mistake of ours, found when the schema is made."""
    kind = crds.CustomKind(
        model=model, group="example.com", version="v1", kind="Odd", plural="odds", short_name="o", columns=()
    )
    with pytest.raises(TypeError, match="no structural schema"):
        crds.schema(kind)
