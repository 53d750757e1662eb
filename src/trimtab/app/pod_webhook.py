"""The pod webhook: default constraints and subsets, each if it is configured, in one review with one budget.

Default constraints come first: the simulation of subsets then sees the pod as it will be scheduled.
"""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.admission.chains import chain
from trimtab.admission.server import Hook, OnSkip
from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.errors import InvalidError
from trimtab.app.dependencies import Dependencies
from trimtab.defaulting.metrics import Metrics
from trimtab.defaulting.owners import Owners
from trimtab.defaulting.reviews import DefaultingReviews
from trimtab.defaulting.rules import Rule, read_rules
from trimtab.unitedtopology.admission import pod_reviews


def rules(configuration: TrimtabConfiguration) -> tuple[Rule, ...]:
    """The default constraints of namespaces; none without Admission. Raises InvalidError with the field."""
    try:
        found = read_rules(configuration.default_constraints)
    except InvalidError as error:
        raise error.under("defaultConstraints") from None
    return found if configuration.defaults_at_admission else ()


class Defaulting:
    """Default constraints at admission."""

    def __init__(self, dependencies: Dependencies) -> None:
        self.owners = Owners(dependencies.client, dependencies.caches)
        metrics = Metrics(dependencies.registry)
        self.hook = DefaultingReviews(self.owners, rules(dependencies.configuration), metrics=metrics).hook


def pod_hooks(defaulting: Defaulting | None, subsets: Sequence[Hook], on_skip: OnSkip) -> list[Hook]:
    """All hooks of subsets and default constraints; the two that review new pods as one."""
    if defaulting is None:
        return list(subsets)
    steps = [defaulting.hook, *(hook for hook in subsets if hook.path == pod_reviews.PATH)]
    others = [hook for hook in subsets if hook.path != pod_reviews.PATH]
    return [chain(pod_reviews.NAME, pod_reviews.PATH, steps, on_skip), *others]
