"""Validation of nodes and namespaces, and of kinds of which only the metadata is checked."""

from __future__ import annotations

from trimtab_lab.apiserver.kinds.validation import addresses, metadata, names, placement, resources
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    duplicate,
    each,
    forbidden,
    invalid,
)
from trimtab_lab.apiserver.storage.store import Tree


def object_metadata(tree: Tree, old: Tree | None, found: Causes, *, namespaced: bool, finalizers: bool = True) -> None:
    """Check the metadata of an object with a DNS name."""
    meta = tree["metadata"]
    if old is None:
        metadata.created(meta, found, namespaced=namespaced, name=names.subdomain, finalizers=finalizers)
    else:
        metadata.updated(meta, old["metadata"], found, finalizers=finalizers)


def only_metadata(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    """A namespaced kind of which the lab checks nothing else."""
    object_metadata(tree, old, found, namespaced=True)


def only_cluster_metadata(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    """A cluster-scoped kind of which the lab checks nothing else."""
    object_metadata(tree, old, found, namespaced=False)


def node(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    """A node. Kubernetes reports taints as if they stood in the metadata."""
    spec = tree["spec"]
    metadata.created(tree["metadata"], found, namespaced=False, name=names.subdomain)
    placement.taints(spec.get("taints") or (), found, "metadata.taints")
    _amounts(tree["status"], found)
    for index, text in enumerate(spec.get("podCIDRs") or ()):
        addresses.network(text, found, f"spec.podCIDRs[{index}]")
    if old is not None:
        node_update(tree, old, found)


def _amounts(status: Tree, found: Causes) -> None:
    for field in ("capacity", "allocatable"):
        for name, text in (status.get(field) or {}).items():
            resources.amount(name, text, found, f"status.{field}.{name}")


def node_update(tree: Tree, old: Tree, found: Causes) -> None:
    """The immutable fields of a node, and its status."""
    spec, before = tree["spec"], old["spec"]
    metadata.updated(tree["metadata"], old["metadata"], found)
    _amounts(tree["status"], found)
    seen: list[Tree] = []
    for index, address in enumerate(tree["status"].get("addresses") or ()):
        if address in seen:
            shown = {"Type": address.get("type", ""), "Address": address.get("address", "")}
            found.append(duplicate(f"status.addresses[{index}]", shown))
        seen.append(address)
    if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
        fault = 'node updates may not change podCIDR except from "" to valid'
        found.append(forbidden("spec.podCIDRs", fault))
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        fault = 'node updates may not change providerID except from "" to valid'
        found.append(forbidden("spec.providerID", fault))
    placement.taints(spec.get("taints") or (), found, "metadata.taints")


def namespace(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    metadata.created(tree["metadata"], found, namespaced=False, name=names.label)
    for finalizer in tree["spec"].get("finalizers") or ():
        _finalizer(finalizer, found, "spec.finalizers")
    if old is not None:
        metadata.updated(tree["metadata"], old["metadata"], found)


def _finalizer(finalizer: str, found: Causes, path: str) -> None:
    found += each(path, finalizer, names.qualified(finalizer))
    metadata.short_finalizer(finalizer, found, path)


def namespace_status(tree: Tree, old: Tree, found: Causes) -> None:
    metadata.updated(tree["metadata"], old["metadata"], found)
    phase, deleting = tree["status"].get("phase", ""), bool(tree["metadata"].get("deletionTimestamp"))
    wanted = "Terminating" if deleting else "Active"
    if phase != wanted:
        fault = f"may only be '{wanted}' if `deletionTimestamp` is {'not ' if deleting else ''}empty"
        found.append(invalid("status.Phase", phase, fault))


def namespace_finalize(tree: Tree, old: Tree, found: Causes) -> None:
    metadata.updated(tree["metadata"], old["metadata"], found)
    for index, finalizer in enumerate(tree["spec"].get("finalizers") or ()):
        _finalizer(finalizer, found, f"spec.finalizers[{index}]")
