"""Several installations in one cluster: which there are, what each manages, and what one of them left behind.

An installation is found by its ConfigMap. Several get along if each names its own namespaces (`namespaces` of the
configuration): two that manage the same namespace both hold its scale-downs and write costs to its pods.

A removal reverts what was written in the namespaces that no other installation manages: in the others it cannot be
known which of them wrote a cost, and the one that stays keeps it current, or reverts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import yaml

from trimtab.api import configuration
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.install import access
from trimtab.install.deployments import CONFIGURATION, CONFIGURATION_FILE
from trimtab.install.options import MANAGED_BY, NAME, Options
from trimtab.kube.client import Client
from trimtab.kube.files import parse_yaml
from trimtab.kube.resources import untyped

Scope = Callable[[str], bool]
"""Whether a namespace is included."""

_CONFIG_MAPS = untyped("v1", "ConfigMap", "configmaps")
_BINDINGS = untyped("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation, named by its namespace, and the namespaces that it manages; all, if empty."""

    namespace: str
    manages: tuple[str, ...] = ()

    def includes(self, namespace: str) -> bool:
        """Whether it manages a namespace."""
        return not self.manages or namespace in self.manages


def configured(tree: JSON) -> JSON | None:
    """The valid configuration in a ConfigMap of an installation; None if it has none."""
    try:
        found = parse_yaml(tree["data"][CONFIGURATION_FILE])
        configuration.read(found)
    except (KeyError, TypeError, yaml.YAMLError, InvalidError):
        return None
    return dict(found)


async def others(client: Client, namespace: str) -> list[Installation]:
    """The installations in other namespaces. One whose configuration cannot be read is taken to manage everything."""
    listed = await client.list(_CONFIG_MAPS, label_selector=f"app.kubernetes.io/name={NAME}")
    found = []
    for each in listed.items:
        own, name = each["metadata"]["namespace"], each["metadata"]["name"]
        if name == CONFIGURATION and own != namespace:
            found.append(Installation(own, tuple((configured(each) or {}).get("namespaces") or ())))
    return sorted(found, key=lambda each: each.namespace)


def scope(others: Iterable[Installation]) -> Scope:
    """The namespaces that no other installation manages; those that ours managed once are among them."""
    rest = tuple(others)
    return lambda namespace: not any(each.includes(namespace) for each in rest)


def overlaps(own: Sequence[str], others: Iterable[Installation]) -> Iterator[str]:
    """Notes about installations that manage the same namespaces."""
    for each in others:
        both = sorted(set(own) & set(each.manages)) if own and each.manages else [*(own or each.manages)]
        if both or not (own or each.manages):
            where = ", ".join(both) or "all namespaces"
            yield (
                f"the installation in {each.namespace} manages {where} too: both would hold scale-downs and write "
                "costs there; name different namespaces in their configurations"
            )


async def dropped_bindings(client: Client, options: Options) -> list[JSON]:
    """The RoleBindings that an installation has in namespaces which its configuration does not name any more."""
    wanted = {_place(each) for each in access.manifests(options) if each["kind"] == "RoleBinding"}
    listed = await client.list(_BINDINGS, label_selector=f"{MANAGED_BY}={NAME}")
    found = [each for each in listed.items if _is_bound_to(each, options) and _place(each) not in wanted]
    return [
        {"apiVersion": _BINDINGS.api_version, "kind": "RoleBinding", "metadata": each["metadata"]} for each in found
    ]


def _place(binding: JSON) -> tuple[str, str]:
    return binding["metadata"]["namespace"], binding["metadata"]["name"]


def _is_bound_to(binding: JSON, options: Options) -> bool:
    """Whether it gives an installation permissions in a namespace that is not its own."""
    subjects = binding.get("subjects") or ()
    return binding["metadata"]["namespace"] != options.namespace and any(
        (each.get("kind"), each.get("namespace")) == ("ServiceAccount", options.namespace) for each in subjects
    )
