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


def object_metadata(tree: Tree, old: Tree | None, causes: Causes, *, namespaced: bool, finalizers: bool = True) -> None:
    """Check the metadata of an object with a DNS name."""
    meta = tree["metadata"]
    if old is None:
        metadata.validate_create(meta, causes, namespaced=namespaced, name=names.subdomain, finalizers=finalizers)
    else:
        metadata.validate_update(meta, old["metadata"], causes, finalizers=finalizers)


def only_metadata(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    """A namespaced kind of which the lab checks nothing else."""
    object_metadata(tree, old, causes, namespaced=True)


def only_cluster_metadata(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    """A cluster-scoped kind of which the lab checks nothing else."""
    object_metadata(tree, old, causes, namespaced=False)


def node(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    """A node. Kubernetes reports taints as if they stood in the metadata."""
    spec = tree["spec"]
    metadata.validate_create(tree["metadata"], causes, namespaced=False, name=names.subdomain)
    placement.taints(spec.get("taints") or (), causes, "metadata.taints")
    _amounts(tree["status"], causes)
    for index, text in enumerate(spec.get("podCIDRs") or ()):
        addresses.network(text, causes, f"spec.podCIDRs[{index}]")
    if old is not None:
        node_update(tree, old, causes)


def _amounts(status: Tree, causes: Causes) -> None:
    for field in ("capacity", "allocatable"):
        for name, text in (status.get(field) or {}).items():
            resources.amount(name, text, causes, f"status.{field}.{name}")


def node_update(tree: Tree, old: Tree, causes: Causes) -> None:
    """The immutable fields of a node, and its status."""
    spec, before = tree["spec"], old["spec"]
    metadata.validate_update(tree["metadata"], old["metadata"], causes)
    _amounts(tree["status"], causes)
    seen: list[Tree] = []
    for index, address in enumerate(tree["status"].get("addresses") or ()):
        if address in seen:
            shown = {"Type": address.get("type", ""), "Address": address.get("address", "")}
            causes.append(duplicate(f"status.addresses[{index}]", shown))
        seen.append(address)
    if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
        fault = 'node updates may not change podCIDR except from "" to valid'
        causes.append(forbidden("spec.podCIDRs", fault))
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        fault = 'node updates may not change providerID except from "" to valid'
        causes.append(forbidden("spec.providerID", fault))
    placement.taints(spec.get("taints") or (), causes, "metadata.taints")


def namespace(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    metadata.validate_create(tree["metadata"], causes, namespaced=False, name=names.label)
    for finalizer in tree["spec"].get("finalizers") or ():
        _finalizer(finalizer, causes, "spec.finalizers")
    if old is not None:
        metadata.validate_update(tree["metadata"], old["metadata"], causes)


def _finalizer(finalizer: str, causes: Causes, path: str) -> None:
    causes += each(path, finalizer, names.qualified(finalizer))
    metadata.short_finalizer(finalizer, causes, path)


def namespace_status(tree: Tree, old: Tree, causes: Causes) -> None:
    metadata.validate_update(tree["metadata"], old["metadata"], causes)
    phase, deleting = tree["status"].get("phase", ""), bool(tree["metadata"].get("deletionTimestamp"))
    wanted = "Terminating" if deleting else "Active"
    if phase != wanted:
        fault = f"may only be '{wanted}' if `deletionTimestamp` is {'not ' if deleting else ''}empty"
        causes.append(invalid("status.Phase", phase, fault))


def namespace_finalize(tree: Tree, old: Tree, causes: Causes) -> None:
    metadata.validate_update(tree["metadata"], old["metadata"], causes)
    for index, finalizer in enumerate(tree["spec"].get("finalizers") or ()):
        _finalizer(finalizer, causes, f"spec.finalizers[{index}]")
