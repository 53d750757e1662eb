"""The pod webhook: default constraints and subsets, each if it is configured, in one review with one budget.

Default constraints come first: the simulation of subsets then sees the pod as it will be scheduled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trimtab.admission.chains import chain
from trimtab.admission.server import Hook, OnSkip
from trimtab.api.apps import ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.core import Namespace, ReplicationController, Service
from trimtab.api.errors import InvalidError
from trimtab.app.dependencies import Dependencies
from trimtab.defaulting.metrics import Metrics
from trimtab.defaulting.owners import Owners
from trimtab.defaulting.reviews import DefaultingReviews
from trimtab.defaulting.rules import Rule, read_rules
from trimtab.kube.informers import Informer
from trimtab.scaledown.view import View
from trimtab.unitedtopology.admission import pod_reviews


def rules(configuration: TrimtabConfiguration) -> tuple[Rule, ...]:
    """The default constraints of namespaces; none without Admission. Raises InvalidError with the field."""
    try:
        found = read_rules(configuration.default_constraints)
    except InvalidError as error:
        raise error.under("defaultConstraints") from None
    return found if configuration.defaults_at_admission else ()


class Defaulting:
    """Default constraints at admission, and the caches that they need beside those of scale-downs."""

    def __init__(self, dependencies: Dependencies, view: View, services: Informer[Service] | None) -> None:
        """`services` is a cache that others run, where there is one."""
        caches: dict[type[Any], Informer[Any]] = {
            ReplicaSet: view.sets,
            ReplicationController: view.replicators,
            CloneSet: view.clonesets,
            Namespace: view.namespaces,
        }
        if services is not None:
            caches[Service] = services
        self.owners = Owners(dependencies.client, caches)
        metrics = Metrics(dependencies.registry)
        self.hook = DefaultingReviews(self.owners, rules(dependencies.configuration), metrics=metrics).hook


def pod_hooks(defaulting: Defaulting | None, subsets: Sequence[Hook], on_skip: OnSkip) -> list[Hook]:
    """All hooks of subsets and default constraints; the two that review new pods as one."""
    if defaulting is None:
        return list(subsets)
    steps = [defaulting.hook, *(hook for hook in subsets if hook.path == pod_reviews.PATH)]
    others = [hook for hook in subsets if hook.path != pod_reviews.PATH]
    return [chain(pod_reviews.NAME, pod_reviews.PATH, steps, on_skip), *others]
