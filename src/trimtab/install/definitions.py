"""Which CustomResourceDefinitions are installed. One that is there already and not ours is left alone.

OpenKruise brings a CloneSet of its own. Replacing its definition would change what its objects mean, and removing one
removes every object of it. So a definition is ours only if it carries our label; `CloneSet`, the one that others bring,
is left out too where no cluster can be asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from trimtab.api import crds
from trimtab.api.documents import JSON
from trimtab.install.options import Options

Choice = Literal["auto", "all", "none"]

_GENERATOR = "controller-gen.kubebuilder.io/version"

BROUGHT_BY_OTHERS: Mapping[str, str] = {"clonesets.apps.kruise.io": "OpenKruise"}


@dataclass(frozen=True, slots=True)
class Chosen:
    """The definitions to install, and what is to be said about the others."""

    manifests: tuple[JSON, ...]
    notes: tuple[str, ...] = ()


def is_ours(definition: JSON) -> bool:
    """Whether a definition that is in a cluster was put there by Trimtab, and nobody has put theirs over it since.

    Applying adds to labels, so that ours may stand on a definition of theirs; theirs name the generator that made them.
    """
    metadata = definition.get("metadata") or {}
    labels = metadata.get("labels") or {}
    labelled = all(labels.get(name) == value for name, value in crds.MANAGED_BY_LABELS.items())
    return labelled and _GENERATOR not in (metadata.get("annotations") or {})


def choose(options: Options, choice: Choice, present: Iterable[JSON] | None) -> Chosen:
    """What to install, given the definitions that are there already; None if no cluster could be asked."""
    everything = {kind.name: _labelled(crds.manifest(kind), options) for kind in crds.KINDS}
    if choice == "none":
        return Chosen(())
    if present is None:
        notes = {
            name: f"{name} is left out, for no cluster could be asked whether {owner} has brought it; "
            "--crds=all includes it"
            for name, owner in BROUGHT_BY_OTHERS.items()
            if choice == "auto"
        }
    else:
        notes = {
            each["metadata"]["name"]: f"{each['metadata']['name']} is there already and not Trimtab's: it is left as "
            "it is, and its objects are left to whoever brought it"
            for each in present
            if each["metadata"]["name"] in everything and not is_ours(each)
        }
    return Chosen(tuple(each for name, each in everything.items() if name not in notes), tuple(notes.values()))


def _labelled(manifest: JSON, options: Options) -> JSON:
    return {**manifest, "metadata": {**manifest["metadata"], "labels": options.labels()}}


def has_clonesets(chosen: Chosen, present: Iterable[JSON] | None) -> bool:
    """Whether the CloneSets of a cluster are Trimtab's: its definition is there, or about to be."""
    ours = [*chosen.manifests, *(each for each in present or () if is_ours(each))]
    return any(each["metadata"]["name"] in BROUGHT_BY_OTHERS for each in ours)
