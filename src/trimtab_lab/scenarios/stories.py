"""A story: a cluster, workloads and steps, written in YAML.

    name: two-zones-then-three
    description: A third zone is added; what a scale-down leaves of it.
    topology: {zone: topology.kubernetes.io/zone}    # the topology keys to record, each with a short name
    cluster: {...}                                   # the nodes: see `trimtab_lab.nodes.shapes`
    scheduler: {...}                                 # optional: the KubeSchedulerConfiguration that the story needs
    featureGates: {...}                              # optional: the feature gates of the controllers that it needs
    namespaceLabels: {...}                           # optional: labels of the namespace of the run
    workloads: [...]                                 # manifests
    steps: [...]                                     # see `trimtab_lab.scenarios.stepreader`

A story runs on any control plane. It starts only its objects and its nodes: a story with a `scheduler` needs a
scheduler that was started with that configuration, one with `featureGates` controllers that were started with those.

All errors are found before anything is created, and name the field and what to write instead. A duplicate key in YAML
is an error too: the later one would silently win.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from trimtab.api import schedulerconfig
from trimtab.api.documents import Document
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import ZONE
from trimtab.kube.files import parse_yaml
from trimtab_lab.nodes.shapes import Shape
from trimtab_lab.scenarios import stepreader
from trimtab_lab.scenarios.fields import Fields, short_repr, suggest, text_at
from trimtab_lab.scenarios.steps import Apply, Repeat, Step

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


@dataclass(frozen=True, slots=True)
class Story:
    """A story that has been read and checked."""

    name: str
    description: str
    cluster: Shape
    steps: tuple[Step, ...]
    workloads: tuple[Document, ...] = ()
    topology: Mapping[str, str] = field(default_factory=lambda: {"zone": ZONE})
    scheduler: Document | None = None
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    feature_gates: Mapping[str, bool] = field(default_factory=dict)

    def manifests(self) -> Iterator[Document]:
        """All manifests, of the workloads and of the steps."""
        yield from self.workloads
        for step in flatten(self.steps):
            if isinstance(step.action, Apply):
                yield from step.action.manifests


def flatten(steps: tuple[Step, ...]) -> Iterator[Step]:
    """All steps, those inside repetitions once."""
    for step in steps:
        yield step
        if isinstance(step.action, Repeat):
            yield from flatten(step.action.steps)


def load(path: str | Path) -> Story:
    """Read a story from a file. Errors name the file and the field."""
    path = Path(path)
    try:
        return parse(path.read_bytes())
    except OSError as error:
        raise InvalidError(str(path), f"cannot be read: {error.strerror}") from error
    except InvalidError as error:
        raise InvalidError(f"{path}: {error.path}" if error.path else str(path), error.reason) from error


def parse(text: str | bytes) -> Story:
    """Read a story from YAML text."""
    try:
        tree = parse_yaml(text, _Loader)
    except yaml.YAMLError as error:
        raise InvalidError("", f"is not YAML: {error}") from error
    _check_plain(tree, "")
    return read(tree)


def _check_plain(value: Any, path: str) -> None:
    """Check that a value is one that JSON has: YAML also has sets, binary data, and keys of any kind."""
    if isinstance(value, dict):
        for key, each in value.items():
            if isinstance(key, bool) or not isinstance(key, (str, int, float)):
                raise InvalidError(path, f"{short_repr(key)} is not a text: write a name as the key")
            _check_plain(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            _check_plain(each, f"{path}[{index}]")
    elif not isinstance(value, (str, int, float, type(None))):
        raise InvalidError(path, f"{short_repr(value)} is a {type(value).__name__}, which an object cannot have")


def read(tree: Any) -> Story:
    """Read a story from plain values."""
    fields = Fields(tree, "", "a story: name, cluster, workloads, steps")
    story = Story(
        name=_name(fields),
        description=fields.text("description", "").strip(),
        cluster=stepreader.shape(fields.raw("cluster"), "cluster"),
        steps=fields.items("steps", stepreader.read, needed=True),
        workloads=fields.items("workloads", stepreader.manifest),
        topology=fields.table("topology", text_at) or {"zone": ZONE},
        scheduler=_scheduler(fields),
        namespace_labels=fields.table("namespaceLabels", text_at),
        feature_gates=fields.table("featureGates", _switch),
    )
    fields.done()
    _check_references(story)
    return story


def kubernetes_stories() -> dict[str, Path]:
    """The stories that come with Trimtab and run on any cluster, by name."""
    return {path.stem: path for path in sorted(_folder().glob("*.yaml"))}


def trimtab_stories() -> dict[str, Path]:
    """The stories that need Trimtab in the cluster, by name."""
    return {path.stem: path for path in sorted(_folder().glob("trimtab/*.yaml"))}


def gated_stories() -> dict[str, Path]:
    """The stories that need controllers with other feature gates than the default, by name."""
    return {path.stem: path for path in sorted(_folder().glob("gated/*.yaml"))}


def _folder() -> Path:
    return Path(str(resources.files("trimtab_lab.scenarios").joinpath("stories")))


def _name(fields: Fields) -> str:
    name = fields.text("name")
    if not _NAME.fullmatch(name):
        raise InvalidError(
            fields.at("name"), f"{name!r} cannot be part of a namespace's name: write up to 40 of a-z, 0-9 and -"
        )
    return name


def _switch(value: Any, at: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidError(at, "is not true or false")
    return value


def _scheduler(fields: Fields) -> Document | None:
    if not fields.has("scheduler"):
        return None
    document = fields.document("scheduler")
    try:
        schedulerconfig.read(document.tree())
    except InvalidError as error:
        raise error.under(fields.at("scheduler")) from error
    return document


def _check_references(story: Story) -> None:
    """Check that topology keys and workloads exist, and that names of workloads are unique."""
    trees = [manifest.tree() for manifest in story.manifests()]
    names = [tree["metadata"]["name"] for tree in trees]
    workloads = {(tree["kind"], tree["metadata"]["name"]) for tree in trees if "selector" in (tree.get("spec") or {})}
    for name, number in Counter(name for _, name in workloads).items():
        if number > 1:
            raise InvalidError("workloads", f"two workloads are called {name!r}: give each a name of its own")
    for step in flatten(story.steps):
        if step.wait is not None:
            _known(step.wait.of, names, f"{step.path}.wait.of", "workload")
        for expectation in step.expect:
            _known(expectation.of, names, f"{step.path}.expect.of", "workload")
            for key in sorted(expectation.keys):
                _known(key, list(story.topology), f"{step.path}.expect", "topology key")


def _known(name: str, known: list[str], path: str, what: str) -> None:
    if name and name not in known:
        raise InvalidError(path, f"the story has no {what} {name!r}: {suggest(name, known)}")


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: dates are text, and duplicate keys are errors."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key, mark = self.construct_object(key_node, deep=True), key_node.start_mark
            if not isinstance(key, Hashable):
                raise yaml.MarkedYAMLError(problem="the key of a mapping is not a text", problem_mark=mark)
            if key in seen and key != "<<":
                raise yaml.MarkedYAMLError(problem=f"{key!r} is a duplicate key in a mapping", problem_mark=mark)
            seen.add(key)
        return super().construct_mapping(node, deep)
