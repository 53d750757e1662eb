"""The table of rules, and a check of all of them. `docs/lint.md` is generated from this table."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.api.model import Model
from trimtab.inspection.cluster import Gap
from trimtab.inspection.lint import governing, rollouts, spreading
from trimtab.inspection.lint.findings import SEVERITIES, Finding, Rule, Severity
from trimtab.inspection.lint.world import World

RULES: tuple[Rule, ...] = (
    Rule(
        "TT001",
        "unreadable-manifest",
        Severity.ERROR,
        "A manifest has a field of the wrong type, or lacks a required one; or a file of a folder is not YAML.",
        "An API server refuses it, and no other rule can look at it.",
        "Correct the field that the message names. Render templates first: `helm template ./chart | trimtab lint -f "
        "-`.",
        governing.unreadable,
    ),
    Rule(
        "TT101",
        "surge-deadlock",
        Severity.ERROR,
        "A rollout cannot begin: no new pod fits a hard constraint while all old pods are there.",
        "With `maxUnavailable: 0` (which 25 % of fewer than four replicas comes to) an old pod goes only when a new "
        "one is ready. If the old pods leave no room under a hard constraint or required anti-affinity, none ever is.",
        "Set `maxUnavailable: 1`, add `pod-template-hash` to the constraint's `matchLabelKeys`, or make it soft.",
        rollouts.deadlocked_surges,
        needs_nodes=True,
    ),
    Rule(
        "TT102",
        "min-domains",
        Severity.WARNING,
        "A hard constraint's `minDomains` is more than the domains there are.",
        "The minimum then counts as 0, so each domain takes at most `maxSkew` pods, and the rest stay pending.",
        "Lower `minDomains` to the number of domains, or add nodes in more domains.",
        spreading.too_few_domains,
        needs_nodes=True,
    ),
    Rule(
        "TT103",
        "selector-mismatch",
        Severity.WARNING,
        "A constraint's selector does not match the labels of the template's own pods.",
        "The constraint counts other pods, or none: the pods that it places do not change what it counts, so they are "
        "not spread.",
        "Use labels of the template in `labelSelector.matchLabels`.",
        spreading.unmatched_selectors,
    ),
    Rule(
        "TT104",
        "unlabelled-nodes",
        Severity.WARNING,
        "Nodes that pods may run on have no label of the topology key.",
        "For a hard constraint such a node never gets a pod; for a soft one it is the worst choice.",
        "Label the nodes, or exclude them with a node selector.",
        spreading.unlabelled_nodes,
        needs_nodes=True,
    ),
    Rule(
        "TT105",
        "tainted-domains",
        Severity.ERROR,
        "A domain whose nodes are all tainted counts as empty for a hard constraint.",
        "By default a constraint ignores taints. The tainted domain stays at 0 pods, and the others may lead it by "
        "`maxSkew` only: every further pod stays pending.",
        "Set `nodeTaintsPolicy: Honor` in the constraint, or tolerate the taint.",
        spreading.tainted_domains,
        needs_nodes=True,
    ),
    Rule(
        "TT106",
        "distorting-revisions",
        Severity.NOTE,
        "A constraint of a Deployment counts the pods of all its revisions.",
        "During a rollout new pods are placed where few old ones are. When the old pods are gone, the new ones need "
        "not be level.",
        "Add `pod-template-hash` to the constraint's `matchLabelKeys` (Kubernetes 1.27 and later).",
        spreading.distorting_revisions,
    ),
    Rule(
        "TT201",
        "small-subsets",
        Severity.WARNING,
        "The subsets of a UnitedTopology take fewer pods than its workload has replicas.",
        "Pods beyond all maxima are admitted without a subset, on any node.",
        "Raise a maximum, or add a subset without `maxReplicas`.",
        governing.small_subsets,
    ),
    Rule(
        "TT301",
        "overlapping-policies",
        Severity.WARNING,
        "Several ScaleDownPolicies refer to one workload.",
        "Only the most specific one applies, of equals the older; the strategies of the others have no effect there.",
        "Remove one of them, or name the workload in `targetRef`.",
        governing.overlapping_policies,
    ),
    Rule(
        "TT302",
        "idle-policy",
        Severity.WARNING,
        "A ScaleDownPolicy applies to no workload.",
        "A name or a label is misspelt, the workload is gone, or its kind does not choose its victims by cost.",
        "Correct `targetRef` or `selector`, or remove the policy.",
        governing.idle_policies,
    ),
    Rule(
        "TT303",
        "unknown-mode",
        Severity.WARNING,
        "The label `trimtab.dev/scale-down` of a namespace has a value that means nothing.",
        "It is ignored: the default policies keep the mode that the configuration gives them, and nothing is exempt.",
        "Write `enforce`, `observe` or `disabled`, or remove the label.",
        governing.unknown_modes,
    ),
    Rule(
        "TT401",
        "foreign-costs",
        Severity.WARNING,
        "Pods, or a template, have deletion costs that Trimtab did not write.",
        "Of pods that are equally ready, controllers delete the one with the lowest cost first, wherever it is. Costs "
        "that a script left behind keep deciding long after.",
        "Remove the annotation, or set `otherCosts: TieBreak` in the policy.",
        governing.foreign_costs,
    ),
)


class LintResult(Model, omit_defaults=False):
    """Everything that was found, and what could not be checked."""

    findings: tuple[Finding, ...]
    checked: int
    """How many workloads were checked."""
    not_checked: tuple[str, ...] = ()
    """The rules that need nodes, where none are known."""
    gaps: tuple[Gap, ...] = ()

    def worst(self) -> Severity | None:
        """The severity of the worst finding."""
        found = {finding.severity for finding in self.findings}
        return next((severity for severity in SEVERITIES if severity.value in found), None)


def check(world: World, ignored: Iterable[str] = ()) -> LintResult:
    """Run all rules but the ignored ones."""
    left_out = frozenset(ignored)
    rules = [rule for rule in RULES if rule.id not in left_out]
    findings = [finding for rule in rules for finding in rule.findings(world)]
    order = {severity.value: at for at, severity in enumerate(SEVERITIES)}
    return LintResult(
        findings=tuple(sorted(findings, key=lambda each: (order[each.severity], each.id, each.namespace, each.name))),
        checked=len(world.workloads),
        not_checked=() if world.has_nodes else tuple(rule.id for rule in rules if rule.needs_nodes),
        gaps=world.cluster.gaps,
    )
