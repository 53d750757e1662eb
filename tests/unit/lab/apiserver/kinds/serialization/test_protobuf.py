"""Protobuf as Go programs send it. A slow writer that uses the same tables is the counterpart of the reader."""

from __future__ import annotations

import base64
import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api import times
from trimtab_lab.apiserver.kinds.serialization import protobuf, typetable

Tree = dict[str, Any]


def varint(value: int) -> bytes:
    """An integer of 64 bits."""
    value &= 2**64 - 1
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def field(number: int, value: bytes | int) -> bytes:
    """One field of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def envelope(api_version: str, kind: str, message: bytes) -> bytes:
    """A complete body."""
    meta = field(1, api_version.encode()) + field(2, kind.encode())
    return b"k8s\0" + field(1, meta) + field(2, message)


def message(type_: str, tree: Tree) -> bytes:
    """A tree as the message of its type."""
    numbers = typetable.numbers()[type_]
    fields = typetable.types()["types"][type_]
    written = b""
    for name, value in tree.items():
        way = numbers[name]
        first, *inner = way if isinstance(way, list) else [way]
        target = typetable.resolved(fields[name])
        if isinstance(target, str) and target.startswith("[]") and target != "[]byte":
            parts = [leaf(target[2:], item) for item in value]
        elif isinstance(target, str) and target.startswith("map["):
            element = target.partition("]")[2]
            parts = [field(1, key.encode()) + field(2, leaf(element, item)) for key, item in value.items()]
        else:
            parts = [leaf(fields[name], value)]
        for part in parts:
            one = part
            for number in reversed(inner):
                one = field(number, one)
            written += field(first, one)
    return written


def leaf(type_: str, value: Any) -> bytes | int:
    """The encoding of a value by its type."""
    target = typetable.resolved(type_)
    if isinstance(target, dict):
        return message(type_.rpartition("|")[2].rstrip("?!").lstrip("*"), value)
    if target in ("string", "types.UID"):
        return str(value).encode()
    if target in ("int", "int32", "int64", "bool"):
        return int(value)
    if target == "[]byte":
        return base64.b64decode(value)
    if target == "Quantity":
        return field(1, value.encode())
    if target == "IntOrString":
        return field(1, 1) + field(3, value.encode()) if isinstance(value, str) else field(1, 0) + field(2, value)
    if target in ("Time", "MicroTime"):
        seconds, nanos = divmod(times.parse_ns(value), 10**9)
        return field(1, seconds) + field(2, nanos)
    return field(1, msgspec.json.encode(value))


POD: Tree = {
    "metadata": {
        "name": "web",
        "generation": 2**40,
        "labels": {"app": "web", "": "empty"},
        "creationTimestamp": "2026-03-01T12:00:00Z",
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "1", "controller": True}
        ],
    },
    "spec": {
        "volumes": [{"name": "v", "hostPath": {"path": "/x"}}, {"name": "w", "secret": {"secretName": "s"}}],
        "containers": [
            {
                "name": "main",
                "command": ["a", "b"],
                "resources": {"requests": {"cpu": "250m"}},
                "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 10},
                "readinessProbe": {"tcpSocket": {"port": 8080}},
            }
        ],
        "terminationGracePeriodSeconds": -1,
    },
}


@pytest.mark.parametrize(
    ("kind", "tree"),
    [
        pytest.param("v1 Pod", POD, id="a pod"),
        pytest.param("v1 Secret", {"metadata": {"name": "s"}, "data": {"k": "AP8="}}, id="a secret"),
        pytest.param(
            "coordination.k8s.io/v1 Lease",
            {"spec": {"renewTime": "2026-03-01T12:00:00.000123Z", "leaseDurationSeconds": 15}},
            id="a lease",
        ),
        pytest.param("apps/v1 ControllerRevision", {"data": {"spec": [1, None]}, "revision": 3}, id="raw content"),
        pytest.param(
            "policy/v1 PodDisruptionBudget",
            {
                "spec": {
                    "maxUnavailable": "50%",
                    "selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                }
            },
            id="a budget",
        ),
    ],
)
def test_written_objects_are_read_back(kind: str, tree: Tree) -> None:
    """Nothing is lost and nothing is added."""
    api_version, _, name = kind.partition(" ")
    body = envelope(api_version, name, message(typetable.types()["kinds"][kind], tree))
    assert protobuf.read(body) == {"kind": name, "apiVersion": api_version, **tree}


def test_unknown_numbers_are_skipped() -> None:
    """A later version may have more fields."""
    known = message("core.v1.ConfigMap", {"metadata": {"name": "a"}})
    fixed = varint(99 << 3 | 1) + struct.pack("<d", 1.5) + varint(98 << 3 | 5) + b"1234"
    body = envelope("v1", "ConfigMap", known + field(97, b"new") + field(96, 3) + fixed)
    assert protobuf.read(body)["metadata"] == {"name": "a"}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{}", id="JSON"),
        pytest.param(envelope("v1", "Strange", b""), id="an unknown kind"),
        pytest.param(envelope("v1", "Pod", b"\x0a\xff"), id="a length beyond the end"),
        pytest.param(envelope("v1", "Pod", b"\xff" * 11), id="a number beyond 64 bits"),
        pytest.param(envelope("v1", "Pod", b"\x0f"), id="an unknown wire type"),
        pytest.param(envelope("v1", "Pod", field(1, 7)), id="a number for a message"),
        pytest.param(envelope("v1", "ConfigMap", field(1, field(1, b"\xff"))), id="bytes that are no text"),
    ],
)
def test_an_invalid_message_is_an_error(body: bytes) -> None:
    """A ValueError that says why."""
    with pytest.raises(ValueError, match=r"."):
        protobuf.read(body)


@settings(deadline=None, max_examples=300)
@given(junk=st.binary(max_size=200), kind=st.sampled_from(["Pod", "Secret", "Service", "Node"]))
def test_random_bytes_raise_value_errors_only(junk: bytes, kind: str) -> None:
    """Whatever the bytes are."""
    try:
        tree = protobuf.read(envelope("v1", kind, junk))
    except ValueError:
        return
    assert tree["kind"] == kind


def test_every_field_has_its_own_number() -> None:
    """The two tables have the same types and fields."""
    for name, fields in typetable.types()["types"].items():
        if isinstance(fields, dict):
            numbers = typetable.numbers()[name]
            assert set(fields) - set(numbers) <= {"kind", "apiVersion"}, name
            assert set(numbers) <= set(fields), name
            ways = [tuple(way) if isinstance(way, list) else (way,) for way in numbers.values()]
            assert len(set(ways)) == len(ways), name
