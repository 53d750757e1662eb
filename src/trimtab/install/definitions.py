"""Which CustomResourceDefinitions are installed. An existing one that is not ours is never changed.

OpenKruise has its own CloneSet. Replacing its definition would change its objects, and removing one deletes every
object of the kind. So a definition is ours only if it carries our label; `CloneSet`, which others may have installed,
is left out if the cluster cannot be reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from trimtab.api import crds
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.workloads import WorkloadKind
from trimtab.install.options import SHARED_LABELS

Choice = Literal["auto", "all", "none"]

_GENERATOR = "controller-gen.kubebuilder.io/version"

FOREIGN_OWNERS: Mapping[str, str] = {"clonesets.apps.kruise.io": "OpenKruise"}


@dataclass(frozen=True, slots=True)
class Selection:
    """The definitions to install, and notes about the others."""

    manifests: tuple[JSON, ...]
    notes: tuple[str, ...] = ()


def is_ours(definition: JSON) -> bool:
    """Whether a definition in a cluster was installed by Trimtab, and not overwritten by another installation since.

    An apply adds to labels, so a foreign definition may carry ours; foreign ones have their generator's annotation.
    """
    metadata = definition.get("metadata") or {}
    labels = metadata.get("labels") or {}
    labelled = all(labels.get(name) == value for name, value in crds.MANAGED_BY_LABELS.items())
    return labelled and _GENERATOR not in (metadata.get("annotations") or {})


def choose(choice: Choice, existing: Iterable[JSON] | None) -> Selection:
    """What to install, given the existing definitions; None if the cluster could not be reached.

    Raises InvalidError if objects are stored in a version that this Trimtab does not have: they could not be read.
    """
    everything = {kind.name: _labelled(crds.manifest(kind)) for kind in crds.KINDS}
    if choice == "none":
        return Selection(())
    for each in existing or ():
        _check_stored_versions(each, everything)
    if existing is None:
        notes = {
            name: f"{name} is left out: without a cluster it is unknown whether {owner} has installed it; "
            "--crds=all includes it"
            for name, owner in FOREIGN_OWNERS.items()
            if choice == "auto"
        }
    else:
        notes = {
            each["metadata"]["name"]: f"{each['metadata']['name']} exists and is not Trimtab's: it is not "
            "changed, and Trimtab does not manage its objects"
            for each in existing
            if each["metadata"]["name"] in everything and not is_ours(each)
        }
    return Selection(tuple(each for name, each in everything.items() if name not in notes), tuple(notes.values()))


def workload_notes(kinds: Iterable[WorkloadKind], existing: Iterable[JSON] | None) -> Iterator[str]:
    """What keeps workloads that the configuration names from being followed; nothing if no cluster was reached."""
    if existing is None:
        return
    known = {each["metadata"]["name"]: each.get("spec") or {} for each in existing}
    for kind in kinds:
        name = f"{kind.plural}.{kind.group}"
        reason = _why_not_followed(kind, known.get(name))
        if reason:
            yield f"{name} {reason}: until that is so, Trimtab does nothing about {kind.kind}s"


def _why_not_followed(kind: WorkloadKind, spec: JSON | None) -> str:
    if spec is None:
        return "is not in the cluster; install its definition"
    found = (spec.get("names") or {}).get("kind")
    if found != kind.kind:
        return f"is the kind {found}; write that in workloads"
    version: JSON = next((each for each in spec.get("versions") or () if each.get("name") == kind.version), {})
    if not version.get("served"):
        return f"is not served in version {kind.version}; write another one in workloads"
    return "" if "scale" in (version.get("subresources") or {}) else "has no scale subresource, which it needs"


def _check_stored_versions(existing: JSON, everything: Mapping[str, JSON]) -> None:
    name = existing["metadata"]["name"]
    if name not in everything or not is_ours(existing):
        return
    served = {version["name"] for version in everything[name]["spec"]["versions"]}
    lost = sorted(set((existing.get("status") or {}).get("storedVersions") or ()) - served)
    if lost:
        reason = f"has {', '.join(lost)}, which this version of Trimtab does not have: rewrite the stored objects first"
        raise InvalidError(f"{name}: status.storedVersions", reason)


def _labelled(manifest: JSON) -> JSON:
    return {**manifest, "metadata": {**manifest["metadata"], "labels": dict(SHARED_LABELS)}}


def has_clonesets(chosen: Selection, existing: Iterable[JSON] | None) -> bool:
    """Whether the CloneSets of a cluster are Trimtab's: its definition is installed, or about to be."""
    ours = [*chosen.manifests, *(each for each in existing or () if is_ours(each))]
    return any(each["metadata"]["name"] in FOREIGN_OWNERS for each in ours)
