"""The pure parts of the API server, compared with the responses of a real one (`tests/recordings`)."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.unit.lab.apiserver import replays
from tools import record
from trimtab.api import times
from trimtab_lab.apiserver.kinds import validation
from trimtab_lab.apiserver.kinds.defaults import apply_defaults
from trimtab_lab.apiserver.kinds.printers import tables
from trimtab_lab.apiserver.kinds.printers.custom import custom_layout
from trimtab_lab.apiserver.kinds.schemas import Schema
from trimtab_lab.apiserver.kinds.serialization import field_validation, wiretypes
from trimtab_lab.apiserver.kinds.serialization.wirevalues import WrongTypeError
from trimtab_lab.apiserver.kinds.validation import metadata, names

Tree = dict[str, Any]

# What a server adds that is not a default: system fields, and what depends on other objects.
ADDED = re.compile(
    r"""metadata\.(creationTimestamp|generation|namespace|resourceVersion|uid|name)
      | metadata\.labels(\.topology\.kubernetes\.io/(zone|region))?
      | status(\..*)?
      | spec\.(preemptionPolicy|priority|serviceAccount|serviceAccountName|imagePullSecrets|tolerations(\[\d+\])?)
      | spec\.volumes(\[\d+\])? | spec\.(init)?[cC]ontainers\[\d+\]\.volumeMounts(\[\d+\])?
      | spec\.topologySpreadConstraints\[\d+\]\.labelSelector\.matchExpressions
      | spec\.(clusterIPs?|ipFamilies|ipFamilyPolicy|finalizers|taints(\[\d+\])?) | spec\.ports\[\d+\]\.nodePort
      | metadata\.annotations(\.deprecated\.daemonset\.template\.generation)?
    """,
    re.VERBOSE,
)

# Go prints the internals of these types, and has its own messages for regular expressions; the lab shows the value as
# it was sent, and reports an invalid expression.
OWN_WORDS = re.compile(r'Invalid value: (\[\{"[Nn]ame"|\{"ID"|\{"type").*?(: must|: only)|(but isn\'t: ).*', re.DOTALL)


def ids(pair: Any) -> str:
    """The name of a case."""
    return str(pair[0]) if isinstance(pair, tuple) else ""


@pytest.mark.parametrize("named", replays.of(replays.Creation), ids=ids)
def test_a_new_object_gets_the_same_defaults(named: tuple[str, replays.Creation]) -> None:
    """Everything that the lab sets is in the response; what else the response has is not a default."""
    case = named[1]
    tree = copy.deepcopy(case.sent)
    wiretypes.read(case.kind, tree)
    apply_defaults(case.kind, tree)
    tree.pop("status", None)
    ours = record.normalised(tree)
    left = [
        path for path, mine, recorded in differences(ours, case.answered) if mine is not ABSENT or recorded is ABSENT
    ]
    added = [path for path, mine, _ in differences(ours, case.answered) if mine is ABSENT]
    assert left == []
    assert [path for path in added if not ADDED.fullmatch(path)] == []


@pytest.mark.parametrize("named", replays.of(replays.Rejection), ids=ids)
def test_an_invalid_object_has_the_same_causes(named: tuple[str, replays.Rejection]) -> None:
    """Type, field and message of each cause; of values that a schema refuses, type and field."""
    case = named[1]
    found = validation.validate(case.kind, case.tree, case.old, case.subresource)
    if replays.is_about_values(case.status):
        ours_at = replays.places([cause.tree() for cause in found])
        assert ours_at == replays.places(case.status["details"]["causes"])
        return
    wanted = [
        (cause["reason"], cause["field"], comparable_message(cause["message"]))
        for cause in case.status["details"]["causes"]
    ]
    ours = [(cause.reason, cause.field, comparable_message(record.normalised(cause.message))) for cause in found]
    assert sorted(ours) == sorted(wanted)


@pytest.mark.parametrize("named", replays.of(replays.Rejection), ids=ids)
def test_an_invalid_object_has_the_same_message(named: tuple[str, replays.Rejection]) -> None:
    """The message of the Status, given its causes."""
    status = named[1].status
    given = [
        validation.Cause(cause["reason"], cause["message"], cause["field"]) for cause in status["details"]["causes"]
    ]
    details = status["details"]
    assert validation.invalid(details.get("group", ""), details["kind"], details.get("name", ""), given) == status


@pytest.mark.parametrize("named", replays.of(replays.Decoding), ids=ids)
def test_field_validation_reports_the_same_problems(named: tuple[str, replays.Decoding]) -> None:
    """Unknown and repeated fields, and values of the wrong type, with `Strict`, `Warn` and `Ignore`."""
    case = named[1]
    tree = msgspec.json.decode(case.body)
    message, problems = reading(case.kind, tree, case.body)
    if case.message:
        assert case.message.endswith(f": {message}")
    elif case.level == "Warn":
        assert problems == [warning for warning in case.warnings if " field " in warning]
    else:
        assert case.level == "Ignore"
        assert problems, "there is something to ignore"
        assert case.warnings == []


@pytest.mark.parametrize("named", replays.of(replays.Creation), ids=ids)
def test_the_same_warnings_are_given(named: tuple[str, replays.Creation]) -> None:
    """Warnings about accepted objects, apart from those about fields."""
    case = named[1]
    tree = copy.deepcopy(case.sent)
    wiretypes.read(case.kind, tree)
    apply_defaults(case.kind, tree)
    tree["metadata"].setdefault("name", "generated")
    assert validation.warnings(case.kind, tree) == [text for text in case.warnings if " field " not in text]


@pytest.mark.parametrize("named", replays.of(replays.Printing), ids=ids)
def test_a_row_has_the_same_cells(named: tuple[str, replays.Printing]) -> None:
    """Names and types of the columns, and every cell except ages, which depend on the clock."""
    case = named[1]
    now = times.parse_ns("2024-01-01T00:00:05Z")
    layout = tables.layout(case.kind) if wiretypes.known(case.kind) else custom_layout(gadget_columns())
    assert [shown(column) for column in layout.columns] == [shown(column) for column in case.columns]
    cells = record.normalised({"cells": layout.cells(case.tree, now)})["cells"]
    ours = ["<age>" if cell in ("2024-01-01T00:00:00Z", "<time>") else cell for cell in cells]
    assert ours == ["<age>" if is_age(cell) else cell for cell in case.cells]


def reading(kind: str, tree: Tree, body: bytes) -> tuple[str, list[str]]:
    """The message of `Strict` field validation, and the problems one by one."""
    try:
        problems = field_validation.read(kind, tree, body)
    except WrongTypeError as error:
        return record.normalised(str(error)), []
    return field_validation.strict_error(problems), problems


def gadget_steps() -> list[Tree]:
    """The recording of custom resources, without normalised values."""
    steps: list[Tree] = record.recordings()["customresources"]["steps"]
    return steps


def gadget_version() -> Tree:
    """The recorded version of the custom kind, as the server stores it."""
    kind = "apiextensions.k8s.io/v1 CustomResourceDefinition"
    tree = copy.deepcopy(gadget_steps()[0]["request"]["body"])
    wiretypes.read(kind, tree)
    apply_defaults(kind, tree)
    assert validation.validate(kind, tree) == []
    version: Tree = tree["spec"]["versions"][0]
    return version


def gadget_columns() -> list[Tree]:
    """Its printer columns."""
    columns: list[Tree] = gadget_version()["additionalPrinterColumns"]
    return columns


def gadgets(*statuses: int) -> list[Any]:
    """The creations of custom resources with this response."""
    return [
        pytest.param(step["request"], step["response"], id=step["name"])
        for step in gadget_steps()[1:]
        if step["request"]["method"] == "POST" and step["response"]["status"] in statuses
        if step["name"] != "another kind"  # rejected before its schema is used
    ]


@pytest.fixture(scope="module")
def schema() -> Schema:
    """The schema of the recorded custom kind."""
    version = gadget_version()
    return Schema(version["schema"]["openAPIV3Schema"], version["subresources"]["scale"])


def read_gadget(request: Tree, schema: Schema) -> tuple[Tree, list[str]]:
    """A custom resource as the server reads it, and its problems."""
    text = request["text"] if "text" in request else msgspec.json.encode(request["body"]).decode()
    tree = msgspec.json.decode(text)
    problems = field_validation.repeated_fields(text.encode(), tree)
    unknown: list[str] = []
    wiretypes.struct_named("meta.v1.ObjectMeta").read(tree["metadata"], (None, "metadata"), unknown)
    unknown += schema.prune(tree)
    schema.default(tree)
    return tree, [*problems, *field_validation.unknown_fields(unknown)]


@pytest.mark.parametrize(("request_", "answer"), gadgets(201))
def test_a_custom_resource_is_pruned_and_defaulted(request_: Tree, answer: Tree, schema: Schema) -> None:
    """The stored object, and the warnings."""
    tree, problems = read_gadget(request_, schema)
    tree.pop("status", None)
    assert [path for path, mine, _ in differences(record.normalised(tree), answer["body"]) if mine is not ABSENT] == []
    warned = [text[7:-1].replace('\\"', '"') for text in answer["headers"].get("warning") or ()]
    assert [*problems, *validation.warnings("", tree, custom=True)] == warned


@pytest.mark.parametrize(("request_", "answer"), gadgets(400))
def test_strict_validation_of_a_custom_resource(request_: Tree, answer: Tree, schema: Schema) -> None:
    """Repeated fields before unknown ones, each by path; and metadata of the wrong type."""
    try:
        message = field_validation.strict_error(read_gadget(request_, schema)[1])
    except WrongTypeError as error:
        message = str(error)
    assert answer["body"]["message"].endswith(f": {message}")


@pytest.mark.parametrize(("request_", "answer"), gadgets(422))
def test_an_invalid_custom_resource_has_the_same_causes(request_: Tree, answer: Tree, schema: Schema) -> None:
    """By its schema, its scale, and the uniqueness of its lists; type and field of each cause."""
    tree, _ = read_gadget(request_, schema)
    found: list[validation.Cause] = []
    tree["metadata"]["namespace"] = "recorded"
    metadata.validate_create(tree["metadata"], found, namespaced=True, name=names.subdomain, finalizers=False)
    found += schema.validate(tree)
    wanted = replays.places(answer["body"]["details"]["causes"])
    assert replays.places([cause.tree() for cause in found]) == wanted


# --- comparing -------------------------------------------------------------------------------------------------------

ABSENT = object()


def differences(ours: Any, recorded: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The paths at which two trees differ, with both values."""
    if isinstance(ours, dict) and isinstance(recorded, dict):
        for key in sorted(ours.keys() | recorded.keys()):
            place = f"{path}.{key}" if path else key
            yield from differences(ours.get(key, ABSENT), recorded.get(key, ABSENT), place)
    elif isinstance(ours, list) and isinstance(recorded, list):
        for index in range(max(len(ours), len(recorded))):
            mine, other = (items[index] if index < len(items) else ABSENT for items in (ours, recorded))
            yield from differences(mine, other, f"{path}[{index}]")
    elif ours is not recorded and ours != recorded:
        yield path, ours, recorded


def comparable_message(message: str) -> str:
    """A message without the parts in which the lab deliberately differs."""
    head, _, _ = message.partition("\n")
    return OWN_WORDS.sub(lambda match: match[2] or match[3] or "", head)


def shown(column: Tree) -> Tree:
    """The compared fields of a column: not its description."""
    return {key: value for key, value in column.items() if key != "description"}


def is_age(cell: Any) -> bool:
    """Whether a cell depends on the time of the recording."""
    return isinstance(cell, str) and bool(re.fullmatch(r"<age>|<time>|\d+[smhdy](\d+[smhd])?", cell))
