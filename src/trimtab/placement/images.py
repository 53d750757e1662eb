"""ImageLocality: prefers nodes that already have a pod's images.

An image counts with its size, scaled by the share of nodes that have it: an image on a single node must not attract all
pods to it. The sum over the pod's images is scaled so that 23 MiB and less is 0, and 1000 MiB a container is 100.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trimtab.api.pods import PodSpec
from trimtab.placement.framework import MAX_SCORE, Cycle, PluginKind, Scores
from trimtab.snapshot.columns import IntColumn, Mask

_MIB = 1024 * 1024
_SMALLEST = 23 * _MIB
_LARGEST_PER_CONTAINER = 1000 * _MIB


class ImageLocality:
    """Prefers the nodes that have a pod's images."""

    name = "ImageLocality"

    def score(self, cycle: Cycle, feasible: Mask) -> Scores:  # noqa: ARG002 – nodes are scored independently
        """The score of the images that a node has, by size and by the share of nodes that have them."""
        spec = cycle.pod.spec
        sizes = _scaled_sizes(cycle)
        if sizes is None:
            raw = np.zeros(len(cycle.snapshot.nodes), dtype=np.int64)
        else:
            raw = _normalized(sizes, len(spec.containers) + len(spec.init_containers))
        return Scores(raw, raw)


def normalized_name(image: str) -> str:
    """The name that a node reports: with a tag, which is `latest` by default."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def _images(spec: PodSpec) -> Iterator[str]:
    """The images of all containers, and those that are mounted as volumes."""
    for container in (*spec.init_containers, *spec.containers):
        yield normalized_name(container.image)
    for volume in spec.volumes:
        if volume.image is not None:
            yield normalized_name(volume.image.reference)


def _scaled_sizes(cycle: Cycle) -> IntColumn | None:
    """The scaled sizes of the pod's images on each node; None if no node has any of them."""
    nodes = cycle.snapshot.nodes
    total: IntColumn | None = None
    for name in _images(cycle.pod.spec):
        sizes = nodes.image_sizes(name)
        if sizes is not None:
            share = len(nodes.images[name]) / int(np.count_nonzero(nodes.known))
            scaled = (sizes * share).astype(np.int64)
            total = scaled if total is None else np.add(total, scaled, out=total)
    return total


def _normalized(sizes: IntColumn, containers: int) -> IntColumn:
    largest = _LARGEST_PER_CONTAINER * containers
    np.minimum(sizes, largest, out=sizes)
    np.maximum(sizes, _SMALLEST, out=sizes)
    sizes -= _SMALLEST
    sizes *= MAX_SCORE
    sizes //= largest - _SMALLEST
    return sizes


PLUGIN = PluginKind(("score",), make=lambda _: ImageLocality())
