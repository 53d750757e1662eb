"""Record the responses of a real API server, to which the lab is compared.

    KUBECONFIG=… python -m tools.record [NAME …]

Each script in `tests/recordings/scripts` is a list of requests; run against the control plane that KUBECONFIG names, it
produces `tests/recordings/NAME.json`: every request as it is written, and its normalised response. Record against an
API server with few controllers (service accounts, namespaces, garbage collection): others would race with the script.

A step is a method with a path, and options:

    - name: a pod gets its defaults
      POST: /api/v1/namespaces/${namespace}/pods
      query: {dryRun: All}
      headers: {Accept: application/json}
      body: {apiVersion: v1, kind: Pod, …}      JSON; or `text`, as it is sent
      content: application/json                 the media type of the body
      keep: {version: metadata.resourceVersion} fields of the response for later steps: ${version}
      until: 404                                repeat until the response has this status
      watch: true                               the response is a stream of lines

`${namespace}` is a namespace of the script, which is created before the first step. `cleanup` lists what to delete.
A script with `webhooks: true` has a webhook server at `${webhook}` (see `tools/webhooks.py`) with the certificate
`${ca}`; its recording also has the reviews of each step.

Responses are normalised: values that differ each time (uids, versions, times, generated names, addresses) are replaced
by their name in angle brackets; managed fields are dropped. A replay compares the `normalised` responses.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tools.webhooks import WebhookServer

Tree = dict[str, Any]

RECORDINGS = Path(__file__).parents[1] / "tests" / "recordings"
SCRIPTS = RECORDINGS / "scripts"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
HEADERS = ("content-type", "warning", "retry-after")

_ATTEMPTS = 100
_PLACEHOLDER = re.compile(r"\$\{([\w.-]+)\}")


# --- scripts ---------------------------------------------------------------------------------------------------------


def scripts() -> dict[str, Tree]:
    """All scripts, by name."""
    return {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(SCRIPTS.glob("*.yaml"))}


def recordings() -> dict[str, Tree]:
    """All recordings, by name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(RECORDINGS.glob("*.json"))}


def request_of(step: Tree) -> Tree:
    """The request of a step: its method, path and options."""
    method = next(method for method in METHODS if method in step)
    parts = ("query", "headers", "body", "text", "content", "keep", "until", "watch")
    return {"method": method, "path": step[method]} | {part: step[part] for part in parts if part in step}


def filled(value: Any, known: Mapping[str, str]) -> Any:
    """A part of a request with its placeholders replaced."""
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: known[match[1]], value)
    if isinstance(value, dict):
        return {filled(key, known): filled(item, known) for key, item in value.items()}
    return [filled(item, known) for item in value] if isinstance(value, list) else value


def kept(request: Tree, body: Any) -> dict[str, str]:
    """The fields of a response that a step keeps for later steps."""
    return {name: str(_at(body, path)) for name, path in (request.get("keep") or {}).items()}


_GENERATED = re.compile(r".+-[a-z0-9]{5}")


def masked(value: Any, known: Mapping[str, str]) -> Any:
    """A part of a response with kept generated names replaced by their placeholders."""
    if isinstance(value, dict):
        return {key: masked(item, known) for key, item in value.items()}
    if isinstance(value, list):
        return [masked(item, known) for item in value]
    if isinstance(value, str):
        for name, text in known.items():
            if _GENERATED.fullmatch(text):
                value = value.replace(text, f"${{{name}}}")
    return value


def _at(tree: Any, path: str) -> Any:
    for step in path.split("."):
        tree = tree[int(step)] if isinstance(tree, list) else tree[step]
    return tree


# --- normalising -----------------------------------------------------------------------------------------------------

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_TOKEN_VOLUME = re.compile(r"\bkube-api-access-[a-z0-9]{5}\b")
_ADDRESS = re.compile(r"\b10\.0\.0\.\d{1,3}\b")
_PORT = re.compile(r"https://127\.0\.0\.1:\d+")
_WEB_TOKEN = re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+")
_CERTIFICATE = re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]+")
_WHOLE = re.compile(r'"\{\\"(?:apiVersion|kind).*\}"(?=: strict decoding error)', re.DOTALL)
_RECORD = re.compile(r"(in record \(|current: )\d+")
_NODE_PORT = re.compile(r":3[0-2]\d{3}/")
_AGE = re.compile(r"\d+s")
_VERSIONS = ("resourceVersion",)
_DROPPED = ("managedFields", "selfLink")


def normalised(value: Any, generated: str = "") -> Any:
    """A response without values that differ each time. `generated` is the prefix of a generated name."""
    if isinstance(value, dict):
        value = _in_order(value)
        base = str(value.get("generateName") or _generated_inside(value) or generated)
        return {key: _normal(key, item, base) for key, item in sorted(value.items()) if key not in _DROPPED}
    if isinstance(value, list):
        return [normalised(item, generated) for item in value]
    return _normal_text(value, generated) if isinstance(value, str) else value


def _in_order(status: Tree) -> Tree:
    """A Status with its causes sorted, also in its message: Go's maps have a random order."""
    details = status.get("details")
    if status.get("kind") != "Status" or not isinstance(details, dict) or len(details.get("causes") or ()) < 2:
        return status
    causes = details["causes"]
    ordered = sorted(causes, key=lambda cause: (cause.get("field", ""), cause.get("message", "")))
    message = str(status["message"])
    before, after = (_sentence(listed) for listed in (causes, ordered))
    if before not in message:
        raise ValueError(f"the message does not list the causes: {message}")
    return {**status, "message": message.replace(before, after), "details": {**details, "causes": ordered}}


def _sentence(causes: list[Tree]) -> str:
    texts = dict.fromkeys(f"{cause.get('field', '')}: {cause.get('message', '')}" for cause in causes)
    return f"[{', '.join(texts)}]" if len(texts) > 1 else "".join(texts)


def _generated_inside(value: Tree) -> str:
    """The prefix of a generated name that a review has beside its object."""
    held = value.get("object")
    return str((held.get("metadata") or {}).get("generateName", "")) if isinstance(held, dict) else ""


def _normal(key: str, value: Any, generated: str) -> Any:
    if key == "userInfo":
        return "<user>"
    if key in _VERSIONS and isinstance(value, str) and value:
        return "<version>"
    if key == "continue" and value:
        return "<continue>"
    if key == "remainingItemCount":
        return "<count>"
    if key == "cells" and isinstance(value, list):
        return [_normal_cell(cell) for cell in value]
    if key == "nodePort":
        return "<port>"
    return normalised(value, generated)


def _normal_cell(cell: Any) -> Any:
    if isinstance(cell, str) and _AGE.fullmatch(cell):
        return "<age>"
    if isinstance(cell, str):
        cell = _NODE_PORT.sub(":<port>/", cell)
    return normalised(cell)


def _normal_text(text: str, generated: str) -> str:
    for pattern, name in (
        (_TIME, "<time>"),
        (_UID, "<uid>"),
        (_TOKEN_VOLUME, "kube-api-access-<suffix>"),
        (_ADDRESS, "<address>"),
        (_PORT, "https://127.0.0.1:<port>"),
        (_RECORD, r"\1<version>"),
        (_CERTIFICATE, "<certificate>"),
        (_WEB_TOKEN, "<token>"),
        (_WHOLE, '"<object>"'),
    ):
        text = pattern.sub(name, text)
    if generated:
        text = re.sub(rf"{re.escape(generated)}[a-z0-9]{{5}}\b", f"{generated}<suffix>", text)
    return text


# --- recording -------------------------------------------------------------------------------------------------------


class Server:
    """The API server that a kubeconfig names."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session = session
        self._address = address

    async def send(self, request: Tree) -> tuple[int, dict[str, Any], Any]:
        """The status, the important headers, and the body of a response: JSON, a list of events, or text."""
        data = json.dumps(request["body"]) if "body" in request else request.get("text")
        headers = dict(request.get("headers") or {})
        if data is not None:
            headers.setdefault("Content-Type", request.get("content", "application/json"))
        query = [(key, str(value)) for key, value in (request.get("query") or {}).items()]
        async with self._session.request(
            request["method"], f"{self._address}{request['path']}", params=query, data=data, headers=headers
        ) as answer:
            text = await answer.text()
            found = {name: answer.headers.getall(name) for name in HEADERS if name in answer.headers}
            return answer.status, found, _body(text, watch=bool(request.get("watch")))


def _body(text: str, *, watch: bool) -> Any:
    try:
        return json.loads(text) if not watch else events(text)
    except ValueError:
        return text


def events(text: str) -> list[Tree]:
    """The events of a watch, without bookmarks that depend on time."""
    found = [json.loads(line) for line in text.splitlines()]
    return [event for event in found if event["type"] != "BOOKMARK" or "annotations" in event["object"]["metadata"]]


async def record(server: Server, name: str, script: Tree) -> Tree:
    """Run a script; returns its recording."""
    async with WebhookServer() as webhooks:
        known = {"namespace": f"recorded-{name}", "webhook": webhooks.url, "ca": webhooks.ca}
        await _prepare(server, known["namespace"])
        try:
            steps = [await _record_step(server, step, known, webhooks) for step in script["steps"]]
        finally:
            for path in [*(script.get("cleanup") or ()), f"/api/v1/namespaces/{known['namespace']}"]:
                await server.send({"method": "DELETE", "path": filled(path, known)})
    head = {key: script[key] for key in ("about", "cleanup", "webhooks") if key in script}
    return head | {"steps": steps}


async def _record_step(server: Server, step: Tree, known: dict[str, str], webhooks: WebhookServer) -> Tree:
    request = request_of(step)
    status, headers, body = await _send_until(server, filled(request, known))
    known |= kept(request, body)
    body = masked(body, known)
    answer: Tree = {"status": status, "headers": normalised(headers), "body": normalised(body)}
    reviews = webhooks.taken()
    if reviews and "until" not in request:
        answer["reviews"] = normalised(reviews)
    return {"name": step["name"], "request": request, "response": answer}


async def _send_until(server: Server, request: Tree) -> tuple[int, dict[str, Any], Any]:
    for _ in range(_ATTEMPTS):
        answer = await server.send(request)
        if answer[0] == request.get("until", answer[0]):
            return answer
        await asyncio.sleep(0.1)
    raise TimeoutError(
        f"{request['method']} {request['path']} did not respond with {request['until']}, but with {answer[0]}"
    )


async def _prepare(server: Server, namespace: str) -> None:
    """Create an empty namespace, with the service account that pods need."""
    await server.send({"method": "DELETE", "path": f"/api/v1/namespaces/{namespace}"})
    await _send_until(server, {"method": "GET", "path": f"/api/v1/namespaces/{namespace}", "until": 404})
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    await _send_until(server, {"method": "POST", "path": "/api/v1/namespaces", "body": body, "until": 201})
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    await _send_until(server, {"method": "GET", "path": account, "until": 200})


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[Server]:
    """The server of the current context of a kubeconfig with certificates or tokens in it."""
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    user = _named(config["users"], context["user"])["user"]
    trust = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    for files in _certificate(user):
        trust.load_cert_chain(*files)
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    connector = aiohttp.TCPConnector(ssl=trust)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        yield Server(session, cluster["server"])


def _named(entries: list[Tree], name: str) -> Tree:
    return next(entry for entry in entries if entry["name"] == name)


def _certificate(user: Tree) -> Iterator[tuple[str, str]]:
    """The client's certificate and key as files, while they are read."""
    if "client-certificate-data" not in user:
        return
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "certificate", Path(folder) / "key"
        for file, field in zip(files, ("client-certificate-data", "client-key-data"), strict=True):
            file.write_bytes(base64.b64decode(user[field]))
        yield str(files[0]), str(files[1])


async def main(names: list[str]) -> None:
    """Record the named scripts, or all of them."""
    async with connected(Path(os.environ["KUBECONFIG"])) as server:
        for name, script in scripts().items():
            if not names or name in names:
                recording = await record(server, name, script)
                text = json.dumps(recording, indent=1, ensure_ascii=False)
                (RECORDINGS / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
