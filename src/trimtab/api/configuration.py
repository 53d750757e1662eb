"""TrimtabConfiguration: the configuration file of `trimtab run`.

Users write the file, so decoding is strict: an unknown field is an error that names it and suggests a similar one, and
an invalid value is an error that says what to write. Each field has a description (`Meta.description`), from which
errors and the tables in `docs/configuration.md` are generated.

All processes of an installation read the same file, whichever components they run.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from ipaddress import ip_network
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, inspect

from trimtab.api import codec, selectors, workloads
from trimtab.api.default_constraints import DefaultConstraintSettings
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector
from trimtab.api.model import Model
from trimtab.api.scaledown import (
    RESERVED_MILLISECONDS,
    UNSUPPORTED_KINDS,
    Mode,
    StrategySpec,
    WhenUnranked,
    budget_problems,
    strategy_problems,
)
from trimtab.api.unitedtopology.privileges import FIELDS, PatchField
from trimtab.api.workloads import MAX_WORKLOADS, ReplicaSetOwners, WorkloadKind

API_VERSION: Final = "trimtab.dev/v1alpha1"
KIND: Final = "TrimtabConfiguration"

ComponentName = Literal["scheduler", "webhooks", "controllers", "dashboard"]

FEATURE_GATES: Mapping[str, bool] = {
    "PodWebhook": True,
    "CloneSetPodCost": False,
    "EvenPodsSpread": True,
}
"""The feature gates and their defaults."""

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DEFAULT_NAME = "default"


class DefaultPolicy(Model):
    """A default scale-down policy for workloads without one, in all namespaces or in those that match a selector."""

    name: Annotated[str, Meta(description="its name in statuses and logs, such as default", min_length=1)] = (
        _DEFAULT_NAME
    )
    namespace_selector: Annotated[
        LabelSelector | None, Meta(description="a label selector of namespaces; all namespaces if omitted")
    ] = None
    mode: Annotated[
        Mode,
        Meta(
            description="Observe or Enforce; the label trimtab.dev/scale-down=enforce of a namespace enforces it there"
        ),
    ] = "Observe"
    strategies: Annotated[
        tuple[StrategySpec, ...],
        Meta(description="a list of strategies, as in a ScaleDownPolicy; by default, pods are kept level"),
    ] = ()
    delivery: Annotated[Literal["OnScaleIntent", "Continuous"], Meta(description="OnScaleIntent or Continuous")] = (
        "OnScaleIntent"
    )
    carrier: Annotated[
        Literal["Annotation", "AlphaAnnotation", "PodGroupCost"],
        Meta(description="Annotation, AlphaAnnotation or PodGroupCost"),
    ] = "Annotation"
    when_unranked: Annotated[
        WhenUnranked, Meta(description="action (Wait or Fallback) and timeoutSeconds, as in a ScaleDownPolicy")
    ] = WhenUnranked()
    other_costs: Annotated[
        Literal["Obey", "TieBreak"] | None, Meta(description="Obey or TieBreak, as in a ScaleDownPolicy")
    ] = None
    budget_milliseconds: Annotated[
        int, Meta(description="a whole number from 0 to 25000, as in a ScaleDownPolicy", ge=0, le=25_000)
    ] = 0


class ControllerGates(Model):
    """Feature gates of kube-controller-manager; both are on unless a cluster has turned them off."""

    logarithmic_scale_down: Annotated[
        bool, Meta(description="true, or false where LogarithmicScaleDown is off: ages are compared as they are")
    ] = True
    pod_deletion_cost: Annotated[
        bool, Meta(description="true, or false where PodDeletionCost is off: costs have no effect")
    ] = True


class ScaleDown(Model):
    """How workloads are kept level on scale-downs."""

    enabled: Annotated[
        bool, Meta(description="true, or false to switch scale-downs off: costs are reverted, no request is held")
    ] = True
    settle_milliseconds: Annotated[
        int,
        Meta(description="an integer from 0 to 10000: how long controllers have to observe the costs", ge=0, le=10_000),
    ] = 300
    budget_seconds: Annotated[
        float,
        Meta(description="a number from 0.1 to 25: the maximum time for which a scale request is held", ge=0.1, le=25),
    ] = 2.0
    clock_tolerance_seconds: Annotated[
        float,
        Meta(
            description="a number from 0 to 3600: by how much the clocks of the control plane may differ", ge=0, le=3600
        ),
    ] = 5.0
    other_costs: Annotated[
        Literal["Obey", "TieBreak"],
        Meta(description="Obey or TieBreak: how deletion costs of other writers count where a policy does not say"),
    ] = "Obey"
    cost_writers: Annotated[
        tuple[str, ...],
        Meta(description="a list of user names whose changes of costs the protection of costs does not refuse"),
    ] = ()
    probe_networks: Annotated[
        tuple[str, ...],
        Meta(
            description="a list of networks such as 10.244.0.0/16, in which alone pods are probed; by default, all "
            "addresses but loopback, link-local and multicast ones"
        ),
    ] = ()
    sources: Annotated[
        Mapping[str, Mapping[str, Any]],
        Meta(description="the settings of sources of signals, by name, such as Prometheus: {url: …}; none by default"),
    ] = {}
    controller_gates: Annotated[
        ControllerGates, Meta(description="the feature gates of kube-controller-manager that deletions depend on")
    ] = ControllerGates()
    default_policies: Annotated[
        tuple[DefaultPolicy, ...],
        Meta(description="a list of policies for workloads without a ScaleDownPolicy; the first that matches applies"),
    ] = ()


class Issuer(Model):
    """An issuer of cert-manager."""

    name: Annotated[str, Meta(description="its name", min_length=1)]
    kind: Annotated[str, Meta(description="Issuer (in Trimtab's namespace) or ClusterIssuer", min_length=1)] = "Issuer"
    group: Annotated[str, Meta(description="its API group", min_length=1)] = "cert-manager.io"


CERT_MANAGER_FOLDER: Final = "/etc/trimtab-certificates"
"""Where the Secret that cert-manager writes is mounted in the pods of the webhooks."""


class Certificates(Model):
    """The source of the webhook server's certificate."""

    source: Annotated[
        Literal["Managed", "Files", "CertManager"],
        Meta(
            description="Managed (created and renewed by Trimtab, in a Secret), Files (yours, reloaded when changed), "
            "or CertManager (a Certificate of cert-manager, which also sets the CA bundle)"
        ),
    ] = "Managed"
    stored_in: Annotated[
        str,
        Meta(description="the name of the Secret in Trimtab's namespace that stores the certificates, unless Files"),
    ] = "trimtab-webhook-certificates"
    issuer: Annotated[
        Issuer | None,
        Meta(description="name, kind and group of cert-manager's issuer; a self-signed one is installed if omitted"),
    ] = None
    certificate_file: Annotated[str, Meta(description="the path of a PEM file: certificate and chain")] = ""
    key_file: Annotated[str, Meta(description="the path of a PEM file: the certificate's private key")] = ""

    @property
    def files(self) -> tuple[str, str]:
        """The paths of certificate and key, if they are in files."""
        if self.source == "CertManager":
            return f"{CERT_MANAGER_FOLDER}/tls.crt", f"{CERT_MANAGER_FOLDER}/tls.key"
        return self.certificate_file, self.key_file


class Webhooks(Model):
    """The address and certificate of the webhook server."""

    host: Annotated[str, Meta(description="the address to listen on, such as 0.0.0.0", min_length=1)] = "0.0.0.0"  # noqa: S104 - API servers are on other machines
    port: Annotated[int, Meta(description="a port from 1 to 65535; 0 for any free port", ge=0, le=65535)] = 9443
    service: Annotated[
        str,
        Meta(description="the name of the Service in Trimtab's namespace through which API servers call the webhooks"),
    ] = "trimtab-webhooks"
    registered_as: Annotated[
        str,
        Meta(description="the name of the webhook configurations whose CA bundle is kept current", min_length=1),
    ] = "trimtab"
    url: Annotated[
        str,
        Meta(description="https://HOST:PORT, if API servers call the webhooks by URL instead of through a Service"),
    ] = ""
    certificates: Annotated[Certificates, Meta(description="an object; see below")] = Certificates()
    client_ca_file: Annotated[
        str,
        Meta(description="the path of a PEM file: if set, callers must present a client certificate signed by this CA"),
    ] = ""


class UnitedTopologies(Model):
    """What UnitedTopologies may change."""

    allowed_patch_fields: Annotated[
        tuple[PatchField, ...],
        Meta(description=f"a list of privileged fields that the patches of subsets may change: {', '.join(FIELDS)}"),
    ] = ()


class CloneSets(Model):
    """How the CloneSet controller ranks pods of crowded domains and nodes."""

    rank: Annotated[
        Literal["balanced", "proportional"],
        Meta(
            description="balanced (full domains give pods first) or proportional (every domain gives the same share); "
            "the annotation trimtab.dev/rank of a CloneSet overrides it"
        ),
    ] = "balanced"
    rank_by_default_constraints: Annotated[
        bool,
        Meta(description="true to rank pods whose template states no constraints by the cluster's default constraints"),
    ] = False


class LeaderElection(Model):
    """Leader election of the controllers. The scheduler's is in its own configuration."""

    enabled: Annotated[bool, Meta(description="true, or false if there is always only one process")] = True
    lease_seconds: Annotated[
        float, Meta(description="a number from 1 to 3600: how long a lease is valid without renewal", ge=1, le=3600)
    ] = 15.0
    renew_seconds: Annotated[
        float,
        Meta(
            description="less than leaseSeconds: how long a leader continues without a successful renewal",
            gt=0,
            le=3600,
        ),
    ] = 10.0
    retry_seconds: Annotated[
        float,
        Meta(
            description="less than renewSeconds / 1.2: the interval between attempts to acquire or renew the lease",
            gt=0,
            le=3600,
        ),
    ] = 2.0


class Serving(Model):
    """The address of the health and metrics endpoints."""

    host: Annotated[str, Meta(description="the address to listen on, such as 127.0.0.1", min_length=1)] = "127.0.0.1"
    port: Annotated[
        int, Meta(description="a port; 0 for any free port, -1 to disable both endpoints", ge=-1, le=65535)
    ] = 10269


class DashboardServing(Model):
    """Where the component dashboard serves. Callers need a token of the cluster, and see what they may list."""

    host: Annotated[
        str,
        Meta(
            description="the address to listen on; beyond 127.0.0.1, which `kubectl port-forward` reaches, with TLS",
            min_length=1,
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(description="a port from 1 to 65535; 0 for any free port", ge=0, le=65535)] = 10280
    certificate_file: Annotated[str, Meta(description="the path of a PEM file: certificate and chain")] = ""
    key_file: Annotated[str, Meta(description="the path of a PEM file: the certificate's private key")] = ""
    host_names: Annotated[
        tuple[str, ...], Meta(description="a list of further names that browsers may use for it, such as an Ingress's")
    ] = ()


class Logs(Model):
    """The log on standard error."""

    format: Annotated[Literal["console", "json"], Meta(description="console or json")] = "console"
    level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="debug, info, warning or error")
    ] = "info"


class TrimtabConfiguration(Model):
    """The whole configuration."""

    api_version: Annotated[Literal["trimtab.dev/v1alpha1"], Meta(description=API_VERSION)] = API_VERSION
    kind: Annotated[Literal["TrimtabConfiguration"], Meta(description=KIND)] = KIND
    components: Annotated[
        tuple[ComponentName, ...],
        Meta(
            description="a list of scheduler, webhooks and controllers, and dashboard where wanted: the components "
            "that this process runs",
            min_length=1,
        ),
    ] = ("scheduler", "webhooks", "controllers")
    namespace: Annotated[str, Meta(description="the namespace of Trimtab's own objects: leases, certificates")] = (
        "kube-system"
    )
    namespaces: Annotated[
        tuple[str, ...], Meta(description="a list of namespaces that Trimtab manages; empty for all")
    ] = ()
    feature_gates: Annotated[
        Mapping[str, bool], Meta(description=f"true or false for some of {', '.join(FEATURE_GATES)}")
    ] = {}
    scheduler: Annotated[
        Mapping[str, Any] | str | None,
        Meta(description="a KubeSchedulerConfiguration, or the path of a file that contains one"),
    ] = None
    default_constraints: Annotated[DefaultConstraintSettings, Meta(description="an object; see below")] = (
        DefaultConstraintSettings()
    )
    scale_down: Annotated[ScaleDown, Meta(description="an object; see below")] = ScaleDown()
    workloads: Annotated[
        tuple[WorkloadKind, ...],
        Meta(
            description="a list of kinds beside Deployment that own ReplicaSets and have a scale subresource, such as "
            f"Argo's Rollout; at most {MAX_WORKLOADS}",
            max_length=MAX_WORKLOADS,
        ),
    ] = ()
    united_topology: Annotated[UnitedTopologies, Meta(description="an object; see below")] = UnitedTopologies()
    clone_set: Annotated[CloneSets, Meta(description="an object; see below")] = CloneSets()
    webhooks: Annotated[Webhooks, Meta(description="an object; see below")] = Webhooks()
    leader_election: Annotated[LeaderElection, Meta(description="an object; see below")] = LeaderElection()
    serving: Annotated[Serving, Meta(description="an object; see below")] = Serving()
    dashboard: Annotated[DashboardServing, Meta(description="an object; see below")] = DashboardServing()
    logs: Annotated[Logs, Meta(description="an object; see below")] = Logs()

    def gate(self, name: str) -> bool:
        """Whether a feature gate is enabled."""
        return self.feature_gates.get(name, FEATURE_GATES[name])

    @property
    def defaults_at_admission(self) -> bool:
        """Whether default constraints are written into new pods."""
        return self.default_constraints.delivery == "Admission" and self.gate("EvenPodsSpread")

    @property
    def replicaset_owners(self) -> ReplicaSetOwners:
        """The kinds that own ReplicaSets: Deployment, and those of `workloads`."""
        return ReplicaSetOwners.of(self.workloads)


def read(tree: Any) -> TrimtabConfiguration:
    """Decode a configuration from plain values (a parsed file). Raises InvalidError with the field."""
    if not isinstance(tree, dict):
        raise InvalidError("", f"is not a configuration; write an object with apiVersion: {API_VERSION}, kind: {KIND}")
    info = _type_info()
    for found in _unknown(tree, info, ""):
        raise found
    try:
        configuration = codec.convert(tree, TrimtabConfiguration)
    except InvalidError as error:
        raise _with_advice(error, info) from None
    for found in problems(configuration):
        raise found
    return configuration


@cache
def _type_info() -> inspect.Type:
    return inspect.type_info(TrimtabConfiguration)


def problems(configuration: TrimtabConfiguration) -> Iterator[InvalidError]:
    """The errors that types cannot express. Strategies are validated by `ranking`."""
    yield from _name_problems(configuration)
    yield from _scale_down_problems(configuration.scale_down)
    yield from workloads.problems(configuration.workloads, UNSUPPORTED_KINDS)
    yield from _webhook_problems(configuration.webhooks)
    election = configuration.leader_election
    if not election.lease_seconds > election.renew_seconds > 1.2 * election.retry_seconds:
        yield InvalidError(
            "leaderElection",
            "a leader must stop before another starts; write leaseSeconds > renewSeconds > 1.2 · retrySeconds",
        )


def _name_problems(configuration: TrimtabConfiguration) -> Iterator[InvalidError]:
    named = [("namespace", configuration.namespace)]
    named += [(f"namespaces[{index}]", name) for index, name in enumerate(configuration.namespaces)]
    for path, name in named:
        if not _NAMESPACE.fullmatch(name):
            yield InvalidError(path, f'"{name}" is not a valid namespace name; write a name such as kube-system')
    for gate in configuration.feature_gates:
        if gate not in FEATURE_GATES:
            yield InvalidError(f"featureGates[{gate}]", f"is not a feature gate; {_advice(gate, list(FEATURE_GATES))}")
    duplicates = [name for name in configuration.components if configuration.components.count(name) > 1]
    if duplicates:
        yield InvalidError("components", f"{duplicates[0]} is listed twice; list it once")


def _scale_down_problems(settings: ScaleDown) -> Iterator[InvalidError]:
    if settings.settle_milliseconds + RESERVED_MILLISECONDS >= settings.budget_seconds * 1000:
        yield InvalidError(
            "scaleDown.settleMilliseconds",
            f"{settings.settle_milliseconds} leaves no time in the budget for writing costs; "
            f"write less than budgetSeconds · 1000 - {RESERVED_MILLISECONDS}",
        )
    for index, text in enumerate(settings.probe_networks):
        if not _is_network(text):
            yield InvalidError(
                f"scaleDown.probeNetworks[{index}]", f'"{text}" is not a network; write it as 10.244.0.0/16'
            )
    for index, policy in enumerate(settings.default_policies):
        at = f"scaleDown.defaultPolicies[{index}]"
        if policy.name in [other.name for other in settings.default_policies[:index]]:
            yield InvalidError(f"{at}.name", f'"{policy.name}" is used twice; give each policy a unique name')
        yield from _policy_problems(policy, at, settings.settle_milliseconds)


def _is_network(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


def _policy_problems(policy: DefaultPolicy, at: str, settle_milliseconds: int) -> Iterator[InvalidError]:
    if policy.namespace_selector is not None:
        try:
            selectors.compile(policy.namespace_selector)
        except InvalidError as error:
            yield error.under(f"{at}.namespaceSelector")
    problems = list(strategy_problems(policy.strategies))
    if policy.delivery == "OnScaleIntent":
        problems += budget_problems(policy.budget_milliseconds, settle_milliseconds)
    for found in problems:
        yield InvalidError(found.path.replace("spec", at, 1), found.reason)


def _webhook_problems(webhooks: Webhooks) -> Iterator[InvalidError]:
    certificates = webhooks.certificates
    files = {
        "certificateFile": certificates.certificate_file,
        "keyFile": certificates.key_file,
    }
    for name, path in files.items():
        at = f"webhooks.certificates.{name}"
        if certificates.source == "Files" and not path:
            yield InvalidError(at, "is required if source is Files; write the path of a PEM file")
        if certificates.source != "Files" and path:
            yield InvalidError(at, f"has no effect if source is {certificates.source}; write source: Files, or omit it")
    if certificates.source != "CertManager" and certificates.issuer is not None:
        at, reason = "webhooks.certificates.issuer", f"has no effect if source is {certificates.source}"
        yield InvalidError(at, f"{reason}; write source: CertManager, or omit it")
    if webhooks.url and not re.fullmatch(r"https://[^/?#\s]+", webhooks.url):
        yield InvalidError("webhooks.url", f'"{webhooks.url}" is not a valid webhook URL; write https://HOST:PORT')


# Unknown fields, and advice in errors.


def _unknown(tree: Any, info: inspect.Type, path: str) -> Iterator[InvalidError]:
    """Errors for unknown fields, which are usually misspelt."""
    info = _plain(info, tree)
    if isinstance(info, inspect.StructType) and isinstance(tree, dict):
        kinds = {field.encode_name: field.type for field in info.fields}
        for name, value in tree.items():
            at = f"{path}.{name}" if path else str(name)
            if name in kinds:
                yield from _unknown(value, kinds[name], at)
            else:
                yield InvalidError(at, f"is not a field; {_advice(str(name), list(kinds))}")
    elif isinstance(info, inspect.VarTupleType) and isinstance(tree, list):
        for index, item in enumerate(tree):
            yield from _unknown(item, info.item_type, f"{path}[{index}]")


def _plain(info: inspect.Type, tree: Any) -> inspect.Type:
    """The type without its description; of a union, the structure, the only member with fields."""
    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(info, inspect.UnionType) and isinstance(tree, dict):
        members = [_plain(member, tree) for member in info.types]
        return next((member for member in members if isinstance(member, inspect.StructType)), info)
    return info


def _advice(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f'did you mean "{near[0]}"?' if near else f"write one of {', '.join(known)}"


def _with_advice(error: InvalidError, info: inspect.Type) -> InvalidError:
    """The error with the description of its field, which says what to write."""
    advice = ""
    for part in re.findall(r"[^.\[\]]+", error.path):
        info = _plain(info, {})
        if isinstance(info, inspect.VarTupleType):
            info = info.item_type
        elif isinstance(info, inspect.StructType):
            field = next((field for field in info.fields if field.encode_name == part), None)
            if field is None:
                break
            info = field.type
            advice = description(field) or advice
    return InvalidError(error.path, f"{error.reason}; write: {advice}") if advice else error


def description(field: inspect.Field) -> str:
    """The description of a field."""
    if not isinstance(field.type, inspect.Metadata):
        return ""
    return str((field.type.extra_json_schema or {}).get("description", ""))
