"""The way back: an installation taken out of a cluster, in an order that never leaves anybody waiting.

1. What API servers ask is withdrawn first, so that no request waits for somebody who is about to go.
2. What runs is ended, and waited for: nobody writes any more.
3. What was written to other people's objects is taken back (`sweeps`). No finalizer holds anything up.
4. Everything else goes, the namespace last.

Definitions of our kinds stay unless they are asked for by name of a flag: deleting one deletes every object of it.
Only what carries our label is removed, whatever its name, and of the namespace only one that holds nothing of anybody
else's. It may all be done again, any number of times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import yaml

from trimtab.api import crds
from trimtab.api.documents import JSON
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.pods import Pod
from trimtab.install import manifests, namespaces
from trimtab.install.definitions import is_ours
from trimtab.install.deployments import CONFIGURATION, CONFIGURATION_FILE
from trimtab.install.options import MANAGED_BY, NAME, Options, account
from trimtab.install.sweeps import SWEEPS, Sweep
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, within
from trimtab.kube.errors import ApiError, NotFound
from trimtab.kube.resources import Resource, untyped

Say = Callable[[str], None]

_ENDED_WITHIN = 60.0
_FORGOTTEN_WITHIN = 30.0
_LOOK_EVERY = 0.5

PLURALS: Mapping[str, str] = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "ConfigMap": "configmaps",
    "Deployment": "deployments",
    "Lease": "leases",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "Namespace": "namespaces",
    "NetworkPolicy": "networkpolicies",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Secret": "secrets",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
"""What each kind that is installed, or made by what is installed, is called on the wire."""

_ASKING = frozenset(kind for kind in PLURALS if kind.startswith(("Mutating", "Validating")))


async def installed(client: Client, namespace: str) -> Options:
    """What an installation was told, as far as it can still be read; names follow from it."""
    options = Options(namespace=namespace, shared=await namespaces.tenant(client, namespace))
    try:
        found = await client.get(untyped("v1", "ConfigMap", "configmaps"), CONFIGURATION, namespace=namespace)
        told = replace(options, configuration=dict(yaml.safe_load(found["data"][CONFIGURATION_FILE])))
        told.read()
    except (NotFound, KeyError, ValueError, TypeError, yaml.YAMLError):  # InvalidError is a ValueError
        return options
    return told


def intentions(options: Options) -> Iterator[str]:
    """What `remove` would do, a line each."""
    for each in (*manifests.everything(options), *_made_while_running(options)):
        yield f"would remove {_where(each)}"
    if options.shared:
        yield f"would leave alone: Namespace {options.namespace}: {options.shared}"
    for what in SWEEPS:
        yield f"would take back {what}"


async def remove(client: Client, options: Options, say: Say, *, sweeps: Mapping[str, Sweep] = SWEEPS) -> None:
    """Take an installation out of a cluster."""
    objects = manifests.everything(options)
    await _delete(client, [each for each in objects if each["kind"] in _ASKING], say)
    await _delete(client, [each for each in objects if each["kind"] == "Deployment"], say)
    await _ended(client, options, say)
    for what, sweep in sweeps.items():
        say(f"taken back: {await _swept(client, sweep)}{what}")
    rest = [each for each in objects if each["kind"] not in {*_ASKING, "Deployment"}]
    await _delete(client, [*_made_while_running(options), *reversed(rest)], say)
    if options.shared:
        say(f"left alone: Namespace {options.namespace}: {options.shared}")


async def _swept(client: Client, sweep: Sweep) -> str:
    """Take something back; how many there were, where that is known, which it is if nothing came in between.

    An API server goes by a policy that refuses it for some seconds after that was removed.
    """
    told, until = "", client.clock.monotonic() + round(_FORGOTTEN_WITHIN * SECOND)
    while True:
        try:
            count = await sweep(client)
        except ApiError:
            told = "all "
            if client.clock.monotonic() >= until:
                raise
            await client.clock.sleep(_LOOK_EVERY)
        else:
            return told or f"{count} "


def _made_while_running(options: Options) -> Iterator[JSON]:
    """What Trimtab itself put into its namespace; that may be one that stays."""
    secret = options.read().webhooks.certificates.stored_in
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": options.namespace, "name": secret}}
    for component in options.components:
        metadata = {"namespace": options.namespace, "name": account(component)}
        yield {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}


async def remove_definitions(client: Client, say: Say) -> None:
    """Remove the definitions that are ours, and with them every object of these kinds."""
    for each in await ours(client):
        name = each["metadata"]["name"]
        await client.delete(_definitions(), name, uid=each["metadata"]["uid"])
        say(f"removed CustomResourceDefinition {name}, and every object of it")


async def ours(client: Client) -> list[JSON]:
    """The definitions in a cluster that Trimtab brought."""
    names = {kind.name for kind in crds.KINDS}
    return [
        each
        for each in (await client.list(_definitions())).items
        if each["metadata"]["name"] in names and is_ours(each)
    ]


async def lost_with(client: Client, definition: JSON) -> int:
    """How many objects would go with a definition."""
    spec = definition["spec"]
    version = next(each["name"] for each in spec["versions"] if each["storage"])
    kind = untyped(f"{spec['group']}/{version}", spec["names"]["kind"], spec["names"]["plural"])
    return len((await client.list(kind)).items)


def _definitions() -> Resource[JSON]:
    return Resource.of(CustomResourceDefinition).raw


async def _delete(client: Client, objects: Sequence[JSON], say: Say) -> None:
    for each in objects:
        metadata = each["metadata"]
        name, namespace = metadata["name"], metadata.get("namespace", "")
        resource = untyped(each["apiVersion"], each["kind"], PLURALS[each["kind"]], namespaced=bool(namespace))
        where = _where(each)
        try:
            found = await client.get(resource, name, namespace=namespace)
            if not _is_labelled(found):
                say(f"left alone: {where} does not carry the label {MANAGED_BY}: {NAME}")
                continue
            await client.delete(resource, name, namespace=namespace, uid=found["metadata"]["uid"])
        except NotFound:
            continue
        say(f"removed {where}")


def _where(an_object: JSON) -> str:
    metadata = an_object["metadata"]
    namespace = f"{metadata['namespace']}/" if "namespace" in metadata else ""
    return f"{an_object['kind']} {namespace}{metadata['name']}"


def _is_labelled(found: JSON) -> bool:
    """Leases carry no labels: whoever elects a leader makes them, and their names are ours alone."""
    return namespaces.is_ours(found) or found["kind"] == "Lease"


async def _ended(client: Client, options: Options, say: Say) -> None:
    """Wait until nothing of Trimtab runs any more, for a while."""

    async def gone() -> None:
        while list(await _running(client, options)):
            await client.clock.sleep(_LOOK_EVERY)

    try:
        await within(client.clock, _ENDED_WITHIN, gone())
    except TimeoutError:
        left = ", ".join(await _running(client, options))
        say(f"still there after {_ENDED_WITHIN:g} s, and may write once more: {left}; run this again later")


async def _running(client: Client, options: Options) -> Iterator[str]:
    selector = f"{MANAGED_BY}={NAME}"
    pods = await client.list(Pod, namespace=options.namespace, label_selector=selector)
    return (pod.metadata.name for pod in pods.items)
