"""Get and list.

A list has a version, from which a watch continues without a gap. The pages of a list have the version of the first
page, which the continue token carries. If the history has been compacted in between, the client receives an error with
a token that continues at the present version.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

import msgspec

from trimtab.api import codec
from trimtab_lab.apiserver.kinds.errors import StatusError, bad_request, not_found, status_error
from trimtab_lab.apiserver.storage.selections import Selection
from trimtab_lab.apiserver.storage.store import Collection, CompactedError, Entry, Tree, encode, key_of
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.apiserver.verbs.negotiation import negotiate
from trimtab_lab.apiserver.verbs.options import ListOptions, check_list, list_options, resource_version
from trimtab_lab.apiserver.verbs.requests import Request, Response
from trimtab_lab.apiserver.verbs.selectors import select

_TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 – the version of a format
_STALE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class ContinueToken(msgspec.Struct):
    """Where the next page starts: after this key, at this version; -1 is the present version."""

    v: str
    rv: int
    start: str

    def text(self) -> str:
        """The token as clients receive it."""
        return base64.urlsafe_b64encode(encode(self)).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> ContinueToken:
        """The token that a client sent. Raises a StatusError of 400."""
        try:
            token = codec.decode_exactly(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), cls)
        except (binascii.Error, msgspec.MsgspecError, ValueError) as error:
            raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None
        if token.v != _TOKEN_VERSION or not token.start or token.rv == 0 or token.rv < -1:
            raise bad_request("invalid continue token: continue key is not valid: not a token of this server")
        return token


def get(cluster: Cluster, request: Request) -> Response:
    """GET of one object, or of its status."""
    output = negotiate(request.accept, _included(request))
    kind = request.kind
    entry = cluster.store.collection(kind.collection).entries.get(key_of(request.namespace, request.name))
    if entry is None:
        raise not_found(kind, request.name)
    return cluster.respond(200, kind, output, entry)


def list_(cluster: Cluster, request: Request) -> Response:
    """GET of a collection."""
    options = list_options(request.query)
    output = negotiate(request.accept, options.include_object)
    check_list(options)
    if options.version == "0" and not options.token:
        options = replace(options, limit=0)  # "any version" is served from memory, without pages
    kind = request.kind
    selection = select(kind, request.namespace, "", options.labels, options.fields)
    entries, metadata = _page(cluster, cluster.store.collection(kind.collection), selection, options)
    if kind.custom is not None and output.shape == "object":
        metadata.setdefault("continue", "")
    return cluster.respond_list(kind, output, entries, metadata)


def _page(
    cluster: Cluster, collection: Collection, selection: Selection, options: ListOptions
) -> tuple[list[Entry], Tree]:
    at, after = _start(cluster, options)
    exact = bool(options.token) or options.match == "Exact" or (options.limit and at and not options.match)
    try:
        if exact and at < cluster.store.version:
            found: Iterable[Entry] = collection.at(at, selection.prefix, after)
        else:
            found, at = collection.present(selection.prefix, after), cluster.store.version
        if not selection.is_unrestricted:
            found = filter(selection.matches, found)
        entries = list(islice(found, options.limit + 1)) if options.limit else list(found)
    except CompactedError as error:
        raise _expired(options, error) from None
    metadata: Tree = {"resourceVersion": str(at)}
    if options.limit and len(entries) > options.limit:
        entries.pop()
        metadata["continue"] = ContinueToken(_TOKEN_VERSION, at, entries[-1].key + "\0").text()
        if selection.is_unrestricted:
            metadata["remainingItemCount"] = 1 + sum(1 for _ in found)
    return entries, metadata


def _start(cluster: Cluster, options: ListOptions) -> tuple[int, str]:
    """The requested version (0: the present one), and the key after which to start."""
    if options.token:
        if options.version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        token = ContinueToken.read(options.token)
        present = cluster.store.version
        if token.rv > present:
            raise too_large(token.rv, present)
        return (present if token.rv == -1 else token.rv), token.start.removesuffix("\0")
    requested = resource_version(options.version)
    if requested > cluster.store.version:
        raise too_large(requested, cluster.store.version)
    return requested, ""


def too_large(requested: int, present: int) -> StatusError:
    """504: a version that has not been reached."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {requested}, current: {present}"
    return status_error(504, message, details={"causes": [cause], "retryAfterSeconds": 1})


def expired(message: str, token: str = "") -> StatusError:
    """410: a version that has been compacted."""
    return status_error(410, message, reason="Expired", token=token)


def _expired(options: ListOptions, error: CompactedError) -> StatusError:
    if not options.token:
        return expired(str(error))
    start = ContinueToken.read(options.token).start
    return expired(_STALE, ContinueToken(_TOKEN_VERSION, -1, start).text())


def _included(request: Request) -> str:
    return request.query.get("includeObject", ("",))[0]
