"""Images: a node that has them already starts a pod sooner.

An image is worth its size, scaled by the share of nodes that have it: one that lies on a single node must not draw all
pods there. The sum over the pod's images is stretched so that 23 MiB and less is 0, and 1000 MiB a container is 100.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trimtab.api.pods import PodSpec
from trimtab.placement.framework import MAX_SCORE, Cycle, Scores
from trimtab.snapshot.columns import IntColumn, Mask

_MIB = 1024 * 1024
_SMALLEST = 23 * _MIB
_LARGEST_PER_CONTAINER = 1000 * _MIB


class ImageLocality:
    """Prefers the nodes that have a pod's images."""

    name = "ImageLocality"

    def score(self, cycle: Cycle, feasible: Mask) -> Scores:  # noqa: ARG002 – each node is judged on its own
        """The images that a node has, by size and by how common they are."""
        spec = cycle.pod.spec
        worth = _worth(cycle)
        if worth is None:
            raw = np.zeros(len(cycle.snapshot.nodes), dtype=np.int64)
        else:
            raw = _stretched(worth, len(spec.containers) + len(spec.init_containers))
        return Scores(raw, raw)


def normalized_name(image: str) -> str:
    """The name that a node reports: with a tag, `latest` where none is written."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def _images(spec: PodSpec) -> Iterator[str]:
    """One image a container, and those that are mounted as volumes."""
    for container in (*spec.init_containers, *spec.containers):
        yield normalized_name(container.image)
    for volume in spec.volumes:
        if volume.image is not None:
            yield normalized_name(volume.image.reference)


def _worth(cycle: Cycle) -> IntColumn | None:
    """The worth of the pod's images on each node; None where no node has any of them."""
    nodes = cycle.snapshot.nodes
    total: IntColumn | None = None
    for name in _images(cycle.pod.spec):
        sizes = nodes.image_sizes(name)
        if sizes is not None:
            share = len(nodes.images[name]) / int(np.count_nonzero(nodes.known))
            worth = (sizes * share).astype(np.int64)
            total = worth if total is None else np.add(total, worth, out=total)
    return total


def _stretched(worth: IntColumn, containers: int) -> IntColumn:
    largest = _LARGEST_PER_CONTAINER * containers
    np.minimum(worth, largest, out=worth)
    np.maximum(worth, _SMALLEST, out=worth)
    worth -= _SMALLEST
    worth *= MAX_SCORE
    worth //= largest - _SMALLEST
    return worth
