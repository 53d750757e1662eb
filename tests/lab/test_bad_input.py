"""Invalid input: an error has the right code and is a Kubernetes Status, nothing is stored, the server keeps
running."""

from __future__ import annotations

import copy
import itertools
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
import yarl

from tests.lab.wire import (
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    JSON_PATCH,
    MERGE_PATCH,
    PODS,
    STRATEGIC_PATCH,
    TOKEN,
    Reply,
    Tree,
    Wire,
    config_map,
    deployment,
    pod,
)
from trimtab_lab.apiserver.kinds.serialization.decoding import MAX_BODY_SIZE
from trimtab_lab.apiserver.wire.server import Server

FUZZED = 3_000
YAML = "application/yaml"
BOMB = "\n".join(
    ["a: &a [x,x,x,x,x,x,x,x,x]"]
    + [f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]" for before, name in itertools.pairwise("abcdefghi")]
)


def check_status(reply: Reply, code: int) -> None:
    """Check that an error is one of Kubernetes."""
    assert reply.status == code, reply.text
    assert reply.tree["kind"] == "Status"
    assert reply.tree["status"] == "Failure"
    assert reply.tree["code"] == code
    assert reply.tree["message"]


@pytest.mark.parametrize(
    ("body", "content", "code"),
    [
        pytest.param("", "application/json", 400, id="no body"),
        pytest.param("{", "application/json", 400, id="half a JSON object"),
        pytest.param('{"metadata": {"name": NaN}}', "application/json", 400, id="a number that JSON does not have"),
        pytest.param(b'{"kind": "\xff\xfe"}', "application/json", 400, id="bytes that are no text"),
        pytest.param(
            '{"kind":"ConfigMap","metadata":{"name":"a\\ud800"}}', "application/json", 400, id="half a character"
        ),
        pytest.param("[" * 100_000, "application/json", 400, id="brackets without end"),
        pytest.param("[]", "application/json", 400, id="a list"),
        pytest.param("3", "application/json", 400, id="a number"),
        pytest.param("a: [b\n", YAML, 400, id="half a YAML list"),
        pytest.param("a: !!python/object:os.system x", YAML, 400, id="YAML that wants to run something"),
        pytest.param(BOMB, YAML, 400, id="YAML that unfolds without end"),
        pytest.param("? [a, b]\n: c\n", YAML, 400, id="YAML with keys that are lists"),
        pytest.param("{}", "text/plain", 415, id="an unknown media type"),
        pytest.param(b"k8s\0\xff\xff\xff\xff", "application/vnd.kubernetes.protobuf", 400, id="broken protobuf"),
        pytest.param("{}", "application/vnd.kubernetes.protobuf", 400, id="protobuf that is none"),
        pytest.param(config_map("a") | {"kind": "Secret"}, "application/json", 400, id="another kind"),
        pytest.param(config_map("a") | {"apiVersion": "v9"}, "application/json", 400, id="another version"),
        pytest.param(config_map("a") | {"metadata": "x"}, "application/json", 400, id="metadata that is a text"),
        pytest.param(config_map("a") | {"data": {"a": 1}}, "application/json", 400, id="a number for a text"),
        pytest.param(config_map("a") | {"data": ["a"]}, "application/json", 400, id="a list for a map"),
        pytest.param(config_map("A B"), "application/json", 422, id="a name that is none"),
        pytest.param(config_map("../../etc"), "application/json", 422, id="a name that is a path"),
        pytest.param(config_map("a", x="-"), "application/json", 422, id="a label that is none"),
        pytest.param({"metadata": {}}, "application/json", 422, id="no name"),
        pytest.param(
            config_map("a") | {"metadata": {"name": "a", "namespace": "b"}}, "application/json", 400, id="elsewhere"
        ),
    ],
)
async def test_an_invalid_body_is_rejected(wire: Wire, body: Any, content: str, code: int) -> None:
    """A body that is no valid object."""
    check_status(await wire.call("POST", CONFIG_MAPS, body, content=content), code)
    assert await wire.names(CONFIG_MAPS) == ["kube-root-ca.crt"]


async def test_wrong_types_have_the_messages_of_kubernetes(wire: Wire) -> None:
    """Struct, field and expected type."""
    reply = await wire.call("POST", PODS, pod(hostNetwork="yes"))
    wanted = "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool"
    assert reply.tree["message"] == f'Pod in version "v1" cannot be handled as a Pod: {wanted}'


@pytest.mark.parametrize(
    ("level", "status", "warned"),
    [
        pytest.param("Strict", 400, False, id="strict: refused"),
        pytest.param("Warn", 201, True, id="Warn: a warning"),
        pytest.param("Ignore", 201, False, id="ignore: dropped silently"),
        pytest.param("", 201, True, id="default: a warning"),
    ],
)
async def test_unknown_and_repeated_fields(wire: Wire, level: str, status: int, warned: bool) -> None:
    """They are never stored; of a repeated field the last value is used."""
    text = json.dumps(config_map("a") | {"colour": "red"}).replace('"colour"', '"data": {"k": "1", "k": "2"}, "colour"')
    reply = await wire.call("POST", f"{CONFIG_MAPS}?fieldValidation={level}", text)
    assert reply.status == status
    message = reply.tree["message"] if status == 400 else " ".join(reply.warnings).replace("\\", "")
    assert ('unknown field "colour"' in message) is (warned or status == 400)
    assert ('duplicate field "data.k"' in message) is (warned or status == 400)
    if status == 201:
        assert reply.tree["data"] == {"k": "2"}
        assert "colour" not in reply.tree


async def test_a_body_that_is_too_large_is_rejected(wire: Wire) -> None:
    """The limit is three mebibytes."""
    filler = "x" * (MAX_BODY_SIZE - 200)
    body = json.dumps(config_map("a") | {"data": {"k": filler}})
    check_status(await wire.call("POST", CONFIG_MAPS, body + " " * (MAX_BODY_SIZE + 1 - len(body))), 413)
    check_status(await wire.call("POST", CONFIG_MAPS, body), 422)
    assert (await wire.call("GET", "/readyz")).text == "ok"


@pytest.mark.parametrize(
    ("query", "code"),
    [
        pytest.param("labelSelector=a%3Db%3Dc", 400, id="a label selector with one equals sign too many"),
        pytest.param("labelSelector=a%20in%20(b", 400, id="a label selector that does not end"),
        pytest.param("labelSelector=-%3Db", 400, id="a label that is none"),
        pytest.param("fieldSelector=spec.colour%3Dred", 400, id="a field that cannot be selected by"),
        pytest.param("fieldSelector=metadata.name", 400, id="a field without a value"),
        pytest.param("limit=ten", 400, id="a limit that is no number"),
        pytest.param("continue=garbage", 400, id="a token that is none"),
        pytest.param("continue=e30", 400, id="a token that says nothing"),
        pytest.param("resourceVersion=new", 400, id="a version that is none"),
        pytest.param("resourceVersion=999999", 504, id="a version that was never reached"),
        pytest.param("resourceVersionMatch=Exact", 422, id="exactly which version"),
        pytest.param("resourceVersion=1&resourceVersionMatch=Nearly", 422, id="an unknown match"),
        pytest.param("sendInitialEvents=true", 422, id="initial events of a list"),
        pytest.param("watch=1&sendInitialEvents=true", 422, id="initial events without a match"),
        pytest.param("watch=1&resourceVersion=new", 500, id="a watch from a version that is none"),
        pytest.param("watch=1&timeoutSeconds=soon", 400, id="a time that is no number"),
    ],
)
async def test_an_invalid_query_is_rejected(wire: Wire, query: str, code: int) -> None:
    """Invalid options of lists and watches."""
    check_status(await wire.call("GET", f"{CONFIG_MAPS}?{query}"), code)


@pytest.mark.parametrize(
    ("change", "content", "code"),
    [
        pytest.param("{", MERGE_PATCH, 400, id="half a merge patch"),
        pytest.param("[1]", MERGE_PATCH, 400, id="a merge patch that is a list"),
        pytest.param("{}", JSON_PATCH, 400, id="a JSON patch that is no list"),
        pytest.param('[{"op":"test","path":"/kind","value":"Pod"}]', JSON_PATCH, 422, id="a test that fails"),
        pytest.param('[{"op":"remove","path":"/spec/nothing"}]', JSON_PATCH, 422, id="nothing to remove"),
        pytest.param('[{"op":"paint","path":"/spec"}]', JSON_PATCH, 422, id="an unknown operation"),
        pytest.param('[{"op":"replace","path":"","value":3}]', JSON_PATCH, 422, id="a whole document that is a number"),
        pytest.param(
            json.dumps([{"op": "test", "path": "", "value": 1}] * 10_001), JSON_PATCH, 413, id="too much at once"
        ),
        pytest.param('{"spec":{"$patch":"paint"}}', STRATEGIC_PATCH, 400, id="an unknown directive"),
        pytest.param('{"spec":{"replicas":"x"}}', STRATEGIC_PATCH, 422, id="a text for a number, strategically"),
        pytest.param('{"spec":{"replicas":"x"}}', MERGE_PATCH, 422, id="a text for a number"),
        pytest.param('{"kind":"Pod"}', MERGE_PATCH, 422, id="another kind"),
        pytest.param('{"metadata":{"name":"other"}}', MERGE_PATCH, 400, id="another name"),
        pytest.param('{"metadata":{"resourceVersion":"1"}}', MERGE_PATCH, 409, id="another version"),
        pytest.param('{"metadata":{"uid":"1"}}', MERGE_PATCH, 409, id="another identity"),
        pytest.param('{"spec":{"selector":null}}', MERGE_PATCH, 422, id="a selector that must stay"),
        pytest.param("{}", "application/apply-patch+yaml", 415, id="server-side apply"),
        pytest.param("{}", "application/json", 415, id="no patch at all"),
    ],
)
async def test_an_invalid_patch_is_rejected(wire: Wire, change: str, content: str, code: int) -> None:
    """The object does not change."""
    before = await wire.create(DEPLOYMENTS, deployment())
    check_status(await wire.call("PATCH", f"{DEPLOYMENTS}/web", change, content=content), code)
    assert await wire.get(f"{DEPLOYMENTS}/web") == before


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        pytest.param("GET", "/api/v1/nowhere", 404, id="an unknown resource"),
        pytest.param("GET", "/apis/nowhere.example.com/v1/things", 404, id="an unknown group"),
        pytest.param("GET", "/api/v1/namespaces/default/pods/%2e%2e%2fsecrets", 404, id="an escaped path in a name"),
        pytest.param("GET", "/api/v1/namespaces/default/pods/..%2f..%2fx", 404, id="dots in a name"),
        pytest.param("GET", "/api/v1//pods", 404, id="an empty part"),
        pytest.param("GET", "//api/v1/pods", 404, id="an empty beginning"),
        pytest.param("GET", "/api/v1/namespaces/default/pods/a/b/c/d", 404, id="too long a path"),
        pytest.param("GET", "/api/v1/namespaces/default/pods/a%00b", 404, id="a zero in a name"),
        pytest.param("GET", "/api/v1/namespaces/default/pods/%ff%fe", 404, id="bytes that are no text"),
        pytest.param("GET", "/api/v1/pods/a", 404, id="a namespaced object without its namespace"),
        pytest.param("GET", "/api/v1/namespaces/default/nodes/a", 404, id="a cluster's object in a namespace"),
        pytest.param("GET", "/api/v1/namespaces/default/pods/" + "a" * 5000, 404, id="a very long name"),
        pytest.param("POST", "/api/v1/pods", 405, id="a creation in all namespaces"),
        pytest.param("PUT", "/api/v1/namespaces/default/pods", 405, id="an update of a collection"),
        pytest.param("POST", "/api/v1/namespaces/default/pods/a", 405, id="a creation of a name"),
        pytest.param("DELETE", "/api/v1/namespaces", 405, id="all namespaces at once"),
        pytest.param("DELETE", "/api/v1/configmaps", 405, id="a kind in all namespaces"),
        pytest.param("DELETE", "/api/v1/namespaces/default", 403, id="a namespace that must stay"),
        pytest.param("GET", "/api/v1/namespaces/default/pods/a/exec", 501, id="what the lab does not do"),
    ],
)
async def test_an_unknown_path_is_not_found(wire: Wire, method: str, path: str, code: int) -> None:
    """Paths are taken as they are sent, without normalization."""
    check_status(await _raw(wire, method, path), code)


async def _raw(wire: Wire, method: str, path: str) -> Reply:
    """A request whose path is sent unchanged."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json"}
    url = yarl.URL(wire.url + path, encoded=True)
    async with wire.session.request(method, url, headers=headers) as response:
        text = await response.text()
        tree = json.loads(text) if response.content_type == "application/json" else {}
        return Reply(response.status, tree, text, response.headers)


async def test_unauthenticated_requests_get_health_only(wire: Wire) -> None:
    """No token, a wrong token, a token of another scheme."""
    for path in ("/healthz", "/livez", "/readyz"):
        assert (await wire.call("GET", path, token=None)).text == "ok"
    for path in ("/", "/version", "/api", "/apis", PODS, "/openapi/v3", "/healthz/etcd"):
        check_status(await wire.call("GET", path, token=None), 401)
        check_status(await wire.call("GET", path, token="guess"), 401)


async def test_invalid_delete_options_are_rejected(wire: Wire) -> None:
    """Options that contradict one another or the object; the object stays."""
    await wire.create(CONFIG_MAPS, config_map("a"))
    target = f"{CONFIG_MAPS}/a"
    for body, code in (
        ("{", 400),
        ({"gracePeriodSeconds": "soon"}, 400),
        ({"propagationPolicy": "Sideways"}, 422),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422),
        ({"dryRun": ["Some"]}, 422),
        ({"preconditions": {"uid": "other"}}, 409),
        ({"preconditions": {"resourceVersion": "1"}}, 409),
    ):
        check_status(await wire.call("DELETE", target, body), code)
    assert (await wire.call("GET", target)).status == 200


async def test_an_invalid_definition_is_rejected(wire: Wire) -> None:
    """Its kind is not served."""
    names = {"plural": "things", "kind": "Thing"}
    schema = {
        "openAPIV3Schema": {"type": "object", "properties": {"spec": {"x-kubernetes-validations": [{"rule": "true"}]}}}
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    check_status(await wire.call("POST", CRDS, {"metadata": {"name": "things.example.com"}, "spec": spec}), 422)
    check_status(await wire.call("GET", "/apis/example.com/v1/namespaces/default/things"), 404)


# --- fuzz ------------------------------------------------------------------------------------------------------------

_JUNK: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    2**31,
    2**63,
    2**70,
    1.5,
    "",
    "x",
    "-",
    "a" * 300,
    "\x00",
    "é",
    [],
    {},
    [[]],
    [None],
    {"": ""},
)


def _nodes(tree: Any) -> list[tuple[Any, Any]]:
    """Every position in a tree: its container and its key."""
    found: list[tuple[Any, Any]] = []
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        found += [(tree, key), *_nodes(value)]
    return found


def _replaced(rng: random.Random, tree: Any) -> Any:
    holder, key = rng.choice(_nodes(tree))
    holder[key] = copy.deepcopy(rng.choice(_JUNK))
    return tree


def _removed(rng: random.Random, tree: Any) -> Any:
    holder, key = rng.choice(_nodes(tree))
    del holder[key]
    return tree


def _added(rng: random.Random, tree: Any) -> Any:
    holders = [value for holder, key in _nodes(tree) if isinstance(value := holder[key], dict)]
    rng.choice(holders or [tree])[rng.choice(["", "x", "spec", "metadata", "$patch"])] = copy.deepcopy(
        rng.choice(_JUNK)
    )
    return tree


def _swapped(rng: random.Random, tree: Any) -> Any:
    (a, b), (c, d) = rng.choice(_nodes(tree)), rng.choice(_nodes(tree))
    a[b] = copy.deepcopy(c[d])
    return tree


_CHANGES: tuple[Callable[[random.Random, Any], Any], ...] = (_replaced, _removed, _added, _swapped)
_OBJECTS: tuple[tuple[str, Tree], ...] = (
    (PODS, pod("fuzz", nodeSelector={"a": "b"}, tolerations=[{"key": "a", "operator": "Exists"}])),
    (DEPLOYMENTS, deployment("fuzz")),
    (CONFIG_MAPS, config_map("fuzz", a="b") | {"data": {"a": "b"}}),
    ("/api/v1/namespaces/default/services", {"metadata": {"name": "fuzz"}, "spec": {"ports": [{"port": 80}]}}),
    ("/api/v1/nodes", {"metadata": {"name": "fuzz"}, "spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}),
    (
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        {"metadata": {"name": "fuzz"}, "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}}},
    ),
)


def _broken_bytes(rng: random.Random, text: bytes) -> bytes:
    data = bytearray(text)
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data[: rng.randrange(1, len(data) + 1)]) if rng.random() < 0.3 else bytes(data)


def _attempt(rng: random.Random) -> tuple[str, str, bytes, str]:
    """A request with a few errors: method, path, body and media type."""
    path, tree = rng.choice(_OBJECTS)
    tree = json.loads(json.dumps(tree))
    for _ in range(rng.randrange(1, 4)):
        if _nodes(tree):
            tree = rng.choice(_CHANGES)(rng, tree)
    body = json.dumps(tree).encode()
    if rng.random() < 0.2:
        body = _broken_bytes(rng, body)
    method, content = rng.choice(
        [
            ("POST", "application/json"),
            ("POST", YAML),
            ("PATCH", MERGE_PATCH),
            ("PATCH", STRATEGIC_PATCH),
            ("PUT", "application/json"),
        ]
    )
    return method, path if method == "POST" else f"{path}/there", body, content


@pytest.mark.slow
async def test_no_request_ends_the_server(
    wire: Wire,
    server: Server,
    record_property: Callable[[str, object], None],
) -> None:
    """Seeded requests with errors: none causes an internal error, and stored objects can be read."""
    rng = random.Random(7)
    for path, tree in _OBJECTS:
        await wire.create(path, {**tree, "metadata": {**tree["metadata"], "name": "there"}})
    counts: dict[int, int] = {}
    for _ in range(FUZZED):
        method, path, body, content = _attempt(rng)
        before = server.cluster.store.version
        reply = await wire.call(method, path, body, content=content)
        counts[reply.status] = counts.get(reply.status, 0) + 1
        if reply.status >= 400:
            assert reply.tree["kind"] == "Status", (method, path, body)
            assert reply.tree.get("reason") != "InternalError", (method, path, body, reply.text)
            assert server.cluster.store.version == before, (method, path, body)
        elif method == "POST":
            await wire.call("DELETE", f"{path}/{reply.tree['metadata']['name']}?gracePeriodSeconds=0")
    for path, _ in _OBJECTS:
        json.loads((await wire.call("GET", path)).text)
    assert (await wire.call("GET", "/readyz")).text == "ok"
    message = ", ".join(f"{count} answered {code}" for code, count in sorted(counts.items()))
    record_property("told", f"{FUZZED} requests tried: {message}")
