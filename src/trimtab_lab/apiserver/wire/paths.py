"""Paths of objects and collections.

    /api/v1/namespaces/NAMESPACE/pods/NAME/SUBRESOURCE      /apis/GROUP/VERSION/…
    /api/v1/nodes/NAME/SUBRESOURCE                          the same without a namespace
    /api/v1/pods                                            all namespaces
    /api/v1/watch/…                                         the deprecated path of a watch
    /api/v1/namespaces/NAMESPACE/bindings                   the deprecated path to bind the pod that the body names

Each segment is unescaped by itself, so that `%2F` never separates segments and `..` is a name like any other (no object
can have it).
"""

from __future__ import annotations

from urllib.parse import unquote

from trimtab_lab.apiserver.kinds.errors import StatusError, path_not_found, status_error
from trimtab_lab.apiserver.kinds.registry import REFUSED_SUBRESOURCES, Kind, Registry
from trimtab_lab.apiserver.verbs.requests import Target

_CACHE_SIZE = 8192


class PathParser:
    """Parses paths, and caches the results while the kinds stay the same."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._cache: dict[str, Target | None] = {}
        self._changes = registry.changes

    def find(self, path: str) -> Target | None:
        """The target of a path, None if it is not a path of objects. Raises a StatusError of 404."""
        if self._changes != self._registry.changes or len(self._cache) > _CACHE_SIZE:
            self._cache.clear()
            self._changes = self._registry.changes
        try:
            return self._cache[path]
        except KeyError:
            target = self._cache[path] = self._read(path)
            return target

    def _read(self, path: str) -> Target | None:
        api_version, rest = split_version(path)
        if not api_version or not rest or not self._registry.serves(api_version):
            return None
        watch = rest[0] == "watch" and len(rest) > 1
        if watch:
            rest = rest[1:]
        if not all(rest) or any("/" in segment for segment in rest):
            raise path_not_found()
        return self._target(api_version, rest, watch=watch)

    def _target(self, api_version: str, rest: list[str], *, watch: bool) -> Target:
        pods = self._registry.find(api_version, "pods")
        if pods is not None and rest[0] == "namespaces" and rest[2:] == ["bindings"]:
            return Target(pods, rest[1], subresource="binding")
        if rest[0] == "namespaces" and len(rest) > 2:
            kind = self._registry.find(api_version, rest[2])
            if kind is not None and kind.namespaced:
                return self._object(kind, rest[1], rest[3:], watch=watch)
        kind = self._registry.find(api_version, rest[0])
        if kind is None or (kind.namespaced and len(rest) > 1):
            raise path_not_found()
        return self._object(kind, "", rest[1:], watch=watch)

    def _object(self, kind: Kind, namespace: str, rest: list[str], *, watch: bool) -> Target:
        if len(rest) > 2:
            raise self._unknown_subresource(kind, rest[1])
        name, subresource = (*rest, "", "")[:2]
        if subresource and subresource not in kind.subresources:
            raise self._unknown_subresource(kind, subresource)
        return Target(kind, namespace, name, subresource, watch)

    def _unknown_subresource(self, kind: Kind, subresource: str) -> StatusError:
        if kind.name == "v1 Pod" and subresource in REFUSED_SUBRESOURCES:
            return status_error(501, REFUSED_SUBRESOURCES[subresource], reason="NotImplemented")
        return path_not_found()


def split_version(path: str) -> tuple[str, list[str]]:
    """Split `/apis/apps/v1/deployments/web` into `apps/v1` and the remaining segments; any other path has an empty
    version."""
    segments = [unquote(segment) for segment in path.split("/")[1:]]
    if segments[0] == "api" and len(segments) > 1:
        return segments[1], segments[2:]
    if segments[0] == "apis" and len(segments) > 2:
        return f"{segments[1]}/{segments[2]}", segments[3:]
    return "", []
