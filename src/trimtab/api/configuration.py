"""TrimtabConfiguration: everything that `trimtab run` can be told, in one file.

The file is written by people, so it is read strictly: a field that does not exist is an error that names it and what
may have been meant, and a value that cannot be is an error that says what to write. Each field describes itself
(`Meta.description`); errors and the table in `docs/configuration.md` are made from those descriptions.

All processes of an installation read the same file, whichever components they run.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, inspect

from trimtab.api import codec, selectors
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector
from trimtab.api.model import Model
from trimtab.api.scaledown import StrategySpec, WhenUnranked, strategy_problems

API_VERSION: Final = "trimtab.dev/v1alpha1"
KIND: Final = "TrimtabConfiguration"

ComponentName = Literal["scheduler", "webhooks", "controllers"]

FEATURE_GATES: Mapping[str, bool] = {
    "PodWebhook": True,
    "CloneSetPodCost": False,
}
"""Which gates there are, and how they stand unless the configuration says otherwise."""

RESERVED_MILLISECONDS = 200
"""Milliseconds of the budget of a scale request that are needed for answering."""

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DEFAULT_NAME = "default"


class DefaultPolicy(Model):
    """A scale-down policy for workloads that have none of their own, everywhere or where a namespace's labels fit."""

    name: Annotated[str, Meta(description="what statuses and logs call it, such as default", min_length=1)] = (
        _DEFAULT_NAME
    )
    namespace_selector: Annotated[
        LabelSelector | None, Meta(description="which namespaces, by their labels; all of them without it")
    ] = None
    strategies: Annotated[
        tuple[StrategySpec, ...],
        Meta(description="a list of strategies as a ScaleDownPolicy has it; without any, pods are kept level"),
    ] = ()
    delivery: Annotated[Literal["OnScaleIntent", "Continuous"], Meta(description="OnScaleIntent or Continuous")] = (
        "OnScaleIntent"
    )
    carrier: Annotated[
        Literal["Annotation", "AlphaAnnotation", "PodGroupCost"],
        Meta(description="Annotation, AlphaAnnotation or PodGroupCost"),
    ] = "Annotation"
    when_unranked: Annotated[
        WhenUnranked, Meta(description="action (Wait or Fallback) and timeoutSeconds, as a ScaleDownPolicy has them")
    ] = WhenUnranked()


class ScaleDown(Model):
    """How workloads are kept level when they shrink."""

    enabled: Annotated[
        bool, Meta(description="true, or false to turn everything off at once: costs are taken back, nothing is held")
    ] = True
    settle_milliseconds: Annotated[
        int,
        Meta(description="a whole number from 0 to 10000: how long controllers get to see costs", ge=0, le=10_000),
    ] = 300
    budget_seconds: Annotated[
        float, Meta(description="a number from 0.1 to 25: how long a scale request is held at most", ge=0.1, le=25)
    ] = 2.0
    default_policies: Annotated[
        tuple[DefaultPolicy, ...],
        Meta(description="a list of policies for workloads without one of their own; the first that fits counts"),
    ] = ()


class Certificates(Model):
    """Where the certificate that webhooks are served with comes from."""

    source: Annotated[
        Literal["Managed", "Files"],
        Meta(description="Managed (made and renewed by Trimtab, kept in a Secret) or Files (yours, read when changed)"),
    ] = "Managed"
    stored_in: Annotated[
        str, Meta(description="the name of the Secret in Trimtab's namespace that holds managed certificates")
    ] = "trimtab-webhook-certificates"
    certificate_file: Annotated[str, Meta(description="the path of a PEM file: certificate and chain")] = ""
    key_file: Annotated[str, Meta(description="the path of a PEM file: the certificate's private key")] = ""


class Webhooks(Model):
    """Where the admission edge is served."""

    host: Annotated[str, Meta(description="an address of this machine, such as 0.0.0.0", min_length=1)] = "0.0.0.0"  # noqa: S104 - API servers come from elsewhere
    port: Annotated[int, Meta(description="a port, 1 to 65535; 0 for any that is free", ge=0, le=65535)] = 9443
    service: Annotated[
        str, Meta(description="the name of the Service in Trimtab's namespace by which API servers reach it")
    ] = "trimtab-webhooks"
    registered_as: Annotated[
        str,
        Meta(description="the name of the webhook configurations whose certificates are kept current", min_length=1),
    ] = "trimtab"
    url: Annotated[
        str,
        Meta(description="https://HOST:PORT, where API servers reach it by address instead of by a Service"),
    ] = ""
    certificates: Annotated[Certificates, Meta(description="an object with source, and what belongs to it")] = (
        Certificates()
    )
    client_ca_file: Annotated[
        str, Meta(description="the path of a PEM file: if given, callers must show a certificate signed by it")
    ] = ""


class LeaderElection(Model):
    """Which of several replicas runs the controllers. The scheduler's election is part of its own configuration."""

    enabled: Annotated[bool, Meta(description="true, or false where there is only ever one process")] = True
    lease_seconds: Annotated[
        float, Meta(description="a number from 1 to 3600: how long a lease lasts that nobody renews", ge=1, le=3600)
    ] = 15.0
    renew_seconds: Annotated[
        float, Meta(description="less than leaseSeconds: how long a leader goes on without renewing", gt=0, le=3600)
    ] = 10.0
    retry_seconds: Annotated[
        float, Meta(description="less than renewSeconds / 1.2: how often the lease is tried for", gt=0, le=3600)
    ] = 2.0


class Serving(Model):
    """Where health and metrics are served."""

    host: Annotated[str, Meta(description="an address of this machine, such as 127.0.0.1", min_length=1)] = "127.0.0.1"
    port: Annotated[int, Meta(description="a port; 0 for any that is free, -1 to serve neither", ge=-1, le=65535)] = (
        10269
    )


class Logs(Model):
    """What is written to standard error."""

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
        Meta(description="some of scheduler, webhooks and controllers: what this process runs", min_length=1),
    ] = ("scheduler", "webhooks", "controllers")
    namespace: Annotated[
        str, Meta(description="the namespace that Trimtab keeps its own objects in: leases, certificates")
    ] = "kube-system"
    namespaces: Annotated[
        tuple[str, ...], Meta(description="a list of namespaces to look after; empty for all of them")
    ] = ()
    feature_gates: Annotated[
        Mapping[str, bool], Meta(description=f"true or false for some of {', '.join(FEATURE_GATES)}")
    ] = {}
    scheduler: Annotated[
        Mapping[str, Any] | str | None,
        Meta(description="a KubeSchedulerConfiguration, or the path of a file that holds one"),
    ] = None
    scale_down: Annotated[ScaleDown, Meta(description="an object; see below")] = ScaleDown()
    webhooks: Annotated[Webhooks, Meta(description="an object; see below")] = Webhooks()
    leader_election: Annotated[LeaderElection, Meta(description="an object; see below")] = LeaderElection()
    serving: Annotated[Serving, Meta(description="an object; see below")] = Serving()
    logs: Annotated[Logs, Meta(description="an object; see below")] = Logs()

    def gate(self, name: str) -> bool:
        """Whether a feature is on."""
        return self.feature_gates.get(name, FEATURE_GATES[name])

    def manages_namespace(self, namespace: str) -> bool:
        """Whether a namespace is one that Trimtab was told to look after."""
        return not self.namespaces or namespace in self.namespaces


def read(tree: Any) -> TrimtabConfiguration:
    """Read a configuration from plain values (a parsed file). Raises InvalidError, which names the field."""
    if not isinstance(tree, dict):
        raise InvalidError("", f"is not a configuration; write an object with apiVersion: {API_VERSION}, kind: {KIND}")
    info = inspect.type_info(TrimtabConfiguration)
    for found in _unknown(tree, info, ""):
        raise found
    try:
        configuration = codec.convert(tree, TrimtabConfiguration)
    except InvalidError as error:
        raise _with_advice(error, info) from None
    for found in problems(configuration):
        raise found
    return configuration


def problems(configuration: TrimtabConfiguration) -> Iterator[InvalidError]:
    """What cannot work, although each value is of the right kind. Strategies are checked by `ranking`."""
    yield from _name_problems(configuration)
    yield from _scale_down_problems(configuration.scale_down)
    yield from _webhook_problems(configuration.webhooks)
    terms = configuration.leader_election
    if not terms.lease_seconds > terms.renew_seconds > 1.2 * terms.retry_seconds:
        yield InvalidError(
            "leaderElection",
            "a leader must stop before others start; write leaseSeconds > renewSeconds > 1.2 · retrySeconds",
        )


def _name_problems(configuration: TrimtabConfiguration) -> Iterator[InvalidError]:
    named = [("namespace", configuration.namespace)]
    named += [(f"namespaces[{index}]", name) for index, name in enumerate(configuration.namespaces)]
    for path, name in named:
        if not _NAMESPACE.fullmatch(name):
            yield InvalidError(path, f'"{name}" is not the name of a namespace; write one such as kube-system')
    for gate in configuration.feature_gates:
        if gate not in FEATURE_GATES:
            yield InvalidError(f"featureGates[{gate}]", f"there is no such gate; {_advice(gate, list(FEATURE_GATES))}")
    doubled = [name for name in configuration.components if configuration.components.count(name) > 1]
    if doubled:
        yield InvalidError("components", f"{doubled[0]} is there twice; write it once")


def _scale_down_problems(settings: ScaleDown) -> Iterator[InvalidError]:
    if settings.settle_milliseconds + RESERVED_MILLISECONDS >= settings.budget_seconds * 1000:
        yield InvalidError(
            "scaleDown.settleMilliseconds",
            f"{settings.settle_milliseconds} leaves nothing of the budget for writing costs; "
            f"write less than budgetSeconds · 1000 - {RESERVED_MILLISECONDS}",
        )
    for index, policy in enumerate(settings.default_policies):
        at = f"scaleDown.defaultPolicies[{index}]"
        if policy.name in [other.name for other in settings.default_policies[:index]]:
            yield InvalidError(f"{at}.name", f'"{policy.name}" is there twice; give each policy a name of its own')
        yield from _policy_problems(policy, at)


def _policy_problems(policy: DefaultPolicy, at: str) -> Iterator[InvalidError]:
    if policy.namespace_selector is not None:
        try:
            selectors.compile(policy.namespace_selector)
        except InvalidError as error:
            yield error.under(f"{at}.namespaceSelector")
    for found in strategy_problems(policy.strategies):
        yield InvalidError(found.path.replace("spec", at, 1), found.reason)


def _webhook_problems(webhooks: Webhooks) -> Iterator[InvalidError]:
    given = webhooks.certificates
    files = {
        "certificateFile": given.certificate_file,
        "keyFile": given.key_file,
    }
    for name, path in files.items():
        at = f"webhooks.certificates.{name}"
        if given.source == "Files" and not path:
            yield InvalidError(at, "is missing, and source is Files; write the path of a PEM file")
        if given.source == "Managed" and path:
            yield InvalidError(at, "has no effect, for source is Managed; write source: Files, or leave it out")
    if webhooks.url and not re.fullmatch(r"https://[^/?#\s]+", webhooks.url):
        yield InvalidError("webhooks.url", f'"{webhooks.url}" cannot be called; write https://HOST:PORT')


# What is written, beside the types.


def _unknown(tree: Any, info: inspect.Type, path: str) -> Iterator[InvalidError]:
    """Fields that nothing reads, which most often are misspelt."""
    info = _plain(info, tree)
    if isinstance(info, inspect.StructType) and isinstance(tree, dict):
        kinds = {field.encode_name: field.type for field in info.fields}
        for name, value in tree.items():
            at = f"{path}.{name}" if path else str(name)
            if name in kinds:
                yield from _unknown(value, kinds[name], at)
            else:
                yield InvalidError(at, f"there is no such field; {_advice(str(name), list(kinds))}")
    elif isinstance(info, inspect.VarTupleType) and isinstance(tree, list):
        for index, item in enumerate(tree):
            yield from _unknown(item, info.item_type, f"{path}[{index}]")


def _plain(info: inspect.Type, tree: Any) -> inspect.Type:
    """The type without its description; of a union, the structure, which is the only member that has fields."""
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
    """The error with what its field is for, which says what to write."""
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
    return InvalidError(error.path, f"{error.reason}; wanted: {advice}") if advice else error


def description(field: inspect.Field) -> str:
    """What a field says of itself."""
    if not isinstance(field.type, inspect.Metadata):
        return ""
    return str((field.type.extra_json_schema or {}).get("description", ""))
