"""The removal of an installation, in an order in which no request ever waits for a component that is gone.

1. The webhook configurations are removed first, so that API servers stop calling Trimtab.
2. The Deployments are removed, and their pods waited for: nothing writes any more.
3. Annotations and costs on other objects are reverted (`cleanup`). No finalizer blocks anything.
4. Everything else is removed, the namespace last.

Definitions of our kinds stay unless a flag asks for their removal: deleting one deletes every object of the kind. Only
objects with our label are removed, and the namespace only if everything in it is ours. Removal may be repeated.

No answer of the API server ends a removal: what could not be done is listed at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from trimtab.api import crds
from trimtab.api.documents import JSON
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.pods import Pod
from trimtab.install import installations, manifests, namespaces
from trimtab.install.cleanup import CLEANUPS, Cleanup, cleanups_in
from trimtab.install.definitions import is_ours
from trimtab.install.deployments import CONFIGURATION
from trimtab.install.options import INSTANCE, MANAGED_BY, NAME, Options, account
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND
from trimtab.kube.errors import ApiError, IncompleteSweep, NotFound, Unreachable
from trimtab.kube.resources import Resource, untyped

Report = Callable[[str], None]

_PODS_TIMEOUT = 60.0
_POLICY_TIMEOUT = 30.0
_INTERVAL = 0.5

PLURALS: Mapping[str, str] = {
    "Certificate": "certificates",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "ConfigMap": "configmaps",
    "Deployment": "deployments",
    "Issuer": "issuers",
    "Lease": "leases",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "Namespace": "namespaces",
    "NetworkPolicy": "networkpolicies",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "PodMonitor": "podmonitors",
    "PrometheusRule": "prometheusrules",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Secret": "secrets",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
"""The plural of every kind that is installed, or created by an installation."""

_WEBHOOK_KINDS = frozenset(kind for kind in PLURALS if kind.startswith(("Mutating", "Validating")))


async def installed(client: Client, namespace: str) -> Options:
    """The options of an installation, as far as they can still be read."""
    options = Options(namespace=namespace, shared=await namespaces.why_in_use(client, namespace), monitoring=True)
    try:
        stored = await client.get(untyped("v1", "ConfigMap", "configmaps"), CONFIGURATION, namespace=namespace)
    except NotFound:
        return options
    found = installations.configured(stored)
    return options if found is None else replace(options, configuration=found)


async def dry_run(client: Client, options: Options, report: Report) -> list[str]:
    """Report what `remove` would do, as far as objects exist; what could not be read."""
    webhooks, workloads, rest = await _steps(client, options)
    await _scope(client, options, report, dry_run=True)
    left = await _delete(client, [*webhooks, *workloads], report, dry_run=True)
    for what in CLEANUPS:
        report(f"would revert {what}")
    left += await _delete(client, rest, report, dry_run=True)
    if options.shared:
        report(f"would keep: Namespace {options.namespace}: {options.shared}")
    return left


async def remove(
    client: Client, options: Options, report: Report, *, cleanups: Mapping[str, Cleanup] | None = None
) -> list[str]:
    """Remove an installation from a cluster; what could not be done. Raises Unreachable if the cluster is gone.

    By default it runs the cleanups of the namespaces that no other installation manages.
    """
    webhooks, workloads, rest = await _steps(client, options)
    if cleanups is None:
        cleanups = cleanups_in(await _scope(client, options, report))
    left = await _delete(client, webhooks, report)
    left += await _delete(client, workloads, report)
    left += await _wait_for_pods(client, options, report)
    for what, cleanup in cleanups.items():
        done, failed = await _run_cleanup(client, what, cleanup)
        report(f"reverted: {done}{what}")
        left += failed
    left += await _delete(client, rest, report)
    if options.shared:
        report(f"kept: Namespace {options.namespace}: {options.shared}")
    return left


async def remove_dropped_bindings(
    client: Client, options: Options, report: Report, *, dry_run: bool = False
) -> list[str]:
    """Remove the permissions in namespaces that the configuration does not name any more; what could not be done."""
    return await _delete(client, await installations.dropped_bindings(client, options), report, dry_run=dry_run)


async def _steps(client: Client, options: Options) -> tuple[list[JSON], list[JSON], list[JSON]]:
    """The objects of an installation in the order of their removal: webhook configurations, Deployments, the rest."""
    objects = [*manifests.everything(options), *await installations.dropped_bindings(client, options)]
    webhooks = [each for each in objects if each["kind"] in _WEBHOOK_KINDS]
    workloads = [each for each in objects if each["kind"] == "Deployment"]
    rest = [each for each in objects if each["kind"] not in {*_WEBHOOK_KINDS, "Deployment"}]
    return webhooks, workloads, [*_created_at_runtime(options), *reversed(rest)]


async def _scope(client: Client, options: Options, report: Report, *, dry_run: bool = False) -> installations.Scope:
    others = await installations.others(client, options.namespace)
    for each in others:
        managed = ", ".join(each.manages) or "all namespaces"
        report(f"{_kept(dry_run)}: what is written in {managed}, which {each.namespace} manages")
    return installations.scope(others)


async def _run_cleanup(client: Client, what: str, cleanup: Cleanup) -> tuple[str, list[str]]:
    """Run a cleanup, with retries; its count as text, or `all` after a retry, when the count is unknown; and failures.

    API servers apply an admission policy for some seconds after it was removed.
    """
    count_text, until = "", client.clock.monotonic() + round(_POLICY_TIMEOUT * SECOND)
    while True:
        try:
            count = await cleanup(client)
        except Unreachable:
            raise
        except ApiError as error:
            if client.clock.monotonic() >= until:
                return "not all ", _failures(what, error)
            count_text = "all "
            await client.clock.sleep(_INTERVAL)
        else:
            return count_text or f"{count} ", []


def _failures(what: str, error: ApiError) -> list[str]:
    if isinstance(error, IncompleteSweep):
        return [f"{what}: {key}: {reason}" for key, reason in error.failed.items()]
    return [f"{what}: {error}"]


def _created_at_runtime(options: Options) -> Iterator[JSON]:
    """The objects that Trimtab created in its namespace while it ran; the namespace may stay."""
    secret = options.read().webhooks.certificates.stored_in
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": options.namespace, "name": secret}}
    for component in options.components:
        metadata = {"namespace": options.namespace, "name": account(component)}
        yield {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}


async def remove_definitions(client: Client, report: Report) -> list[str]:
    """Remove our definitions, and with them every object of these kinds; what could not be done."""
    try:
        definitions = await ours(client)
    except Unreachable:
        raise
    except ApiError as error:
        return [f"CustomResourceDefinitions: {error}"]
    left = []
    for each in definitions:
        name = each["metadata"]["name"]
        try:
            await client.delete(_definitions(), name, uid=each["metadata"]["uid"])
        except Unreachable:
            raise
        except ApiError as error:
            left.append(f"CustomResourceDefinition {name}: {error}")
        else:
            report(f"removed CustomResourceDefinition {name}, and every object of that kind")
    return left


async def ours(client: Client) -> list[JSON]:
    """The definitions in a cluster that Trimtab installed."""
    names = {kind.name for kind in crds.KINDS}
    return [
        each
        for each in (await client.list(_definitions())).items
        if each["metadata"]["name"] in names and is_ours(each)
    ]


async def count_objects(client: Client, definition: JSON) -> int:
    """How many objects would be deleted with a definition."""
    spec = definition["spec"]
    version = next(each["name"] for each in spec["versions"] if each["storage"])
    kind = untyped(f"{spec['group']}/{version}", spec["names"]["kind"], spec["names"]["plural"])
    listed = await client.list(kind)
    return len(listed.items) + len(listed.rejected)


def _definitions() -> Resource[JSON]:
    return Resource.of(CustomResourceDefinition).raw


async def _delete(client: Client, objects: Sequence[JSON], report: Report, *, dry_run: bool = False) -> list[str]:
    """Delete what is ours of these, or only report it; what the API server refused."""
    left = []
    for each in objects:
        label = _name_of(each)
        try:
            reason = await _delete_one(client, each, dry_run=dry_run)
        except NotFound:
            continue
        except Unreachable:
            raise
        except ApiError as error:
            left.append(f"{label}: {error}")
        else:
            report(f"{_kept(dry_run)}: {label} {reason}" if reason else f"{_removed(dry_run)} {label}")
    return left


async def _delete_one(client: Client, manifest: JSON, *, dry_run: bool) -> str:
    """Delete an object, or only read it; why it is kept, if it is. Raises NotFound if it does not exist."""
    metadata = manifest["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace", "")
    resource = untyped(manifest["apiVersion"], manifest["kind"], PLURALS[manifest["kind"]], namespaced=bool(namespace))
    existing = await client.get(resource, name, namespace=namespace)
    reason = _why_kept(existing, manifest)
    if not (reason or dry_run):
        await client.delete(resource, name, namespace=namespace, uid=existing["metadata"]["uid"])
    return reason


def _kept(dry_run: bool) -> str:
    return "would keep" if dry_run else "kept"


def _removed(dry_run: bool) -> str:
    return "would remove" if dry_run else "removed"


def _name_of(manifest: JSON) -> str:
    metadata = manifest["metadata"]
    namespace = f"{metadata['namespace']}/" if "namespace" in metadata else ""
    return f"{manifest['kind']} {namespace}{metadata['name']}"


def _why_kept(existing: JSON, wanted: JSON) -> str:
    """Why an object is not removed; empty if it is ours. Leases have no labels; their names are ours alone."""
    if not namespaces.is_ours(existing) and existing["kind"] != "Lease":
        return f"does not carry the label {MANAGED_BY}: {NAME}"
    owner = (existing["metadata"].get("labels") or {}).get(INSTANCE, "")
    own = (wanted["metadata"].get("labels") or {}).get(INSTANCE, "")
    return f"belongs to the installation in {owner}" if owner and own and owner != own else ""


async def _wait_for_pods(client: Client, options: Options, report: Report) -> list[str]:
    """Wait until no pod of Trimtab is left, up to a timeout; why that is not known, if their list was refused."""
    until = client.clock.monotonic() + round(_PODS_TIMEOUT * SECOND)
    while True:
        try:
            left, failed = await _running(client, options), []
        except Unreachable:
            raise
        except ApiError as error:
            left, failed = [], [f"waiting for the pods in {options.namespace}, which may write once more: {error}"]
        if client.clock.monotonic() >= until or not (left or failed):
            break
        await client.clock.sleep(_INTERVAL)
    if left:
        names = ", ".join(left)
        report(f"pods still exist after {_PODS_TIMEOUT:g} s and may write once more: {names}; run this again later")
    return failed


async def _running(client: Client, options: Options) -> list[str]:
    """The pods of Trimtab that exist, those that cannot be read included."""
    selector = f"{MANAGED_BY}={NAME}"
    pods = await client.list(Pod, namespace=options.namespace, label_selector=selector)
    return [*(pod.metadata.name for pod in pods.items), *(each.name for each in pods.rejected)]
