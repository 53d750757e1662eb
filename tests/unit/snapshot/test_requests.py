"""Requests of a pod: exact sums, rounded up once."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.api import codec
from trimtab.api.pods import Pod
from trimtab.snapshot.requests import RequestsBook, compute


def container(name: str = "c", *, always: bool = False, **requests: str) -> dict[str, Any]:
    """A container with these requests; a sidecar if `always`."""
    return {"name": name, "resources": {"requests": requests}, **({"restartPolicy": "Always"} if always else {})}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param(
            {"containers": [container(cpu="100m"), container(cpu="1")]}, {"cpu": 1100}, id="containers add up"
        ),
        pytest.param(
            {"containers": [container(cpu="0.1m"), container(cpu="0.1m")]},
            {"cpu": 1},
            id="the sum is rounded up once, not each part",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container("i", cpu="3"), container("j", cpu="2")]},
            {"cpu": 3000},
            id="the largest init container counts",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [container("s", always=True, cpu="2"), container("i", cpu="2")],
            },
            {"cpu": 4000},
            id="an init container runs beside the sidecars before it",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [container("i", cpu="2"), container("s", always=True, cpu="2")],
            },
            {"cpu": 3000},
            id="and not beside those after it",
        ),
        pytest.param(
            {"containers": [container(memory="1Gi")], "overhead": {"memory": "1Mi", "cpu": "10m"}},
            {"memory": 2**30 + 2**20, "cpu": 10},
            id="overhead is added",
        ),
        pytest.param(
            {"containers": [container(cpu="1", memory="1Gi")], "resources": {"requests": {"cpu": "3"}}},
            {"cpu": 3000, "memory": 2**30},
            id="what the pod states as a whole replaces the sum",
        ),
    ],
)
def test_requests_are_summed_as_the_api_defines(spec: dict[str, Any], want: dict[str, int]) -> None:
    """Each rule of the sum on its own."""
    assert compute(codec.convert({"spec": spec}, Pod)).amounts == want


@pytest.mark.parametrize(
    ("reason", "want"),
    [
        pytest.param("Deferred", 500, id="a deferred resize counts with its requests"),
        pytest.param("Infeasible", 300, id="an infeasible one as what it has"),
    ],
)
def test_a_pod_that_is_being_resized_counts_for_the_larger_amount(reason: str, want: int) -> None:
    """Room must be there for what it may be given, unless it never will be."""
    status = {
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
        "containerStatuses": [
            {"name": "c", "resources": {"requests": {"cpu": "200m"}}, "allocatedResources": {"cpu": "300m"}}
        ],
    }
    pod = codec.convert({"spec": {"containers": [container(cpu="500m")]}, "status": status}, Pod)
    assert compute(pod).amounts == {"cpu": want}


def test_assumed_amounts_of_a_container_without_requests() -> None:
    """Otherwise nodes full of such pods would look empty; an explicit zero stays zero."""
    spec = {"containers": [container("silent"), container("zero", cpu="0", memory="0")]}
    requests = compute(codec.convert({"spec": spec}, Pod))
    assert (requests.assumed_cpu, requests.assumed_memory) == (100, 200 * 2**20)
    assert requests.amounts == {"cpu": 0, "memory": 0}


@pytest.mark.parametrize(
    ("stated", "cpu", "memory"),
    [
        pytest.param({"cpu": "3"}, 3000, 2**30, id="memory is stated by one container, so the other is taken for none"),
        pytest.param({"hugepages-2Mi": "2Mi"}, 100, 2**30, id="CPU has no request, so it is assumed"),
        pytest.param({"example.com/gpu": "1"}, 200, 2**30 + 200 * 2**20, id="what a pod cannot state does not matter"),
    ],
)
def test_no_amount_is_assumed_for_pod_level_requests(stated: dict[str, str], cpu: int, memory: int) -> None:
    """An amount is assumed only for resources without a request, of a container or of the pod."""
    spec = {"containers": [container("some", memory="1Gi"), container("silent")], "resources": {"requests": stated}}
    if "hugepages-2Mi" in stated:
        spec["containers"] = [container("some", memory="1Gi")]
    requests = compute(codec.convert({"spec": spec}, Pod))
    assert (requests.assumed_cpu, requests.assumed_memory) == (cpu, memory)


@pytest.mark.parametrize(
    ("reason", "want"),
    [
        pytest.param("Deferred", 5000, id="a deferred resize counts with its requests"),
        pytest.param("Infeasible", 3000, id="an infeasible one as what it has"),
    ],
)
def test_resize_of_pod_level_requests(reason: str, want: int) -> None:
    """Pod-level requests follow the same rule; what the spec states is known besides."""
    tree = {
        "spec": {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "5"}}},
        "status": {
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
            "resources": {"requests": {"cpu": "2"}},
            "allocatedResources": {"cpu": "3"},
        },
    }
    requests = compute(codec.convert(tree, Pod))
    assert requests.amounts == {"cpu": want}
    assert requests.stated == {"cpu": 5000}
    assert requests.bare == {"cpu": 1000}


def test_two_resizes_of_a_template_are_distinguished() -> None:
    """The cache key includes all of the status that requests depend on."""
    book = RequestsBook()
    for given in ("2", "3"):
        status = {"resources": {"requests": {"cpu": given}}}
        spec = {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "1"}}}
        assert book.of(codec.convert({"spec": spec, "status": status}, Pod)).amounts == {"cpu": int(given) * 1000}
