"""The lab compared with a real API server: every recording is replayed, response by response.

Deliberate differences are listed here; everything else must be equal.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.lab.wire import Tree
from tests.unit.lab.apiserver import replays
from tools import record
from trimtab_lab.apiserver.wire.server import Server

RECORDINGS = record.recordings()

OWN_WORDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), name)
    for pattern, name in (
        # Parsers of JSON and YAML have their own messages.
        (r"(couldn't get version/kind; )?(json parse error|yaml): .*", "<no JSON>"),
        (r"(error decoding patch|continue key is not valid): .*", r"\1: <reason>"),
        # Go prints the internals of its types.
        (
            r"Invalid value: (\[?\{|\"\{).*?(: must|: only|: strict|: json|: unknown|: no kind|: Pod )",
            r"Invalid value: <value>\2",
        ),
        (r"(but isn't: ).*?(, spec|\]$|$)", r"\1<reason>\2"),
        (r"(\n@@|\n---).*", "<difference>"),
        # Selectors: another parser.
        (r"(unable to parse requirement|invalid selector).*", r"\1: <reason>"),
        # The lab responds in JSON and YAML only, and has no server-side apply.
        (r", application/vnd.kubernetes.protobuf|, application/apply-patch\+yaml", ""),
    )
)


@pytest.mark.parametrize("name", sorted(RECORDINGS))
async def test_the_lab_responds_like_a_real_server(server: Server, name: str) -> None:
    """Status, important headers and body of each response, and the reviews of webhooks."""
    async with record.connected(server.kubeconfig) as client:
        replayed = await record.record(client, name, record.scripts()[name])
    pairs = zip(RECORDINGS[name]["steps"], replayed["steps"], strict=True)
    differing = {wanted["name"]: found for wanted, ours in pairs if (found := _differences(wanted, ours))}
    assert differing == {}


def _differences(wanted: Tree, ours: Tree) -> list[str]:
    recorded, answered = _comparable(wanted["response"]), _comparable(ours["response"])
    return list(_walk(recorded, answered, ""))[:5]


def _walk(recorded: Any, ours: Any, path: str) -> Any:
    if isinstance(recorded, dict) and isinstance(ours, dict):
        for key in sorted(recorded.keys() | ours.keys()):
            yield from _walk(recorded.get(key, "<absent>"), ours.get(key, "<absent>"), f"{path}.{key}")
    elif isinstance(recorded, list) and isinstance(ours, list) and len(recorded) == len(ours):
        for index, pair in enumerate(zip(recorded, ours, strict=True)):
            yield from _walk(*pair, f"{path}[{index}]")
    elif recorded != ours:
        yield f"{path}: {recorded!r:.300} | {ours!r:.300}"


def _comparable(answer: Tree) -> Tree:
    """A response without what may differ."""
    if isinstance(answer["body"], str) and answer["status"] == 404:
        # For an unknown path Kubernetes responds with text, the lab with a Status.
        return {"status": 404}
    body = _without_late_bookmarks(answer["body"])
    if isinstance(body, dict) and body.get("message") == "the server could not find the requested resource":
        return {"status": 404}
    if isinstance(body, dict) and replays.is_about_values(body):
        details = {**body["details"], "causes": replays.places(body["details"]["causes"])}
        body = {**body, "message": "", "details": details}
    return {**answer, "body": _in_own_words(body), "reviews": answer.get("reviews", [])}


def _without_late_bookmarks(body: Any) -> Any:
    """A watch without bookmarks that depend on time; only those at the end of initial events are compared."""
    if not isinstance(body, list):
        return body
    return [e for e in body if e["type"] != "BOOKMARK" or "annotations" in e["object"]["metadata"]]


def _in_own_words(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {
            name: _in_own_words(item, name) for name, item in value.items() if not _differs_deliberately(name, value)
        }
    if isinstance(value, list):
        items = [_in_own_words(item, key) for item in value]
        # Go iterates maps in random order: causes are compared as a set.
        return sorted(items, key=str) if key == "causes" else items
    if isinstance(value, str) and key == "message":
        for pattern, name in OWN_WORDS:
            value = pattern.sub(name, value)
        return "".join(sorted(value.split(", "))) if " is invalid: [" in value else value
    return value


def _differs_deliberately(name: str, holder: Tree) -> bool:
    """Column descriptions are the lab's own; a table shows a DaemonSet without an annotation that Kubernetes adds when
    it responds with the object."""
    if name == "description":
        return "priority" in holder
    return name == "annotations" and list(holder[name]) == ["deprecated.daemonset.template.generation"]
