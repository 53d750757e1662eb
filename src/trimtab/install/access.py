"""What each component may do: exactly what its code calls, and no more.

`ACCESS` is the table; a test runs the components, records every call, and holds the table to the record both ways: no
call that it does not allow, no permission that nothing needs. What concerns Trimtab's own objects (leases, the
certificate) is granted in its own namespace alone, and where RBAC can name single objects, by name.

Where the configuration names the namespaces to look after, nothing is written in any other, and may not be: the whole
cluster is then read only. Reading it is needed: whoever is on a node takes room there, whosever pod it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.documents import JSON
from trimtab.install.options import NAME, Options, account

READ = ("list", "watch")
_READING = frozenset({"get", *READ})


@dataclass(frozen=True, slots=True)
class Permission:
    """Some verbs on some resources of one group; `names` limits it to single objects."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def rule(self) -> JSON:
        """As RBAC writes it."""
        rule: JSON = {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
        return rule | ({"resourceNames": list(self.names)} if self.names else {})

    def narrowed(self, *, reading: bool) -> Iterator[Permission]:
        """What of it is reading, or what is not; nothing, where there is no such thing."""
        verbs = tuple(verb for verb in self.verbs if (verb in _READING) == reading)
        if verbs:
            yield replace(self, verbs=verbs)


def _nothing(_: TrimtabConfiguration) -> Sequence[Permission]:
    return ()


@dataclass(frozen=True, slots=True)
class Access:
    """What a component may do in the whole cluster, and in Trimtab's own namespace.

    `named` are permissions in the cluster for single objects, which the configuration names.
    """

    cluster: Sequence[Permission]
    own: Callable[[TrimtabConfiguration], Sequence[Permission]]
    named: Callable[[TrimtabConfiguration], Sequence[Permission]] = _nothing


def _leases(name: str) -> tuple[Permission, Permission]:
    """Leader election on one lease. Creation cannot be limited by name: the name is not known to RBAC then."""
    return (
        Permission("coordination.k8s.io", ("leases",), ("create",)),
        Permission("coordination.k8s.io", ("leases",), ("get", "update"), names=(name,)),
    )


def _scheduler_lease(configuration: TrimtabConfiguration) -> Sequence[Permission]:
    stated = configuration.scheduler if isinstance(configuration.scheduler, Mapping) else {}
    return _leases((stated.get("leaderElection") or {}).get("resourceName", "trimtab-scheduler"))


def _certificate(configuration: TrimtabConfiguration) -> Sequence[Permission]:
    given = configuration.webhooks.certificates
    if given.source == "Files":
        return ()
    return (
        Permission("", ("secrets",), ("create",)),
        Permission("", ("secrets",), ("get", "patch"), names=(given.stored_in,)),
    )


def _registration(configuration: TrimtabConfiguration) -> Sequence[Permission]:
    if configuration.webhooks.certificates.source == "Files":
        return ()
    kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    name = configuration.webhooks.registered_as
    return (Permission("admissionregistration.k8s.io", kinds, ("get", "patch"), names=(name,)),)


_EVENTS = Permission("", ("events",), ("create", "patch"))
_USAGE = Permission("metrics.k8s.io", ("pods",), ("list",))
"""For the strategy Idle."""
_TOLD = Permission("trimtab.dev", ("scaledownpolicies/status",), ("patch",))
_COUNTED = Permission("apps.kruise.io", ("unitedtopologies/status",), ("patch",))

ACCESS: Mapping[str, Access] = {
    "scheduler": Access(
        cluster=(
            Permission("", ("nodes", "namespaces", "services", "replicationcontrollers"), READ),
            Permission("apps", ("replicasets", "statefulsets"), READ),
            Permission("", ("pods",), ("get", *READ)),
            Permission("", ("pods/binding",), ("create",)),
            Permission("", ("pods/status",), ("patch",)),
            _EVENTS,
        ),
        own=_scheduler_lease,
    ),
    "webhooks": Access(
        cluster=(
            Permission("", ("namespaces",), READ),
            Permission("", ("nodes", "replicationcontrollers"), ("get", *READ)),
            Permission("", ("pods",), ("get", *READ, "patch")),
            Permission("apps", ("deployments", "replicasets"), ("get", *READ)),
            Permission("apps.kruise.io", ("clonesets", "unitedtopologies"), ("get", *READ)),
            _COUNTED,
            Permission("trimtab.dev", ("scaledownpolicies",), READ),
            _TOLD,
            _USAGE,
            _EVENTS,
        ),
        own=lambda configuration: (*_leases("trimtab-webhooks"), *_certificate(configuration)),
        named=_registration,
    ),
    "controllers": Access(
        cluster=(
            Permission("", ("nodes", "replicationcontrollers"), READ),
            Permission("", ("namespaces",), (*READ, "patch")),
            Permission("", ("pods",), ("get", *READ, "create", "patch", "delete")),
            Permission("apps", ("deployments", "replicasets"), READ),
            Permission("apps", ("controllerrevisions",), ("get", *READ, "create", "patch", "delete")),
            Permission("apps.kruise.io", ("clonesets", "unitedtopologies"), ("get", *READ)),
            Permission("apps.kruise.io", ("clonesets/status",), ("patch",)),
            Permission("apps.kruise.io", ("clonesets/finalizers",), ("update",)),
            _COUNTED,
            Permission("trimtab.dev", ("scaledownpolicies",), READ),
            _TOLD,
            Permission("trimtab.dev", ("podgroupcosts",), (*READ, "create", "patch", "delete")),
            Permission("apiextensions.k8s.io", ("customresourcedefinitions",), READ),
            _USAGE,
            Permission("", ("events",), ("create", "patch", "list")),
        ),
        own=lambda _: _leases("trimtab-controllers"),
    ),
}


def manifests(options: Options) -> Iterator[JSON]:
    """Roles and bindings of the components, and roles for people who write our kinds."""
    configuration = options.read()
    for component in options.components:
        access = ACCESS[component]
        name = account(component)
        cluster, within = _shared_out(access.cluster, configuration.namespaces)
        yield _role("ClusterRole", {"name": name}, [*cluster, *access.named(configuration)], options)
        yield _binding("ClusterRoleBinding", {"name": name}, "ClusterRole", component, options)
        if within:
            writing = f"{name}-writing"
            yield _role("ClusterRole", {"name": writing}, within, options)
            for namespace in dict.fromkeys(configuration.namespaces):
                there = {"name": writing, "namespace": namespace}
                yield _binding("RoleBinding", there, "ClusterRole", component, options, role_name=writing)
        own = {"name": name, "namespace": options.namespace}
        yield _role("Role", own, access.own(configuration), options)
        yield _binding("RoleBinding", own, "Role", component, options)
    yield from _for_people(options)


def _shared_out(
    permissions: Sequence[Permission], namespaces: Sequence[str]
) -> tuple[Sequence[Permission], Sequence[Permission]]:
    """What is granted in the whole cluster, and what in the namespaces that are looked after alone, if there are such.

    Namespaces are objects of the cluster; those that may be written to are named one by one.
    """
    if not namespaces:
        return permissions, ()
    cluster = [part for each in permissions for part in each.narrowed(reading=True)]
    writing = [part for each in permissions for part in each.narrowed(reading=False)]
    themselves = [replace(each, names=tuple(namespaces)) for each in writing if each.resources == ("namespaces",)]
    return [*cluster, *themselves], [each for each in writing if each.resources != ("namespaces",)]


def _role(kind: str, metadata: JSON, permissions: Sequence[Permission], options: Options) -> JSON:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata | {"labels": options.labels()},
        "rules": [permission.rule() for permission in permissions],
    }


def _binding(kind: str, metadata: JSON, role: str, component: str, options: Options, *, role_name: str = "") -> JSON:
    subject = {"kind": "ServiceAccount", "name": account(component), "namespace": options.namespace}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata | {"labels": options.labels(component)},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": role_name or account(component)},
        "subjects": [subject],
    }


_KINDS = (
    ("trimtab.dev", ("scaledownpolicies", "podgroupcosts")),
    ("apps.kruise.io", ("unitedtopologies", "clonesets", "clonesets/scale")),
)
_VERBS: Mapping[str, tuple[str, ...]] = {
    "view": ("get", "list", "watch"),
    "edit": ("create", "update", "patch", "delete", "deletecollection"),
}


def _for_people(options: Options) -> Iterator[JSON]:
    """Who may view or edit in a namespace may view or edit our kinds there."""
    for word, verbs in _VERBS.items():
        role = _role(
            "ClusterRole",
            {"name": f"{NAME}-{word}"},
            [Permission(group, resources, verbs) for group, resources in _KINDS],
            options,
        )
        role["metadata"]["labels"] |= {f"rbac.authorization.k8s.io/aggregate-to-{word}": "true"}
        if word == "edit":
            role["metadata"]["labels"] |= {"rbac.authorization.k8s.io/aggregate-to-admin": "true"}
        yield role
