"""The table of rules, and a check of all of them. `docs/doctor.md` is generated from this table."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.api.model import Model
from trimtab.doctor import effects, leaders, webhooks, workloads
from trimtab.doctor.facts import Facts
from trimtab.doctor.findings import Finding, Rule
from trimtab.inspection.lint.findings import SEVERITIES, Severity

_AGAIN = "Apply `trimtab install` again, with the options that you installed with."

RULES: tuple[Rule, ...] = (
    Rule(
        "TD101",
        "not-installed",
        Severity.ERROR,
        "There is no Deployment of Trimtab in the namespace.",
        "Nothing decides, and everything works as Kubernetes alone does it. Webhook configurations that are left "
        "behind cost every matching request the time of a failed call.",
        "Name the namespace with `--namespace`, apply `trimtab install`, or remove what is left with `trimtab "
        "uninstall`.",
        workloads.not_installed,
        ("deployments", "webhooks", "configuration_text"),
    ),
    Rule(
        "TD102",
        "kubernetes-version",
        Severity.WARNING,
        "The API server is of a version that Trimtab does not support.",
        "Before 1.30 the admission features that Trimtab uses do not exist. A later version than was tested may order "
        "victims in another way.",
        "Use Kubernetes 1.30 to 1.37, or a version of Trimtab that was tested with yours.",
        workloads.server_version,
        ("server_version",),
    ),
    Rule(
        "TD103",
        "other-version",
        Severity.WARNING,
        "A component is of another version than this command.",
        "Components of two versions may disagree, and this check knows the rules of its own version only.",
        "Use the command of the installed version, or update the installation with `trimtab install`.",
        workloads.component_versions,
        ("deployments",),
    ),
    Rule(
        "TD104",
        "not-ready",
        Severity.ERROR,
        "Pods of a component are not ready.",
        "Webhooks that are not ready are not called: scale-downs are admitted without a plan. Controllers and the "
        "scheduler have no second replica that takes over.",
        "Look at the pods, their events and logs.",
        workloads.unready_deployments,
        ("deployments",),
    ),
    Rule(
        "TD105",
        "invalid-configuration",
        Severity.ERROR,
        "The installed configuration is missing or invalid.",
        "A process that starts refuses it and ends. Processes that run keep what they have read.",
        "Correct the field that the message names, and apply `trimtab install --config FILE` again.",
        workloads.invalid_configuration,
        ("configuration_text", "deployments"),
    ),
    Rule(
        "TD106",
        "configuration-not-loaded",
        Severity.WARNING,
        "Pods run with another configuration than the ConfigMap has.",
        "The configuration is read when a process starts. Only `scaleDown.enabled` takes effect at once.",
        "Restart the pods.",
        workloads.unloaded_configuration,
        ("configuration_text", "deployments"),
    ),
    Rule(
        "TD201",
        "missing-definition",
        Severity.ERROR,
        "A CustomResourceDefinition of ours does not exist, or is not served.",
        "The kind cannot be used, and the feature that reads it waits for it.",
        _AGAIN,
        workloads.missing_definitions,
        ("definitions",),
    ),
    Rule(
        "TD202",
        "foreign-definition",
        Severity.WARNING,
        "A definition of the name of one of our kinds is not Trimtab's.",
        "Trimtab never replaces the definition of another program, and leaves its objects to that program.",
        "Remove the other program's definition if Trimtab is to own the kind; that deletes all its objects.",
        workloads.foreign_definitions,
        ("definitions",),
    ),
    Rule(
        "TD203",
        "outdated-definition",
        Severity.WARNING,
        "A definition of ours has another schema than this version's.",
        "Fields of newer versions are dropped by the API server without an error; removed ones are accepted.",
        _AGAIN,
        workloads.outdated_definitions,
        ("definitions",),
    ),
    Rule(
        "TD301",
        "missing-webhook",
        Severity.ERROR,
        "A webhook is not registered.",
        "The API server does not send its requests to Trimtab, which then neither observes nor acts.",
        _AGAIN,
        webhooks.missing_webhooks,
        ("webhooks", "definitions"),
    ),
    Rule(
        "TD302",
        "changed-webhook",
        Severity.WARNING,
        "A webhook is registered with other rules, another timeout or failure policy than this version's.",
        "With `failurePolicy: Fail`, requests fail while Trimtab is down. With a shorter timeout, the API server does "
        "not wait for a plan.",
        _AGAIN,
        webhooks.changed_webhooks,
        ("webhooks",),
    ),
    Rule(
        "TD303",
        "no-endpoints",
        Severity.ERROR,
        "The Service of the webhooks has no ready address.",
        "Every call of the API server fails, and requests are admitted without a decision.",
        "Make the pods of the webhooks ready: see TD104.",
        webhooks.no_endpoints,
        ("webhooks", "slices"),
    ),
    Rule(
        "TD304",
        "not-called",
        Severity.ERROR,
        "The API server gets no answer from the webhooks.",
        "An invalid ScaleDownPolicy is created as a dry run, which the webhooks would have refused. A network policy, "
        "a firewall between control plane and nodes, the certificate or the namespace selector prevents the call.",
        "Correct the other findings about webhooks first. Then let the API server reach port 9443 of the pods: "
        "`--api-server-cidr`, the firewall of the nodes, the proxy of the control plane.",
        webhooks.not_called,
        ("webhooks", "is_called"),
    ),
    Rule(
        "TD305",
        "untrusted-certificate",
        Severity.ERROR,
        "The CA bundle of a webhook is empty, not valid, or not that of the certificate.",
        "The API server ends the connection, and the request is admitted without a decision.",
        "Wait 10 seconds for the leader of the webhooks, which writes it; if it stays, see TD401 and TD501. With "
        "certificates of your own: `trimtab install --ca-file`.",
        webhooks.untrusted_certificates,
        ("webhooks", "secrets"),
    ),
    Rule(
        "TD306",
        "certificate",
        Severity.ERROR,
        "The certificate of the webhooks is missing, not valid, for another name, or near its end.",
        "The API server ends the connection, and the request is admitted without a decision. Trimtab renews its "
        "certificates when a third of their lifetime is left: one that is near its end could not be renewed.",
        "Look at the log of the webhooks' leader, and at TD401 and TD501. Deleting the Secret makes the leader create "
        "a new one.",
        webhooks.certificates,
        ("secrets", "webhooks"),
    ),
    Rule(
        "TD401",
        "no-leader",
        Severity.ERROR,
        "No process of a component is the leader.",
        "Without a leader nothing is reconciled, no pod is scheduled, and no certificate is renewed. Webhooks still "
        "answer.",
        "Look at the log of the component for the lease; check its permissions (TD501) and its pods (TD104).",
        leaders.no_leader,
        ("leases",),
    ),
    Rule(
        "TD402",
        "leader-clock",
        Severity.WARNING,
        "The clock of a leader differs from the API server's by more than a minute.",
        "Trimtab decides by the API server's clock. Timestamps of its logs, events and leases are wrong.",
        "Synchronize the clock of the node (NTP, chrony).",
        leaders.leader_clocks,
        ("leases",),
    ),
    Rule(
        "TD403",
        "own-clock",
        Severity.WARNING,
        "The clock of this machine differs from the API server's by more than a minute.",
        "Certificates and tokens may count as expired or not yet valid here.",
        "Synchronize the clock of this machine, or that of the control plane.",
        leaders.own_clock,
    ),
    Rule(
        "TD501",
        "missing-permission",
        Severity.ERROR,
        "A component may not make a request that it needs to make.",
        "The request fails each time, and what depends on it does not happen. Usual causes are a role of an earlier "
        "version and a policy of the cluster that removes permissions.",
        _AGAIN,
        effects.missing_permissions,
        ("denials",),
    ),
    Rule(
        "TD601",
        "other-costs",
        Severity.WARNING,
        "Pods, or a template, have deletion costs that Trimtab did not write.",
        "Of pods that are equally ready, controllers delete the one with the lowest cost first, wherever it is. "
        "Trimtab obeys costs of other writers, so such workloads may not stay level.",
        "Remove the annotation and what writes it, or set `otherCosts: TieBreak` in the policy.",
        effects.other_costs,
    ),
    Rule(
        "TD602",
        "overwritten-costs",
        Severity.WARNING,
        "Another writer replaced Trimtab's costs, or ranks the same pods.",
        "Two writers of one value undo each other, and neither gets what it wants.",
        "Exclude the workload from the other writer, or use `otherCosts: TieBreak`; delete PodGroupCosts that do not "
        "count.",
        effects.overwritten_costs,
        ("events",),
    ),
    Rule(
        "TD603",
        "skipped-object",
        Severity.WARNING,
        "An object cannot be read, and is skipped.",
        "Decisions are made as if it did not exist, or with the version of it that was read before.",
        "Correct the field that the message names.",
        effects.skipped_objects,
        ("events",),
    ),
    Rule(
        "TD604",
        "switched-off",
        Severity.WARNING,
        "Scale-downs are switched off.",
        "`scaleDown.enabled: false` is for incidents: no request is held, and all costs are reverted.",
        "Set `scaleDown.enabled: true`.",
        effects.switched_off,
        ("configuration_text",),
    ),
    Rule(
        "TD605",
        "no-policies",
        Severity.NOTE,
        "There is neither a default policy nor any ScaleDownPolicy or UnitedTopology.",
        "Trimtab runs, and has nothing to do.",
        "Add a default policy to the configuration, or create a ScaleDownPolicy.",
        effects.no_policies,
        ("configuration_text",),
    ),
    Rule(
        "TD606",
        "idle-policy",
        Severity.WARNING,
        "A ScaleDownPolicy or a UnitedTopology does nothing.",
        "It refers to no workload, or its controller reports that it cannot work.",
        "Correct `targetRef` or `selector`, or remove the object.",
        effects.idle_policies,
    ),
)


class Gap(Model, omit_defaults=False):
    """What could not be read, why, and which rules were not checked without it."""

    what: str
    reason: str
    not_checked: tuple[str, ...]

    def sentence(self) -> str:
        """The gap for people."""
        return f"{self.what} could not be read, so {', '.join(self.not_checked)} were not checked: {self.reason}"


class Diagnosis(Model, omit_defaults=False):
    """Everything that was found, and what could not be checked."""

    findings: tuple[Finding, ...]
    checked: tuple[str, ...]
    """The rules that were checked."""
    gaps: tuple[Gap, ...] = ()

    def worst(self) -> Severity | None:
        """The severity of the worst finding."""
        found = {finding.severity for finding in self.findings}
        return next((severity for severity in SEVERITIES if severity.value in found), None)


def check(facts: Facts, ignored: Iterable[str] = ()) -> Diagnosis:
    """Check all rules but the ignored ones, as far as their facts could be read."""
    left_out = frozenset(ignored)
    rules = [rule for rule in RULES if rule.id not in left_out]
    checked = [rule for rule in rules if rule.can_check(facts)]
    findings = [finding for rule in checked for finding in rule.findings(facts)]
    order = {severity.value: at for at, severity in enumerate(SEVERITIES)}
    return Diagnosis(
        findings=tuple(sorted(findings, key=lambda each: (order[each.severity], each.id, each.object))),
        checked=tuple(rule.id for rule in checked),
        gaps=tuple(_gaps(facts, rules)),
    )


def _gaps(facts: Facts, rules: Iterable[Rule]) -> Iterable[Gap]:
    known = list(rules)
    for fact, reason in facts.gaps.items():
        affected = tuple(rule.id for rule in known if fact in rule.needs)
        yield Gap(what=fact.replace("_", " "), reason=reason, not_checked=affected)
    for each in facts.cluster.gaps:
        yield Gap(what=f"{each.resource} ({each.scope})", reason=each.reason, not_checked=("TD601", "TD606"))
