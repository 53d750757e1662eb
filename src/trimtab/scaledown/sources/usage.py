"""The CPU usage of pods, from `metrics.k8s.io`: for `Idle`.

A metrics server measures periodically and reports when it did; the age of a sample counts from then. Its clock may
differ from ours: a time in the future counts as now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from trimtab.api import times
from trimtab.api.errors import InvalidError
from trimtab.api.meta import ObjectMeta
from trimtab.api.model import Model
from trimtab.api.pods import Pod, ResourceList
from trimtab.api.quantities import millis
from trimtab.kube.client import Client
from trimtab.kube.errors import ApiError, ConfigError, NotFound, ServiceUnavailable
from trimtab.kube.resources import Resource
from trimtab.scaledown.sources.samples import Samples
from trimtab.snapshot.requests import CPU, RequestsBook

PERIOD = 30.0
"""Seconds between samples; metrics servers measure every 15 to 60."""
EAGER = 5.0
"""Seconds between samples while there are pods without one."""
_CORE = 1000
"""A core in thousandths."""
_ABSENT = "metrics.k8s.io is not served by this cluster; install a metrics server, or remove the strategy Idle"


class ContainerUsage(Model):
    """The usage of one container."""

    name: str = ""
    usage: ResourceList = {}


class PodMetrics(Model):
    """The usage of a pod, and when it was measured."""

    metadata: ObjectMeta = ObjectMeta()
    timestamp: datetime | None = None
    containers: tuple[ContainerUsage, ...] = ()


POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", PodMetrics)


class UsageSource:
    """The CPU that pods use, as a share of what they request."""

    def __init__(self, client: Client) -> None:
        self.samples = Samples()
        self.problem = ""
        """Why usage is not known, or empty."""
        self._client = client
        self._clock = client.clock
        self._requests = RequestsBook()

    async def sample(self, pods: Iterable[Pod]) -> None:
        """Sample these pods, a namespace at a time. Where that fails, the previous samples stay."""
        by_namespace: dict[str, dict[str, Pod]] = {}
        for pod in pods:
            by_namespace.setdefault(pod.metadata.namespace, {})[pod.metadata.name] = pod
        problem = ""
        for namespace, wanted in by_namespace.items():
            try:
                listed = await self._client.list(POD_METRICS, namespace=namespace)
            except (NotFound, ServiceUnavailable):
                problem = _ABSENT
                break
            except (ApiError, ConfigError) as error:
                problem = f"usage cannot be read: {error}"
                continue
            self._take(listed.items, wanted)
        self.problem = problem

    def _take(self, measured: Iterable[PodMetrics], wanted: Mapping[str, Pod]) -> None:
        for metrics in measured:
            pod = wanted.get(metrics.metadata.name)
            used = cpu_used(metrics)
            if pod is not None and used is not None:
                self.samples.put(pod, used / self._base(pod), self._moment(metrics.timestamp))

    def _base(self, pod: Pod) -> int:
        """The CPU that usage is a share of: what the pod requests, or one core where it requests none."""
        return self._requests.of(pod).amounts.get(CPU, 0) or _CORE

    def _moment(self, measured: datetime | None) -> int:
        age = 0 if measured is None else self._clock.now() - times.to_ns(measured)
        return self._clock.monotonic() - max(age, 0)


def cpu_used(metrics: PodMetrics) -> int | None:
    """The CPU usage in thousandths of a core; None where it was not measured, or is invalid."""
    try:
        used = [millis(container.usage[CPU]) for container in metrics.containers if CPU in container.usage]
    except InvalidError:
        return None
    return sum(used) if used and min(used) >= 0 else None
