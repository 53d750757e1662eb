"""Checks of what runs: the version of Kubernetes, the Deployments, the configuration, and our definitions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from trimtab import __version__
from trimtab.api import crds
from trimtab.api.annotations import CONFIGURATION_DIGEST
from trimtab.api.documents import JSON
from trimtab.doctor.facts import CLONESETS, Facts
from trimtab.doctor.findings import Problem, name_of
from trimtab.inspection.lint.findings import Severity
from trimtab.install.definitions import FOREIGN_OWNERS, is_ours
from trimtab.install.deployments import CONFIGURATION

OLDEST, NEWEST = (1, 30), (1, 37)
"""The versions of Kubernetes that Trimtab supports."""
_VERSION = re.compile(r"v?(\d+)\.(\d+)")
_VERSION_LABEL = "app.kubernetes.io/version"


def not_installed(facts: Facts) -> Iterator[Problem]:
    """Nothing of Trimtab in the namespace."""
    if not facts.is_installed:
        yield Problem(f"Namespace {facts.namespace}", "Trimtab is not installed here")
    elif not facts.is_local and not facts.deployments:
        yield Problem(
            f"Namespace {facts.namespace}", "there is no Deployment of Trimtab, but other parts of it are there"
        )


def server_version(facts: Facts) -> Iterator[Problem]:
    """An API server of a version that is not supported."""
    found = _VERSION.match(facts.server_version or "")
    version = (0, 0) if found is None else (int(found[1]), int(found[2]))
    what = f"it is {facts.server_version or 'of an unknown version'}"
    if version < OLDEST:
        yield Problem("the API server", f"{what}; Trimtab needs {_text(OLDEST)} or later")
    elif version > NEWEST:
        message = f"{what}; Trimtab was tested with versions up to {_text(NEWEST)}"
        yield Problem("the API server", message, severity=Severity.NOTE)


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def component_versions(facts: Facts) -> Iterator[Problem]:
    """Components of another version than this command, which checks by its own version's rules."""
    for each in facts.deployments or ():
        version = (each["metadata"].get("labels") or {}).get(_VERSION_LABEL, "unknown")
        if version != __version__:
            yield Problem(name_of(each), f"it is of version {version}, and this command of {__version__}")


def unready_deployments(facts: Facts) -> Iterator[Problem]:
    """Deployments whose pods are not all ready."""
    for each in facts.deployments or ():
        wanted = each["spec"].get("replicas", 1)
        ready = (each.get("status") or {}).get("readyReplicas", 0)
        if not wanted:
            yield Problem(name_of(each), "it is scaled to 0", fix=f"kubectl {_scale(each)} --replicas=2")
        elif ready < wanted:
            severity = Severity.WARNING if ready else Severity.ERROR
            yield Problem(name_of(each), f"{ready} of {wanted} pods are ready", _readiness(each), severity)


def _scale(deployment: JSON) -> str:
    metadata = deployment["metadata"]
    return f"-n {metadata['namespace']} scale deployment {metadata['name']}"


def _readiness(deployment: JSON) -> str:
    metadata = deployment["metadata"]
    target = f"-n {metadata['namespace']} deployment/{metadata['name']}"
    return f"look at `kubectl logs {target}`; /readyz?verbose on port 10269 of a pod says what is missing"


def invalid_configuration(facts: Facts) -> Iterator[Problem]:
    """A configuration that is missing or that processes would refuse."""
    where = f"ConfigMap {facts.namespace}/{CONFIGURATION}"
    if facts.configuration_error:
        yield Problem(where, facts.configuration_error)
    elif facts.deployments and not facts.configuration_text:
        yield Problem(where, "it does not exist, so no process can start")


def unloaded_configuration(facts: Facts) -> Iterator[Problem]:
    """Pods that run with another configuration than the installed one: it is read when they start."""
    if not facts.configuration_text:
        return
    digest = hashlib.sha256(facts.configuration_text.encode()).hexdigest()[:16]
    for each in facts.deployments or ():
        template = each["spec"]["template"].get("metadata") or {}
        loaded = (template.get("annotations") or {}).get(CONFIGURATION_DIGEST)
        if loaded is not None and loaded != digest:
            message = "its pods were started with another configuration than the ConfigMap has now"
            metadata = each["metadata"]
            restart = f"kubectl -n {metadata['namespace']} rollout restart deployment {metadata['name']}"
            yield Problem(name_of(each), message, f"apply `trimtab install --config FILE` again, or {restart}")


def missing_definitions(facts: Facts) -> Iterator[Problem]:
    """Kinds of ours that the API server does not serve."""
    if not facts.is_installed:
        return
    found = {each["metadata"]["name"]: each for each in facts.definitions or ()}
    for kind in crds.KINDS:
        what = f"CustomResourceDefinition {kind.name}"
        if kind.name not in found:
            severity = Severity.NOTE if kind.name == CLONESETS else None
            yield Problem(what, f"it does not exist: there can be no {kind.kind}", severity=severity)
        elif not _is_established(found[kind.name]):
            yield Problem(what, "the API server does not serve it yet", "look at the conditions in its status")


def _is_established(definition: JSON) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def foreign_definitions(facts: Facts) -> Iterator[Problem]:
    """Definitions of the names of our kinds that another program installed."""
    for kind, each in _defined(facts):
        if not is_ours(each):
            owner = FOREIGN_OWNERS.get(kind.name)
            yield Problem(
                f"CustomResourceDefinition {kind.name}",
                f"it is not Trimtab's, so Trimtab does not manage any {kind.kind}",
                fix=f"nothing, if {owner} is to manage them" if owner else "",
                severity=Severity.NOTE if owner else None,
            )


def outdated_definitions(facts: Facts) -> Iterator[Problem]:
    """Definitions of ours with another schema than this version's."""
    for kind, each in _defined(facts):
        if is_ours(each) and _schemas(each) != _schemas(crds.manifest(kind)):
            message = f"its schema is not that of version {__version__}: fields may be refused or dropped"
            yield Problem(f"CustomResourceDefinition {kind.name}", message)


def _defined(facts: Facts) -> Iterator[tuple[crds.CustomKind, JSON]]:
    kinds = {kind.name: kind for kind in crds.KINDS}
    for each in facts.definitions or ():
        if each["metadata"]["name"] in kinds:
            yield kinds[each["metadata"]["name"]], each


def _schemas(definition: JSON) -> dict[str, JSON]:
    return {each["name"]: each.get("schema") for each in definition["spec"]["versions"]}
