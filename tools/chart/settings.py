"""The settings of the chart that decide which objects there are, as flags, and placeholders for values that are copied.

A setting has some choices. Each is a change of the options of an installation, and the flags that the chart computes
from its values for the same choice (`trimtab.flags` in `templates/_helpers.tpl`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

from tools.chart.conditions import Flags
from trimtab.api.annotations import CONFIGURATION_DIGEST
from trimtab.api.documents import JSON
from trimtab.install import manifests
from trimtab.install.deployments import CONFIGURATION_FILE
from trimtab.install.options import Options

NAMESPACE = "release-namespace-placeholder"
MANAGED = "managed-namespace-placeholder"
IMAGE = "image-placeholder"
LEASE = "lease-placeholder"
WRITER = "cost-writer-placeholder"
CIDR = "192.0.2.0/24"
BUNDLE = b"ca-bundle-placeholder"
ISSUER = {"name": "issuer-name-placeholder", "kind": "issuer-kind-placeholder", "group": "issuer-group-placeholder"}
REPLICAS = 987654321
_BUDGET, _TIMEOUT = 23.5, 25
_COMPONENTS = ("scheduler", "webhooks", "controllers")

Change = Callable[[Options], Options]


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice of a setting: its flags, and what it changes."""

    flags: Flags
    change: Change


def _set(**fields: Any) -> Change:
    return lambda options: replace(options, **fields)


def _configure(**parts: Any) -> Change:
    """Add to the configuration, one level deep."""

    def change(options: Options) -> Options:
        tree = dict(options.configuration)
        for name, value in parts.items():
            tree[name] = {**(tree.get(name) or {}), **value} if isinstance(value, dict) else value
        return replace(options, configuration=tree)

    return change


def _same(options: Options) -> Options:
    return options


def _switch(flag: str, change: Change) -> list[Choice]:
    return [Choice(frozenset(), _same), Choice(frozenset({flag}), change)]


def _components() -> Iterator[Choice]:
    for chosen in product((True, False), repeat=len(_COMPONENTS)):
        names = tuple(name for name, is_chosen in zip(_COMPONENTS, chosen, strict=True) if is_chosen)
        if names:
            yield Choice(frozenset(names), _set(components=names))


def _managed() -> Iterator[Choice]:
    yield Choice(frozenset(), _same)
    more = {"kubeSystem": "kube-system", "ownNamespace": NAMESPACE}
    for chosen in ((), ("kubeSystem",), ("ownNamespace",), ("kubeSystem", "ownNamespace")):
        names = [MANAGED, *(more[flag] for flag in chosen)]
        yield Choice(frozenset({"namespaced", *chosen}), _configure(namespaces=names))


_FILES = {"source": "Files", "certificateFile": "/tls.crt", "keyFile": "/tls.key"}

SETTINGS: Mapping[str, Sequence[Choice]] = {
    "components": list(_components()),
    "namespaces": list(_managed()),
    "denyCostChanges": _switch("denyCostChanges", _set(deny_cost_changes=True)),
    "groupCostEdits": _switch("groupCostEdits", _set(group_cost_edits=True)),
    "apiServerCidrs": _switch("knowsCallers", _set(api_server_ranges=(CIDR,))),
    "cloneSets": [
        Choice(frozenset({"cloneSets"}), _same),
        Choice(frozenset(), _set(clonesets=False)),
    ],
    "podWebhook": [
        Choice(frozenset({"podWebhook"}), _same),
        Choice(frozenset(), _configure(featureGates={"PodWebhook": False})),
    ],
    "defaultConstraints": _switch("defaultsAtAdmission", _configure(defaultConstraints={"delivery": "Admission"})),
    "certificates": [
        Choice(frozenset({"managedCertificates"}), _same),
        Choice(frozenset(), _configure(webhooks={"certificates": _FILES})),
        Choice(
            frozenset({"certManager", "selfSigned"}), _configure(webhooks={"certificates": {"source": "CertManager"}})
        ),
        Choice(
            frozenset({"certManager"}),
            _configure(webhooks={"certificates": {"source": "CertManager", "issuer": ISSUER}}),
        ),
    ],
    "caBundle": _switch("caBundle", _set(ca_bundle=BUNDLE)),
}

_BASE = Options(
    namespace=NAMESPACE,
    image=IMAGE,
    replicas=REPLICAS,
    configuration={
        "scheduler": {"leaderElection": {"resourceName": LEASE}},
        "scaleDown": {"costWriters": [WRITER], "budgetSeconds": _BUDGET},
    },
    shared="Helm creates it",
)
_TRIES = 20


def parts(chosen: Mapping[str, Choice], *wanted: str) -> tuple[Flags, dict[str, list[JSON]]]:
    """The flags of some choices, and the objects that they lead to, with placeholders: of these parts, or of all."""
    options, flags = _BASE, frozenset[str]()
    for choice in chosen.values():
        options, flags = choice.change(options), flags | choice.flags
    names = options.read().namespaces
    made = manifests.parts(options)
    return flags, {
        name: [_marked(each, list(names)) for each in objects if not _is_repeated(each)]
        for name, objects in made.items()
        if not wanted or name in wanted
    }


def cases(part: str) -> dict[Flags, list[JSON]]:
    """The objects of a part in every case of the settings that it depends on."""
    names = [name for name in SETTINGS if part in relevant(name)]
    rest = {name: choices[0] for name, choices in SETTINGS.items() if name not in names}
    found = {}
    for chosen in product(*(SETTINGS[name] for name in names)):
        flags, made = parts({**rest, **dict(zip(names, chosen, strict=True))}, part)
        found[flags] = made[part]
    return found


@cache
def relevant(name: str) -> frozenset[str]:
    """The parts that change with a setting: tried with other settings at random."""
    rng, found = random.Random(name), set[str]()  # noqa: S311 - seeded: it makes cases, and guards nothing
    for _ in range(_TRIES):
        others = {each: rng.choice(choices) for each, choices in SETTINGS.items()}
        tried = [parts({**others, name: choice})[1] for choice in SETTINGS[name]]
        found |= {part for part in tried[0] if any(each[part] != tried[0][part] for each in tried)}
    return frozenset(found)


def _is_repeated(tree: JSON) -> bool:
    """Whether it is one of the bindings that there is one of in each namespace, but not the first of them."""
    is_binding = tree["kind"] == "RoleBinding" and tree["roleRef"]["kind"] == "ClusterRole"
    return bool(is_binding and tree["metadata"]["namespace"] != MANAGED)


def _marked(tree: Any, names: list[str]) -> Any:
    """A tree with marks for what is no copied text: numbers, lists, and what is computed from the configuration."""
    if isinstance(tree, dict):
        return {key: _mark(key, value) or _marked(value, names) for key, value in tree.items()}
    if isinstance(tree, list):
        if names and tree == names:
            return "@@namespaces@@"
        if tree == [{"ipBlock": {"cidr": CIDR}}]:
            return "@@callers@@"
        return [_marked(each, names) for each in tree]
    return tree


def _mark(key: str, value: Any) -> str:
    if key == CONFIGURATION_FILE:
        return "@@configuration@@"
    if key == CONFIGURATION_DIGEST:
        return "@@digest@@"
    if key == "timeoutSeconds" and value == _TIMEOUT:
        return "@@timeout@@"
    return "@@replicas@@" if key == "replicas" and value == REPLICAS else ""
