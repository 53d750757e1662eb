"""Cluster files: a cluster as JSON, compressed with zstandard, that every command reads in place of a live cluster.

A file has what decisions look at and nothing else (see `contents`); typed objects are complete in that sense, so what
is written is exactly what is read again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec
import zstandard

from trimtab.api import codec, times
from trimtab.api.apps import Deployment, ReplicaSet, StatefulSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Namespace, ReplicationController, Service
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicy
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.api.workloads import CustomWorkload, WorkloadKind, workload_type
from trimtab.inspection.cluster import KINDS, Cluster, Gap

API_VERSION = "trimtab.dev/v1alpha1"
KIND = "ClusterSnapshot"
_MAGIC = b"\x28\xb5\x2f\xfd"
_LEVEL = 3
_MOST = 4 * 2**30
"""Bytes of JSON that a file may decompress to."""


class CustomWorkloads(WorkloadKind):
    """The workloads of a kind that a configuration named."""

    items: tuple[CustomWorkload, ...] = ()

    def typed(self) -> tuple[type[CustomWorkload], tuple[CustomWorkload, ...]]:
        """The kind's type, and the workloads as objects of it."""
        named = WorkloadKind(group=self.group, version=self.version, kind=self.kind, plural=self.plural)
        model = workload_type(named)
        return model, tuple(model(metadata=each.metadata, spec=each.spec, status=each.status) for each in self.items)


class Objects(Model):
    """The objects of a file, by plural."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    deployments: tuple[Deployment, ...] = ()
    replicasets: tuple[ReplicaSet, ...] = ()
    replicationcontrollers: tuple[ReplicationController, ...] = ()
    statefulsets: tuple[StatefulSet, ...] = ()
    services: tuple[Service, ...] = ()
    clonesets: tuple[CloneSet, ...] = ()
    scaledownpolicies: tuple[ScaleDownPolicy, ...] = ()
    podgroupcosts: tuple[PodGroupCost, ...] = ()
    unitedtopologies: tuple[UnitedTopology, ...] = ()
    workloads: tuple[CustomWorkloads, ...] = ()


class ClusterFile(Model, omit_defaults=False):
    """A cluster at one moment, as a file holds it."""

    api_version: Literal["trimtab.dev/v1alpha1"]
    kind: Literal["ClusterSnapshot"]
    time: str
    namespace: str = "default"
    anonymized: bool = False
    gaps: tuple[Gap, ...] = ()
    objects: Objects = Objects()


def to_file(cluster: Cluster, *, anonymized: bool = False) -> ClusterFile:
    """A cluster as a file holds it."""
    objects: dict[str, Any] = {info.plural: tuple(cluster.all(info.model)) for info in KINDS}
    workloads = tuple(
        CustomWorkloads(**msgspec.structs.asdict(model.named_as), items=tuple(cluster.all(model)))
        for model in cluster.owners.custom
    )
    return ClusterFile(
        api_version="trimtab.dev/v1alpha1",
        kind="ClusterSnapshot",
        time=times.format_nano(cluster.time),
        namespace=cluster.namespace,
        anonymized=anonymized,
        gaps=cluster.gaps,
        objects=Objects(**objects, workloads=workloads),
    )


def encode(file: ClusterFile | Any, *, compress: bool = True) -> bytes:
    """A file, or the tree of one, as bytes."""
    text = codec.encode(file)
    return zstandard.ZstdCompressor(level=_LEVEL).compress(text) if compress else text


def load(path: Path) -> Cluster:
    """Read a cluster file, compressed or not. Raises InvalidError with the file's path."""
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = f"cannot be read: {error.strerror}; write one with: trimtab snapshot > {path.name}"
        raise InvalidError(str(path), reason) from error
    return decode(data, origin=str(path))


def decode(data: bytes, *, origin: str) -> Cluster:
    """A cluster from the bytes of a file."""
    try:
        file = codec.decode(_decompressed(data), ClusterFile)
        time = times.parse_ns(file.time)
    except (InvalidError, ValueError) as error:
        reason = f"is not a file of `trimtab snapshot`: {error}"
        raise InvalidError(origin, reason) from error
    objects: dict[type[Any], Any] = {info.model: getattr(file.objects, info.plural) for info in KINDS}
    objects |= dict(each.typed() for each in file.objects.workloads)
    return Cluster(time=time, objects=objects, gaps=file.gaps, origin=origin, namespace=file.namespace)


def _decompressed(data: bytes) -> bytes:
    if not data.startswith(_MAGIC):
        return data
    try:
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=_MOST)
    except (zstandard.ZstdError, MemoryError) as error:
        raise InvalidError("", f"cannot be decompressed: {error}") from error


def tree_of(file: ClusterFile) -> dict[str, Any]:
    """A file as plain values."""
    tree: dict[str, Any] = msgspec.json.decode(codec.encode(file))
    return tree
