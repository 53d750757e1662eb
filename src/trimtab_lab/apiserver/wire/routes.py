"""Routes: the function for each method, target and subresource, as a table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from trimtab_lab.apiserver.kinds.errors import method_not_allowed
from trimtab_lab.apiserver.verbs import binding, deletes, eviction, reads, scale, tokens, writes
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.apiserver.verbs.options import flag
from trimtab_lab.apiserver.verbs.requests import Request, Response

Read = Callable[[Cluster, Request], Response]
Write = Callable[[Cluster, Request], Awaitable[Response]]

READS: Mapping[tuple[str, str], Read] = {
    ("collection", ""): reads.list_,
    ("object", ""): reads.get,
    ("object", "status"): reads.get,
    ("object", "scale"): scale.get,
}
"""GET, by target (collection or object) and subresource."""

WRITES: Mapping[tuple[str, str, str], Write] = {
    ("POST", "collection", ""): writes.create,
    ("POST", "collection", "binding"): binding.create,
    ("POST", "object", "binding"): binding.create,
    ("POST", "object", "eviction"): eviction.create,
    ("POST", "object", "token"): tokens.create,
    ("PUT", "object", ""): writes.update,
    ("PUT", "object", "status"): writes.update,
    ("PUT", "object", "finalize"): writes.update,
    ("PUT", "object", "scale"): scale.update,
    ("PATCH", "object", ""): writes.patch,
    ("PATCH", "object", "status"): writes.patch,
    ("PATCH", "object", "scale"): scale.patch,
    ("DELETE", "object", ""): deletes.delete,
    ("DELETE", "collection", ""): deletes.delete_collection,
}
"""All other methods, by method, target and subresource."""


def is_watch(request: Request) -> bool:
    """Whether a GET is a watch: by its path, or for a collection by its query."""
    target = request.target
    if target.subresource:
        return False
    return target.watch or (not target.name and flag(request.query, "watch"))


def read(request: Request) -> Read:
    """The function for a GET. Raises a StatusError of 405."""
    handler = READS.get((_shape(request), request.target.subresource))
    if handler is None:
        raise method_not_allowed()
    return handler


def write(method: str, request: Request) -> Write:
    """The function for any other method. Raises a StatusError of 405."""
    shape, target = _shape(request), request.target
    handler = WRITES.get((method, shape, target.subresource))
    everywhere = shape == "collection" and target.kind.namespaced and not target.namespace
    if handler is None or everywhere or target.watch:
        raise method_not_allowed()
    if handler is deletes.delete_collection and "deletecollection" not in target.kind.verbs:
        raise method_not_allowed()
    return handler


def _shape(request: Request) -> str:
    return "object" if request.target.name else "collection"
