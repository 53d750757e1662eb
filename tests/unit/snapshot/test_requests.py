"""Requests of a pod: exact sums, rounded up once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api import codec
from trimtab.api.pods import Pod
from trimtab.snapshot import requests
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
    for amount in ("2", "3"):
        status = {"resources": {"requests": {"cpu": amount}}}
        spec = {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "1"}}}
        assert book.of(codec.convert({"spec": spec, "status": status}, Pod)).amounts == {"cpu": int(amount) * 1000}


def test_sums_take_time_for_what_containers_request_and_not_for_all_before_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pod may have a thousand sidecars, each with a resource of its own."""
    compared: list[int] = []
    raise_ = requests._raise  # noqa: SLF001

    def counted(floor: Any, other: Any) -> None:
        compared.append(len(other))
        raise_(floor, other)

    monkeypatch.setattr(requests, "_raise", counted)
    named = [container(f"s{n}", always=True, **{f"example.com/r{n}": "1"}) for n in range(100)]
    named += [container(f"i{n}", always=False, **{f"example.com/r{n}": "2"}) for n in range(100)]
    found = compute(codec.convert({"spec": {"containers": [container()], "initContainers": named}}, Pod))
    assert {name: found.amounts[name] for name in ("example.com/r0", "example.com/r99")} == {
        "example.com/r0": 3,
        "example.com/r99": 3,
    }
    assert sum(compared) <= 2 * (200 * 3 + 100), "with assumed CPU and memory, and without"


@given(
    st.lists(
        st.tuples(st.booleans(), st.dictionaries(st.sampled_from(["cpu", "memory", "a"]), st.integers(0, 9))),
        max_size=6,
    ),
    st.dictionaries(st.sampled_from(["cpu", "memory", "a"]), st.integers(0, 9)),
)
def test_the_largest_moment_counts(inits: list[tuple[bool, dict[str, int]]], main: dict[str, int]) -> None:
    """Each moment: the sidecars that run, and the init container, if one does; in the end all sidecars and the rest."""
    named = [
        container(f"i{at}", always=always, **{name: str(each) for name, each in of.items()})
        for at, (always, of) in enumerate(inits)
    ]
    spec = {
        "containers": [container(always=False, **{name: str(each) for name, each in main.items()})],
        "initContainers": named,
    }
    found = compute(codec.convert({"spec": spec}, Pod)).amounts
    for name in ("cpu", "memory", "a"):
        running, moments = 0, [0]
        for always, of in inits:
            moments.append(running + of.get(name, 0))
            running += of.get(name, 0) if always else 0
        most = max(*moments, running + main.get(name, 0))
        assert found.get(name, 0) == most * (1000 if name == "cpu" else 1)
