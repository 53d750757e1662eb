"""The topology constraints by which a workload is kept level. Pure.

1. Those of its template.
2. Where that states none, those that admission added to its pods.
3. Where these have none either, the default constraints of the scheduler that its pods name. An operator's empty list
   of default constraints means that such workloads are not kept level.

Of more than `MAX_CONSTRAINTS` so many count, hard ones first: each is evaluated for all nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from trimtab.api import codec, selectors
from trimtab.api.documents import Document
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector
from trimtab.api.model import Model
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.api.pods import Pod, TopologySpreadConstraint
from trimtab.api.selectors import Selector
from trimtab.ranking.defaulted import admitted_constraints
from trimtab.ranking.rankers import Constraint
from trimtab.snapshot import Snapshot
from trimtab.snapshot.nodes import ABSENT


def zones_and_nodes(_: str) -> tuple[Constraint, ...]:
    """The topologies of every cluster, whatever the scheduler."""
    return (Constraint(ZONE), Constraint(HOSTNAME))


MAX_CONSTRAINTS = 16
_HARD = "DoNotSchedule"


class _TemplateSpec(Model):
    scheduler_name: str = ""
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()


class _Template(Model):
    spec: _TemplateSpec = _TemplateSpec()


def stated_constraints(template: Document | None, pods: Iterable[Pod]) -> tuple[TopologySpreadConstraint, ...]:
    """The constraints that a template states; where it states none, those that admission added to its pods."""
    return template_constraints(template) or admitted_constraints(pods)


def constraints_for(
    template: Document | None,
    snapshot: Snapshot,
    defaults: Sequence[Constraint],
    labels: Mapping[str, str] | None = None,
    pods: Iterable[Pod] = (),
) -> tuple[Constraint, ...]:
    """The constraints of a workload with these pods, which have these labels.

    The first one is never traded for a later one, so hard constraints come before soft ones, and of those, coarse ones
    (zones) before fine ones (nodes). A key that no node has is left out.
    """
    stated = compiled(_considered(stated_constraints(template, pods)), labels)
    by_key = _strictest(stated or defaults)
    domains = {key: _domains(snapshot, key) for key in by_key}
    known = [each for key, each in by_key.items() if domains[key]]
    return tuple(sorted(known, key=lambda each: (not each.hard, domains[each.topology_key])))


def _considered(stated: Sequence[TopologySpreadConstraint]) -> Sequence[TopologySpreadConstraint]:
    if len(stated) <= MAX_CONSTRAINTS:
        return stated
    return sorted(stated, key=lambda each: each.when_unsatisfiable != _HARD)[:MAX_CONSTRAINTS]


def excess(stated: Sequence[TopologySpreadConstraint]) -> str:
    """Which of these constraints of a workload do not count; empty if all do."""
    if len(stated) <= MAX_CONSTRAINTS:
        return ""
    return (
        f"topologySpreadConstraints: has {len(stated):,}, of which {MAX_CONSTRAINTS} are kept to on a scale-down, "
        "hard ones first"
    )


def compiled(
    constraints: Iterable[TopologySpreadConstraint], labels: Mapping[str, str] | None = None
) -> tuple[Constraint, ...]:
    """Constraints as they apply to pods with these labels."""
    return tuple(_constraint(each, labels or {}) for each in constraints)


def _strictest(constraints: Iterable[Constraint]) -> dict[str, Constraint]:
    """One constraint for each topology key: a hard one before a soft one, then the one with the smaller maxSkew."""
    found: dict[str, Constraint] = {}
    for each in constraints:
        known = found.get(each.topology_key)
        if known is None or (not each.hard, each.max_skew) < (not known.hard, known.max_skew):
            found[each.topology_key] = each
    return found


def _constraint(stated: TopologySpreadConstraint, labels: Mapping[str, str]) -> Constraint:
    return Constraint(
        topology_key=stated.topology_key,
        max_skew=stated.max_skew,
        hard=stated.when_unsatisfiable == _HARD,
        selector=_selector(stated, labels),
        min_domains=stated.min_domains or 0,
        honor_affinity=stated.node_affinity_policy != "Ignore",
        honor_taints=stated.node_taints_policy == "Honor",
    )


def _selector(stated: TopologySpreadConstraint, labels: Mapping[str, str]) -> Selector | None:
    """The pods that a constraint counts: `labelSelector` and the pods' own values of `matchLabelKeys`.

    None, which means the workload's own pods, where there is no selector: for the scheduler such a constraint counts no
    pod at all, and keeping the workload level is what its author meant.
    """
    written = stated.label_selector
    if written is None:
        return None
    own = {key: labels[key] for key in stated.match_label_keys if key in labels}
    try:
        selector = selectors.compile(
            LabelSelector(match_labels={**own, **written.match_labels}, match_expressions=written.match_expressions)
        )
    except InvalidError:
        return None
    return None if selector.empty else selector


def template_constraints(template: Document | None) -> tuple[TopologySpreadConstraint, ...]:
    """The constraints that a template states; none where it cannot be read."""
    return _spec(template).topology_spread_constraints


def scheduler_name(template: Document | None) -> str:
    """The scheduler that a template names; empty for the cluster's default, or where it cannot be read."""
    return _spec(template).scheduler_name


def _spec(template: Document | None) -> _TemplateSpec:
    try:
        return _TemplateSpec() if template is None else codec.view(template, _Template).spec
    except InvalidError:
        return _TemplateSpec()


def _domains(snapshot: Snapshot, topology_key: str) -> int:
    codes = set(snapshot.nodes.codes(topology_key)[snapshot.nodes.known].tolist())
    return len(codes - {ABSENT})
