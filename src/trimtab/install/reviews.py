"""The webhook configurations: which requests API servers send to Trimtab, in which namespaces, and their timeouts.

Every request is admitted if Trimtab is down or late (`failurePolicy: Ignore`). kube-system and Trimtab's own namespace
are exempt and, if the configuration names namespaces, so are all others.

API servers from 1.30 filter with `matchConditions`, so that only relevant requests are sent at all. The lab's API
server has none; Trimtab admits the requests that these conditions exclude at once.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trimtab.admission import validation
from trimtab.api.annotations import (
    DEFAULT_CONSTRAINTS,
    DEFAULTED,
    NAMESPACE_LABEL,
    NAMESPACE_LABEL_VALUE,
    NOT_DEFAULTED,
)
from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.documents import JSON
from trimtab.defaulting import reviews as default_constraints
from trimtab.install import certificates
from trimtab.install.options import Options
from trimtab.scaledown.intent import reviews
from trimtab.unitedtopology.admission import deletion_reviews, pod_reviews

MUTATING = "MutatingWebhookConfiguration"
VALIDATING = "ValidatingWebhookConfiguration"

ClientConfig = Callable[[str], JSON]
"""The `clientConfig` for a path."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Some operations on some resources of one group."""

    group: str
    version: str
    resources: tuple[str, ...]
    operations: tuple[str, ...]

    def tree(self) -> JSON:
        """The rule as it is in a webhook configuration."""
        return {
            "apiGroups": [self.group],
            "apiVersions": [self.version],
            "resources": list(self.resources),
            "operations": list(self.operations),
            "scope": "Namespaced",
        }


@dataclass(frozen=True, slots=True)
class Review:
    """One webhook: its requests, its path, and how many seconds an answer may take."""

    name: str
    path: str
    kind: str
    rules: tuple[Rule, ...]
    budget: Callable[[TrimtabConfiguration], float]
    side_effects: str = "None"
    labelled: Mapping[str, str] | None = None
    """Labels that a namespace must have for its requests to be sent."""
    conditions: tuple[tuple[str, str], ...] = ()
    is_enabled: Callable[[TrimtabConfiguration], bool] = lambda _: True
    """Whether a configuration has the webhook."""
    without: Callable[[TrimtabConfiguration], str] = lambda _: ""
    """The label without which a namespace must be; empty for none. Its requests come through another webhook."""
    exempt_objects: Mapping[str, str] | None = None
    """Labels of objects whose requests are not sent."""
    more_rules: Callable[[TrimtabConfiguration], Sequence[Rule]] = lambda _: ()
    """The rules of kinds that a configuration names."""
    more_conditions: Callable[[TrimtabConfiguration], Sequence[tuple[str, str]]] = lambda _: ()
    """The conditions that depend on a configuration."""


_SHRINKS = "object.spec.?replicas.orValue(0) < oldObject.spec.?replicas.orValue(0)"


def _not_by_its_owner(configuration: TrimtabConfiguration) -> Sequence[tuple[str, str]]:
    """A ReplicaSet that its Deployment, or another workload that owns it, resizes is not sent."""
    owners = ["o.kind == 'Deployment'"]
    owners += [
        f"(o.kind == '{each.kind}' && o.apiVersion.startsWith('{each.group}/'))" for each in configuration.workloads
    ]
    is_owner = owners[0] if len(owners) == 1 else f"({' || '.join(owners)})"
    text = (
        "request.resource.resource != 'replicasets' || request.?subResource.orValue('') == 'scale' || "
        f"!oldObject.metadata.?ownerReferences.orValue([]).exists(o, {is_owner} && o.?controller.orValue(false))"
    )
    return (("not-by-its-owner", text),)


def _named_workloads(configuration: TrimtabConfiguration) -> Sequence[Rule]:
    """The workloads that a configuration names, whichever version a client uses."""
    return [
        Rule(each.group, "*", (each.plural, f"{each.plural}/scale"), ("UPDATE",)) for each in configuration.workloads
    ]


_WITH_TOPOLOGY = {NAMESPACE_LABEL: NAMESPACE_LABEL_VALUE}
"""The label of namespaces with a UnitedTopology; its controller writes it."""

_STATES_NO_CONSTRAINTS = "object.spec.?topologySpreadConstraints.orValue([]).size() == 0"
_IS_SPREAD = (
    "!object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) && "
    "(o.kind == 'DaemonSet' || o.kind == 'Job'))"
)


def _has_subsets(configuration: TrimtabConfiguration) -> bool:
    return configuration.gate("PodWebhook")


REVIEWS: Sequence[Review] = (
    Review(
        name=reviews.NAME,
        path=reviews.PATH,
        kind=VALIDATING,
        rules=(
            Rule("apps", "v1", ("deployments", "deployments/scale", "replicasets", "replicasets/scale"), ("UPDATE",)),
            Rule("", "v1", ("replicationcontrollers", "replicationcontrollers/scale"), ("UPDATE",)),
            Rule("apps.kruise.io", "*", ("clonesets", "clonesets/scale"), ("UPDATE",)),
        ),
        budget=lambda configuration: configuration.scale_down.budget_seconds,
        side_effects="NoneOnDryRun",
        conditions=(("it-shrinks", _SHRINKS),),
        more_rules=_named_workloads,
        more_conditions=_not_by_its_owner,
    ),
    Review(
        name="validation",
        path=validation.PATH,
        kind=VALIDATING,
        rules=(
            Rule("apps.kruise.io", "*", ("unitedtopologies",), ("CREATE", "UPDATE")),
            Rule("trimtab.dev", "*", ("scaledownpolicies",), ("CREATE", "UPDATE")),
        ),
        budget=lambda _: validation.BUDGET,
    ),
    Review(
        name=pod_reviews.NAME,
        path=pod_reviews.PATH,
        kind=MUTATING,
        rules=(Rule("", "v1", ("pods",), ("CREATE",)),),
        budget=lambda _: pod_reviews.BUDGET,
        side_effects="NoneOnDryRun",
        labelled=_WITH_TOPOLOGY,
        is_enabled=_has_subsets,
    ),
    Review(
        name=default_constraints.NAME,
        path=pod_reviews.PATH,
        kind=MUTATING,
        rules=(Rule("", "v1", ("pods",), ("CREATE",)),),
        budget=lambda _: pod_reviews.BUDGET,
        labelled={DEFAULT_CONSTRAINTS: DEFAULTED},
        conditions=(("states-no-constraints", _STATES_NO_CONSTRAINTS), ("is-spread", _IS_SPREAD)),
        is_enabled=lambda configuration: configuration.defaults_at_admission,
        without=lambda configuration: NAMESPACE_LABEL if _has_subsets(configuration) else "",
        exempt_objects={DEFAULT_CONSTRAINTS: NOT_DEFAULTED},
    ),
    Review(
        name=deletion_reviews.NAME,
        path=deletion_reviews.PATH,
        kind=VALIDATING,
        rules=(Rule("", "v1", ("pods",), ("DELETE",)), Rule("", "v1", ("pods/eviction",), ("CREATE",))),
        budget=lambda _: deletion_reviews.BUDGET,
        side_effects="NoneOnDryRun",
        labelled=_WITH_TOPOLOGY,
        is_enabled=_has_subsets,
    ),
)
"""Every webhook. A test compares them with the hooks that the webhooks component serves.

Pods of a namespace with a UnitedTopology and default constraints are sent once: to `pods`, which adds both.
"""

CLONESETS = Review(
    name="clonesets",
    path=validation.PATH,
    kind=VALIDATING,
    rules=(Rule("apps.kruise.io", "*", ("clonesets",), ("CREATE", "UPDATE")),),
    budget=lambda _: validation.BUDGET,
)
"""Validation of CloneSets, if the kind is Trimtab's: OpenKruise's have fields that ours refuse."""


def manifests(options: Options) -> Iterator[JSON]:
    """The configurations of an installation, which name its Service; none, if it has no webhooks.

    The running webhooks fill in `caBundle`, unless an administrator or cert-manager manages the certificates.
    """
    if "webhooks" in options.components:
        configuration = options.read()
        yield from configurations(
            configuration,
            _with_ca_bundle(_by_service(configuration), options.ca_bundle),
            labels=options.labels(),
            annotations=certificates.injection(options),
            exempt=("kube-system", options.namespace),
            clonesets=options.clonesets,
        )


def configurations(
    configuration: TrimtabConfiguration,
    client: ClientConfig,
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str] | None = None,
    exempt: Sequence[str] = ("kube-system",),
    clonesets: bool = True,
) -> Iterator[JSON]:
    """A configuration for each kind of webhook; `clonesets` is whether the kind CloneSet is Trimtab's."""
    for kind in (MUTATING, VALIDATING):
        webhooks = [
            _webhook(review, configuration, client, exempt)
            for review in (*REVIEWS, *([CLONESETS] if clonesets else []))
            if review.kind == kind and review.is_enabled(configuration)
        ]
        if webhooks:
            metadata: JSON = {"name": configuration.webhooks.registered_as, "labels": dict(labels)}
            yield {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": metadata | ({"annotations": dict(annotations)} if annotations else {}),
                "webhooks": webhooks,
            }


def by_url(url: str) -> ClientConfig:
    """Webhooks that are called by URL, as in the lab."""
    return lambda path: {"url": f"{url}{path}"}


def _by_service(configuration: TrimtabConfiguration) -> ClientConfig:
    if configuration.webhooks.url:
        return by_url(configuration.webhooks.url)
    service = {"namespace": configuration.namespace, "name": configuration.webhooks.service, "port": 443}
    return lambda path: {"service": {**service, "path": path}}


def _with_ca_bundle(client: ClientConfig, ca_bundle: bytes) -> ClientConfig:
    if not ca_bundle:
        return client
    return lambda path: {**client(path), "caBundle": base64.b64encode(ca_bundle).decode()}


def _webhook(review: Review, configuration: TrimtabConfiguration, client: ClientConfig, exempt: Sequence[str]) -> JSON:
    webhook: JSON = {
        "name": f"{review.name}.trimtab.dev",
        "clientConfig": client(review.path),
        "rules": [rule.tree() for rule in (*review.rules, *review.more_rules(configuration))],
        "failurePolicy": "Ignore",
        "sideEffects": review.side_effects,
        "timeoutSeconds": _timeout(review.budget(configuration)),
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": _namespaces(review, configuration, exempt),
    }
    if review.exempt_objects:
        expressions = [
            {"key": key, "operator": "NotIn", "values": [value]} for key, value in review.exempt_objects.items()
        ]
        webhook["objectSelector"] = {"matchExpressions": expressions}
    if review.kind == MUTATING:
        webhook["reinvocationPolicy"] = "Never"  # a second review would take as long again
    conditions = (*review.conditions, *review.more_conditions(configuration))
    if conditions:
        webhook["matchConditions"] = [{"name": name, "expression": text} for name, text in conditions]
    return webhook


def _timeout(budget: float) -> int:
    """Whole seconds that leave time for the way there and back: one, if the budget is well within it."""
    return 1 if budget < 1 else math.ceil(budget) + 1


def _namespaces(review: Review, configuration: TrimtabConfiguration, exempt: Sequence[str]) -> JSON:
    name = "kubernetes.io/metadata.name"
    expressions: list[JSON] = [{"key": name, "operator": "NotIn", "values": list(dict.fromkeys(exempt))}]
    if configuration.namespaces:
        expressions.append({"key": name, "operator": "In", "values": list(configuration.namespaces)})
    without = review.without(configuration)
    if without:
        expressions.append({"key": without, "operator": "NotIn", "values": [NAMESPACE_LABEL_VALUE]})
    selector: JSON = {"matchExpressions": expressions}
    return selector | ({"matchLabels": dict(review.labelled)} if review.labelled else {})
