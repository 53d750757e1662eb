"""Discovery: the served versions, groups and resources.

kubectl asks for everything at once (`APIGroupDiscoveryList`); older clients go from `/apis` to each group version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trimtab_lab.apiserver.kinds.registry import SUBRESOURCES, VERBS, Kind, Registry, Subresource
from trimtab_lab.apiserver.storage.store import Tree

VERSION = "1.36.0"
"""The Kubernetes version that the lab imitates; clients choose features by it."""

_AGGREGATED = "apidiscovery.k8s.io"
_VERSIONS = ("v2", "v2beta1")

_CREATE_ONLY: dict[str, list[Tree]] = {
    "v1": [{"name": "bindings", "singularName": "binding", "namespaced": True, "kind": "Binding", "verbs": ["create"]}],
    "authentication.k8s.io/v1": [
        {
            "name": "selfsubjectreviews",
            "singularName": "selfsubjectreview",
            "namespaced": False,
            "kind": "SelfSubjectReview",
            "verbs": ["create"],
        }
    ],
    "authorization.k8s.io/v1": [
        {
            "name": "selfsubjectaccessreviews",
            "singularName": "selfsubjectaccessreview",
            "namespaced": False,
            "kind": "SelfSubjectAccessReview",
            "verbs": ["create"],
        }
    ],
}
"""Resources that can only be created, and are never stored."""


def version() -> Tree:
    """`/version`."""
    major, minor, _ = VERSION.split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{VERSION}+trimtab-lab",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "lab",
    }


def aggregated_version(accept: str) -> str:
    """The version of aggregated discovery that a client accepts; empty if it accepts none."""
    for clause in accept.split(","):
        parameters = dict(part.strip().split("=", 1) for part in clause.split(";")[1:] if "=" in part)
        wanted = parameters.get("as") == "APIGroupDiscoveryList" and parameters.get("g") == _AGGREGATED
        if wanted and parameters.get("v") in _VERSIONS:
            return parameters["v"]
    return ""


def aggregated(registry: Registry, version: str, *, core: bool) -> Tree:
    """Aggregated discovery under `/api` or `/apis`."""
    groups = [group for group in group_names(registry) if (group == "") is core]
    items = [_group_item(registry, group) for group in groups]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": f"{_AGGREGATED}/{version}", "metadata": {}, "items": items}


def core_versions(address: str) -> Tree:
    """`/api`."""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def groups(registry: Registry) -> Tree:
    """`/apis`."""
    named = [group for group in group_names(registry) if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(registry, name) for name in named]}


def group(registry: Registry, name: str) -> Tree | None:
    """`/apis/GROUP`."""
    if not name or name not in group_names(registry):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(registry, name)}


def resources(registry: Registry, api_version: str) -> Tree | None:
    """`/apis/GROUP/VERSION`, `/api/v1`."""
    found = [row for kind in _kinds(registry, api_version) for row in _rows(kind)]
    found += _CREATE_ONLY.get(api_version, [])
    if not found:
        return None
    ordered = sorted(found, key=lambda row: row["name"])
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": ordered}


def group_names(registry: Registry) -> list[str]:
    """The groups, the core group first, then in the order of registration."""
    created = (api_version.rpartition("/")[0] for api_version in _CREATE_ONLY)
    return list(dict.fromkeys(["", *(kind.group for kind in registry), *created]))


def _versions(registry: Registry, group: str) -> list[str]:
    """The versions of a group, the preferred one first."""
    versions = {kind.version for kind in registry if kind.group == group}
    versions |= {v.rpartition("/")[2] for v in _CREATE_ONLY if v.rpartition("/")[0] == group}
    return sorted(versions, key=_preference)


def _preference(version: str) -> tuple[int, int, int, str]:
    """Sort stable versions before beta before alpha, and later before earlier ones: v2, v1, v1beta1, v1alpha2."""
    for rank, mark in ((1, "beta"), (2, "alpha"), (0, "")):
        major, found, minor = version.removeprefix("v").partition(mark) if mark else (version[1:], "v", "0")
        if version.startswith("v") and found and major.isdigit() and minor.isdigit():
            return rank, -int(major), -int(minor), version
    return 3, 0, 0, version


def _group(registry: Registry, name: str) -> Tree:
    versions = [{"groupVersion": f"{name}/{v}", "version": v} for v in _versions(registry, name)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _kinds(registry: Registry, api_version: str) -> list[Kind]:
    return [kind for kind in registry if kind.api_version == api_version]


def _rows(kind: Kind) -> Iterator[Tree]:
    row: Tree = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": [verb for verb in VERBS if verb in kind.verbs],
    }
    if kind.short_names:
        row["shortNames"] = list(kind.short_names)
    if kind.categories:
        row["categories"] = list(kind.categories)
    yield row
    for part in _parts(kind):
        yield {
            "name": f"{kind.plural}/{part.name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            **_other_version(part),
            "kind": part.kind or kind.kind,
            "verbs": list(part.verbs),
        }


def _parts(kind: Kind) -> Iterable[Subresource]:
    return (SUBRESOURCES[name] for name in kind.subresources)


def _other_version(part: Subresource) -> Tree:
    group, _, version = part.api_version.rpartition("/")
    return {"group": group, "version": version} if group else {}


def _group_item(registry: Registry, group: str) -> Tree:
    versions = [
        {"version": version, "resources": _resource_items(registry, group, version), "freshness": "Current"}
        for version in _versions(registry, group)
    ]
    return {"metadata": {"name": group} if group else {}, "versions": versions}


def _resource_items(registry: Registry, group: str, version: str) -> list[Tree]:
    api_version = f"{group}/{version}" if group else version
    items = [_resource_item(kind) for kind in _kinds(registry, api_version)]
    items += [
        _item(row["name"], group, version, row["kind"], row["singularName"], row["verbs"], namespaced=row["namespaced"])
        for row in _CREATE_ONLY.get(api_version, [])
    ]
    return sorted(items, key=lambda item: item["resource"])


def _resource_item(kind: Kind) -> Tree:
    verbs = [verb for verb in VERBS if verb in kind.verbs]
    item = _item(kind.plural, kind.group, kind.version, kind.kind, kind.singular, verbs, namespaced=kind.namespaced)
    if kind.short_names:
        item["shortNames"] = list(kind.short_names)
    if kind.categories:
        item["categories"] = list(kind.categories)
    parts = [_part_item(kind, part) for part in _parts(kind)]
    return item | ({"subresources": parts} if parts else {})


def _item(
    plural: str, group: str, version: str, kind: str, singular: str, verbs: list[str], *, namespaced: bool
) -> Tree:
    return {
        "resource": plural,
        "responseKind": {"group": group, "version": version, "kind": kind},
        "scope": "Namespaced" if namespaced else "Cluster",
        "singularResource": singular,
        "verbs": verbs,
    }


def _part_item(kind: Kind, part: Subresource) -> Tree:
    group, _, version = (part.api_version or kind.api_version).rpartition("/")
    response = {"group": group, "version": version, "kind": part.kind or kind.kind}
    return {"subresource": part.name, "responseKind": response, "verbs": list(part.verbs)}
