"""A Deployment's template as its ReplicaSets have it: with the label pod-template-hash. Pure."""

from __future__ import annotations

from trimtab.api import codec
from trimtab.api.apps import Deployment
from trimtab.api.documents import JSON, Document
from trimtab.api.meta import LabelSelector
from trimtab.api.templates import HASH_LABEL, canonical, digest, name_of, same

__all__ = [
    "HASH_LABEL",
    "canonical",
    "digest",
    "hash_for",
    "labelled",
    "name_of",
    "same",
    "selector_with",
    "template_of",
]


def labelled(template: Document, template_hash: str) -> JSON:
    """The template with the hash label."""
    tree = template.tree()
    metadata = tree.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), HASH_LABEL: template_hash}
    return tree


def selector_with(selector: LabelSelector, template_hash: str) -> JSON:
    """The selector, narrowed to pods of one template."""
    tree: JSON = codec.to_tree(selector)
    return {**tree, "matchLabels": {**selector.match_labels, HASH_LABEL: template_hash}}


def hash_for(deployment: Deployment) -> str:
    """The hash of a Deployment's template."""
    return digest(template_of(deployment), deployment.status.collision_count)


def template_of(deployment: Deployment) -> Document:
    """A Deployment's template; API servers refuse a Deployment without one."""
    return deployment.spec.template or Document({})
