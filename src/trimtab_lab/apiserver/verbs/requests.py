"""Requests and responses of the verbs, without HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field

from trimtab_lab.apiserver.admission.users import User
from trimtab_lab.apiserver.kinds.registry import Kind
from trimtab_lab.apiserver.verbs.encoding import StreamedBody
from trimtab_lab.apiserver.verbs.negotiation import JSON
from trimtab_lab.apiserver.verbs.options import Query


@dataclass(frozen=True, slots=True)
class Target:
    """The object or collection that a path under `/api` or `/apis` names; `name` is empty for a collection."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False


@dataclass(slots=True)
class Request:
    """One request. `warnings` grows while it is handled, and is sent to the client."""

    target: Target
    query: Query
    user: User
    body: bytes = b""
    content_type: str = ""
    accept: str = ""
    warnings: list[str] = field(default_factory=list)

    @property
    def kind(self) -> Kind:
        """The kind of the target."""
        return self.target.kind

    @property
    def namespace(self) -> str:
        """The namespace of the target."""
        return self.target.namespace

    @property
    def name(self) -> str:
        """The name of the target."""
        return self.target.name


@dataclass(frozen=True, slots=True)
class Response:
    """A status code and a body. A large body comes in pieces, so that it is never in memory as a whole."""

    status: int
    body: bytes | StreamedBody
    media_type: str = JSON
