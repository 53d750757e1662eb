"""The calls of a process to an API server, as RBAC sees them: a verb, a group, a resource, perhaps a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.api.documents import JSON
from trimtab.kube.transport import Request, Response, Stream, Transport

_VERBS: Mapping[str, str] = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True, order=True)
class Call:
    """One call. `resource` has the subresource behind a slash; creation has no name, as far as RBAC knows."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''} {self.name}{where}"

    def is_allowed(self, rules: list[JSON]) -> bool:
        """Whether one of these rules covers it."""
        return any(
            self.group in rule["apiGroups"]
            and self.resource in rule["resources"]
            and self.verb in rule["verbs"]
            and (not rule.get("resourceNames") or self.name in rule["resourceNames"])
            for rule in rules
        )


def call_of(request: Request) -> Call | None:
    """The call of a request; None for paths that need no role (discovery, health)."""
    parts = request.path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    resource = "/".join((rest[0], *rest[2:]))
    return Call(_verb(request, name), group, resource, namespace, name)


def _verb(request: Request, name: str) -> str:
    if request.method == "GET":
        watching = any(key == "watch" and value == "true" for key, value in request.params)
        return "watch" if watching else "get" if name else "list"
    if request.method == "DELETE" and not name:
        return "deletecollection"
    return _VERBS[request.method]


@dataclass(slots=True)
class Listening:
    """A transport that records calls."""

    transport: Transport
    calls: set[Call] = field(default_factory=set)

    async def send(self, request: Request) -> Response:
        """Pass it on."""
        self._note(request)
        return await self.transport.send(request)

    async def stream(self, request: Request) -> Stream:
        """Pass it on."""
        self._note(request)
        return await self.transport.stream(request)

    async def close(self) -> None:
        """Pass it on."""
        await self.transport.close()

    def _note(self, request: Request) -> None:
        call = call_of(request)
        if call is not None:
            self.calls.add(call)
