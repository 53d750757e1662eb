"""The permissions of each component: exactly what its code calls, and no more.

`ACCESS` is the table. A test runs the components, records every call, and compares both ways: no call without a
permission, no permission without a call. Permissions for Trimtab's own objects (leases, the certificate) are granted in
its own namespace only and, where RBAC allows, by object name.

If the configuration names namespaces, writing is granted in these only; the whole cluster is then read-only. Reading is
needed everywhere: every pod on a node uses its resources.

RBAC can neither exclude a namespace nor limit a patch to one label. What the controllers do not need of these
permissions (pods in kube-system, all of a namespace but one label), admission policies refuse: see `privileges`. The
webhooks create pods as dry runs only, which a policy of the same kind ensures.
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
    """Some verbs on some resources of one group; `names` limits them to single objects."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def rule(self) -> JSON:
        """The permission as an RBAC rule."""
        rule: JSON = {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
        return rule | ({"resourceNames": list(self.names)} if self.names else {})

    def narrowed(self, *, reading: bool) -> Iterator[Permission]:
        """The part of it that reads, or the part that writes; empty if there is none."""
        verbs = tuple(verb for verb in self.verbs if (verb in _READING) == reading)
        if verbs:
            yield replace(self, verbs=verbs)


def _nothing(_: TrimtabConfiguration) -> Sequence[Permission]:
    return ()


@dataclass(frozen=True, slots=True)
class Access:
    """The permissions of a component in the whole cluster, and in Trimtab's own namespace.

    `named` are cluster-wide permissions for single objects that the configuration names; `optional` those in the whole
    cluster that only some configurations need.
    """

    cluster: Sequence[Permission]
    own: Callable[[TrimtabConfiguration], Sequence[Permission]]
    named: Callable[[TrimtabConfiguration], Sequence[Permission]] = _nothing
    optional: Callable[[TrimtabConfiguration], Sequence[Permission]] = _nothing


def _leases(name: str) -> tuple[Permission, Permission]:
    """Leader election on one lease. RBAC cannot limit creation by name."""
    return (
        Permission("coordination.k8s.io", ("leases",), ("create",)),
        Permission("coordination.k8s.io", ("leases",), ("get", "update"), names=(name,)),
    )


def _scheduler_lease(configuration: TrimtabConfiguration) -> Sequence[Permission]:
    scheduler = configuration.scheduler if isinstance(configuration.scheduler, Mapping) else {}
    return _leases((scheduler.get("leaderElection") or {}).get("resourceName", "trimtab-scheduler"))


def _certificate(configuration: TrimtabConfiguration) -> Sequence[Permission]:
    settings = configuration.webhooks.certificates
    if settings.source != "Managed":
        return ()
    return (
        Permission("", ("secrets",), ("create",)),
        Permission("", ("secrets",), ("get", "patch"), names=(settings.stored_in,)),
    )


def _registration(configuration: TrimtabConfiguration) -> Sequence[Permission]:
    """Reading is for the call to ourselves, writing for the CA bundle."""
    verbs = ("get", "patch") if configuration.webhooks.certificates.source == "Managed" else ("get",)
    kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    name = configuration.webhooks.registered_as
    return (Permission("admissionregistration.k8s.io", kinds, verbs, names=(name,)),)


def _workloads(configuration: TrimtabConfiguration, *verbs: str) -> Iterator[Permission]:
    """The kinds that a configuration names, which are read and never written."""
    for each in configuration.workloads:
        yield Permission(each.group, (each.plural,), verbs)


def _default_constraints(configuration: TrimtabConfiguration) -> Sequence[Permission]:
    """Default constraints at admission: single reads are for controllers and namespaces that are not cached yet."""
    if not configuration.defaults_at_admission:
        return ()
    return (Permission("", ("namespaces",), ("get",)), Permission("apps", ("statefulsets",), ("get", *READ)))


_EVENTS = Permission("", ("events",), ("create", "patch"))
_USAGE = Permission("metrics.k8s.io", ("pods",), ("list",))
"""For the strategy Idle."""
_POLICY_STATUS = Permission("trimtab.dev", ("scaledownpolicies/status",), ("patch",))
_TOPOLOGY_STATUS = Permission("apps.kruise.io", ("unitedtopologies/status",), ("patch",))

_REVIEWS = (
    Permission("authentication.k8s.io", ("tokenreviews",), ("create",)),
    Permission("authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
)
"""For the dashboard: who its callers are, and what they may list. Nothing is stored by them."""

ACCESS: Mapping[str, Access] = {
    "scheduler": Access(
        cluster=(
            Permission("", ("nodes", "namespaces", "services", "replicationcontrollers"), READ),
            Permission("apps", ("replicasets", "statefulsets"), READ),
            Permission("apps.kruise.io", ("clonesets",), READ),
            Permission("", ("pods",), ("get", *READ)),
            Permission("", ("pods/binding",), ("create",)),
            Permission("", ("pods/status",), ("patch",)),
            _EVENTS,
        ),
        own=_scheduler_lease,
    ),
    "webhooks": Access(
        cluster=(
            Permission("", ("namespaces", "services"), READ),
            Permission("", ("nodes", "replicationcontrollers"), ("get", *READ)),
            Permission("", ("pods",), ("get", *READ, "create", "patch")),
            Permission("apps", ("deployments", "replicasets"), ("get", *READ)),
            Permission("apps", ("statefulsets",), READ),
            Permission("apps.kruise.io", ("clonesets", "unitedtopologies"), ("get", *READ)),
            _TOPOLOGY_STATUS,
            Permission("trimtab.dev", ("scaledownpolicies", "podgroupcosts"), READ),
            _POLICY_STATUS,
            _USAGE,
            _EVENTS,
        ),
        own=lambda configuration: (*_leases("trimtab-webhooks"), *_certificate(configuration)),
        named=_registration,
        optional=lambda configuration: (
            *_default_constraints(configuration),
            *_workloads(configuration, "get", *READ),
        ),
    ),
    "controllers": Access(
        cluster=(
            Permission("", ("nodes", "replicationcontrollers", "services"), READ),
            Permission("", ("namespaces",), (*READ, "patch")),
            Permission("", ("pods",), ("get", *READ, "create", "patch", "delete")),
            Permission("", ("pods/eviction",), ("create",)),
            Permission("apps", ("deployments", "replicasets", "statefulsets"), READ),
            Permission("apps", ("controllerrevisions",), ("get", *READ, "create", "patch", "delete")),
            Permission("apps.kruise.io", ("clonesets", "unitedtopologies"), ("get", *READ)),
            Permission("apps.kruise.io", ("clonesets/status",), ("patch",)),
            Permission("apps.kruise.io", ("clonesets/finalizers",), ("update",)),
            _TOPOLOGY_STATUS,
            Permission("trimtab.dev", ("scaledownpolicies",), READ),
            _POLICY_STATUS,
            Permission("trimtab.dev", ("podgroupcosts",), (*READ, "create", "patch", "delete")),
            Permission("apiextensions.k8s.io", ("customresourcedefinitions",), READ),
            _USAGE,
            Permission("", ("events",), ("create", "patch", "list")),
        ),
        own=lambda _: _leases("trimtab-controllers"),
        optional=lambda configuration: tuple(_workloads(configuration, *READ)),
    ),
    "dashboard": Access(
        cluster=(
            Permission("", ("nodes", "pods", "namespaces", "replicationcontrollers", "services"), READ),
            Permission("apps", ("deployments", "replicasets", "statefulsets"), READ),
            Permission("apps.kruise.io", ("clonesets", "unitedtopologies"), READ),
            Permission("trimtab.dev", ("scaledownpolicies", "podgroupcosts"), READ),
        ),
        own=_nothing,
        named=lambda _: _REVIEWS,
    ),
}


def manifests(options: Options) -> Iterator[JSON]:
    """Roles and bindings of the components, and roles for users of our kinds."""
    configuration = options.read()
    for component in options.components:
        access = ACCESS[component]
        name, scoped = account(component), options.scoped(account(component))
        permissions = (*access.cluster, *access.optional(configuration))
        cluster, within = _by_scope(permissions, configuration.namespaces)
        yield _role("ClusterRole", {"name": scoped}, [*cluster, *access.named(configuration)], options)
        yield _binding("ClusterRoleBinding", {"name": scoped}, "ClusterRole", component, options)
        if within:
            writing = options.scoped(f"{name}-writing")
            yield _role("ClusterRole", {"name": writing}, within, options)
            for namespace in dict.fromkeys(configuration.namespaces):
                yield _binding(
                    "RoleBinding", {"name": writing, "namespace": namespace}, "ClusterRole", component, options
                )
        own = {"name": name, "namespace": options.namespace}
        if access.own(configuration):
            yield _role("Role", own, access.own(configuration), options)
            yield _binding("RoleBinding", own, "Role", component, options)
    yield from _user_roles(options)


def _by_scope(
    permissions: Sequence[Permission], namespaces: Sequence[str]
) -> tuple[Sequence[Permission], Sequence[Permission]]:
    """The permissions for the whole cluster, and those for the configured namespaces only, if some are configured.

    Namespaces are cluster-scoped; those that may be written to are listed by name.
    """
    if not namespaces:
        return permissions, ()
    cluster = [part for each in permissions for part in each.narrowed(reading=True)]
    writing = [part for each in permissions for part in each.narrowed(reading=False)]
    namespaces_by_name = [
        replace(each, names=tuple(namespaces)) for each in writing if each.resources == ("namespaces",)
    ]
    return [*cluster, *namespaces_by_name], [each for each in writing if each.resources != ("namespaces",)]


def _role(kind: str, metadata: JSON, permissions: Sequence[Permission], options: Options) -> JSON:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata | {"labels": options.labels()},
        "rules": [permission.rule() for permission in permissions],
    }


def _binding(kind: str, metadata: JSON, role: str, component: str, options: Options) -> JSON:
    """A binding of the role of the same name."""
    subject = {"kind": "ServiceAccount", "name": account(component), "namespace": options.namespace}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata | {"labels": options.labels(component)},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": metadata["name"]},
        "subjects": [subject],
    }


_KINDS = (
    ("trimtab.dev", ("scaledownpolicies", "podgroupcosts")),
    ("apps.kruise.io", ("unitedtopologies", "clonesets", "clonesets/scale")),
)
_COSTS = frozenset({"podgroupcosts"})
_VERBS: Mapping[str, tuple[str, ...]] = {
    "view": ("get", "list", "watch"),
    "edit": ("create", "update", "patch", "delete", "deletecollection"),
}


def _user_roles(options: Options) -> Iterator[JSON]:
    """Users who may view or edit in a namespace may view or edit our kinds there.

    A PodGroupCost decides which pods are deleted, so it may be written only where the administrator says so.
    """
    for word, verbs in _VERBS.items():
        withheld = _COSTS if word == "edit" and not options.group_cost_edits else frozenset()
        kinds = [(group, tuple(each for each in names if each not in withheld)) for group, names in _KINDS]
        role = _role(
            "ClusterRole",
            {"name": options.scoped(f"{NAME}-{word}")},
            [Permission(group, resources, verbs) for group, resources in kinds],
            options,
        )
        role["metadata"]["labels"] |= {f"rbac.authorization.k8s.io/aggregate-to-{word}": "true"}
        if word == "edit":
            role["metadata"]["labels"] |= {"rbac.authorization.k8s.io/aggregate-to-admin": "true"}
        yield role
