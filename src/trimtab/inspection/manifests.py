"""Manifests that users write: files of YAML or JSON documents, as objects with their place in the file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trimtab.api import codec
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.meta import ObjectMeta
from trimtab.api.pods import Pod, PodTemplateSpec
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwners
from trimtab.kube.files import yaml_errors

_SUFFIXES = (".yaml", ".yml", ".json")
_TEMPLATE = ("spec", "template")
TEMPLATES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "CloneSet", "Job"),
        _TEMPLATE,
    ),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""Where the kinds that create pods have their template."""
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object of a file, and the line that it begins on."""

    tree: JSON
    file: str
    line: int

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.tree.get("kind", ""))

    @property
    def api_version(self) -> str:
        """Its API version."""
        return str(self.tree.get("apiVersion", ""))

    @property
    def name(self) -> str:
        """Its name; what it is generated from, where it has none."""
        metadata = self.tree.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        return str(metadata.get("name") or metadata.get("generateName") or "")

    def namespace(self, default: str) -> str:
        """Its namespace."""
        metadata = self.tree.get("metadata")
        return str((metadata.get("namespace") if isinstance(metadata, dict) else "") or default)

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """A file of a folder that cannot be read, and why."""

    file: str
    line: int
    reason: str


class _UnreadableError(InvalidError):
    def __init__(self, file: str, line: int, reason: str) -> None:
        super().__init__(f"{file}:{line}" if line else file, reason)
        self.found = UnreadableFile(file, line, reason)


def read(paths: Iterable[Path], unreadable: list[UnreadableFile] | None = None) -> Iterator[Manifest]:
    """All objects of these files and folders; `-` is standard input.

    A folder may have files that only look like manifests, such as the templates of a chart: they are added to
    `unreadable`. A file that is named must be readable. Raises InvalidError with the file and line.
    """
    for path in paths:
        if str(path) == "-":
            yield from parse(sys.stdin.read(), "-")
        elif path.is_dir():
            for inner in sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES and each.is_file()):
                yield from _read_file(inner, unreadable)
        else:
            yield from _read_file(path, None)


def _read_file(path: Path, unreadable: list[UnreadableFile] | None) -> Iterator[Manifest]:
    try:
        yield from parse(_text(path), str(path))
    except _UnreadableError as error:
        if unreadable is None:
            raise
        unreadable.append(error.found)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise _UnreadableError(str(path), 0, f"cannot be read: {reason}") from error


def parse(text: str, file: str) -> Iterator[Manifest]:
    """The objects of a text; items of lists one by one."""
    try:
        for tree, line in _documents(text):
            yield from _objects(tree, file, line)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = f"is not YAML: {getattr(error, 'problem', None) or error}"
        raise _UnreadableError(file, mark.line + 1 if mark else 0, reason) from error


def _documents(text: str) -> Iterator[tuple[Any, int]]:
    """The documents of a text, and the line that each begins on."""
    with yaml_errors():
        loader = _Loader(text)
        try:
            while loader.check_node():
                node = loader.get_node()
                yield loader.construct_document(node), node.start_mark.line + 1 if node is not None else 1
        finally:
            loader.dispose()


def _objects(tree: Any, file: str, line: int) -> Iterator[Manifest]:
    if not isinstance(tree, dict):
        return
    items = tree.get("items")
    if isinstance(items, list) and str(tree.get("kind", "")).endswith("List"):
        for item in items:
            yield from _objects(item, file, line)
    elif tree.get("kind"):
        yield Manifest(tree, file, line)


def template_of(manifest: Manifest, owners: ReplicaSetOwners = DEPLOYMENTS) -> PodTemplateSpec | None:
    """The pod template of a manifest, or the pod itself; None for a kind that creates no pods. Raises InvalidError."""
    if manifest.kind == "Pod":
        pod = _converted(manifest, manifest.tree, Pod)
        return PodTemplateSpec(metadata=pod.metadata, spec=pod.spec)
    path = _TEMPLATE if manifest.kind in owners.by_kind else TEMPLATES.get(manifest.kind)
    if path is None:
        return None
    tree: Any = manifest.tree
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return None if tree is None else _converted(manifest, tree, PodTemplateSpec)


def _converted(manifest: Manifest, tree: Any, kind: type[Any]) -> Any:
    try:
        return codec.convert(tree, kind)
    except InvalidError as error:
        raise InvalidError(f"{manifest.place}: {manifest.kind} {manifest.name}: {error.path}", error.reason) from error


def pod_of(manifest: Manifest, namespace: str, owners: ReplicaSetOwners = DEPLOYMENTS) -> Pod | None:
    """The pod that a manifest describes, or that its workload creates; None for a kind that creates no pods."""
    template = template_of(manifest, owners)
    if template is None:
        return None
    metadata = ObjectMeta(
        name=manifest.name if manifest.kind == "Pod" else f"{manifest.name}-0",
        namespace=manifest.namespace(namespace),
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
    )
    return Pod(metadata=metadata, spec=template.spec)
