"""A request as the verbs see it, and what they answer; nothing of HTTP but the words."""

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
    """Who wants what done to which object. `warnings` grows while the request is handled; the client sees them."""

    target: Target
    query: Query
    user: User
    body: bytes = b""
    content_type: str = ""
    accept: str = ""
    warnings: list[str] = field(default_factory=list)

    @property
    def kind(self) -> Kind:
        """The kind that the path is about."""
        return self.target.kind

    @property
    def namespace(self) -> str:
        """The namespace in the path."""
        return self.target.namespace

    @property
    def name(self) -> str:
        """The name in the path."""
        return self.target.name


@dataclass(frozen=True, slots=True)
class Response:
    """A status code and a body. What may be large comes in pieces, so that it need not stand in memory whole."""

    status: int
    body: bytes | StreamedBody
    media_type: str = JSON
