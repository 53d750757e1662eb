"""What a real API server answered, asked of the lab: every recording is replayed and compared, answer by answer.

Where the lab's words differ on purpose, the difference is named here, and nothing else is let pass.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.lab.wire import Tree
from tools import record
from trimtab_lab.apiserver.wire.server import Server

RECORDINGS = record.recordings()

OWN_WORDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), name)
    for pattern, name in (
        # Parsers of JSON and YAML each have their own way to say what is wrong.
        (r"(couldn't get version/kind; )?(json parse error|yaml): .*", "<no JSON>"),
        (r"(error decoding patch|continue key is not valid): .*", r"\1: <reason>"),
        # Go prints the innards of the types that it holds values in.
        (
            r"Invalid value: (\[?\{|\"\{).*?(: must|: only|: strict|: json|: unknown|: no kind|: Pod )",
            r"Invalid value: <value>\2",
        ),
        (r"(but isn't: ).*?(, spec|\]$|$)", r"\1<reason>\2"),
        (r"(\n@@|\n---).*", "<difference>"),
        # Selectors: another parser.
        (r"(unable to parse requirement|invalid selector).*", r"\1: <reason>"),
        # The lab answers in JSON and YAML, takes no server-side apply, and says so.
        (r", application/vnd.kubernetes.protobuf|, application/apply-patch\+yaml", ""),
    )
)


@pytest.mark.parametrize("name", sorted(RECORDINGS))
async def test_the_lab_answers_as_the_real_one_did(server: Server, name: str) -> None:
    """Status, headers that matter, and body of each answer; what webhooks were asked."""
    async with record.connected(server.kubeconfig) as client:
        replayed = await record.record(client, name, record.scripts()[name])
    pairs = zip(RECORDINGS[name]["steps"], replayed["steps"], strict=True)
    differing = {wanted["name"]: found for wanted, ours in pairs if (found := _differences(wanted, ours))}
    assert differing == {}


def _differences(wanted: Tree, ours: Tree) -> list[str]:
    theirs, answered = _compared(wanted["response"]), _compared(ours["response"])
    return list(_walk(theirs, answered, ""))[:5]


def _walk(theirs: Any, ours: Any, path: str) -> Any:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(theirs.keys() | ours.keys()):
            yield from _walk(theirs.get(key, "<absent>"), ours.get(key, "<absent>"), f"{path}.{key}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for index, pair in enumerate(zip(theirs, ours, strict=True)):
            yield from _walk(*pair, f"{path}[{index}]")
    elif theirs != ours:
        yield f"{path}: {theirs!r:.300} | {ours!r:.300}"


def _compared(answer: Tree) -> Tree:
    """An answer without what may differ."""
    if isinstance(answer["body"], str) and answer["status"] == 404:
        # A path that nothing knows: Kubernetes answers with text, the lab with a Status like everywhere.
        return {"status": 404}
    body = _without_late_bookmarks(answer["body"])
    if isinstance(body, dict) and body.get("message") == "the server could not find the requested resource":
        return {"status": 404}
    return {**answer, "body": _in_own_words(body), "reviews": answer.get("reviews", [])}


def _without_late_bookmarks(body: Any) -> Any:
    """Bookmarks come when the server thinks it is time; only those at the end of initial events have a place."""
    if not isinstance(body, list):
        return body
    return [e for e in body if e["type"] != "BOOKMARK" or "annotations" in e["object"]["metadata"]]


def _in_own_words(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {
            name: _in_own_words(item, name) for name, item in value.items() if not _is_told_differently(name, value)
        }
    if isinstance(value, list):
        items = [_in_own_words(item, key) for item in value]
        # Go visits maps in random order: causes are a set.
        return sorted(items, key=str) if key == "causes" else items
    if isinstance(value, str) and key == "message":
        for pattern, name in OWN_WORDS:
            value = pattern.sub(name, value)
        return "".join(sorted(value.split(", "))) if " is invalid: [" in value else value
    return value


def _is_told_differently(name: str, holder: Tree) -> bool:
    """What columns are about is told in the lab's own words; a table shows a DaemonSet without an annotation that
    Kubernetes makes up when it answers with the object."""
    if name == "description":
        return "priority" in holder
    return name == "annotations" and list(holder[name]) == ["deprecated.daemonset.template.generation"]
