"""Configuration: a KubeSchedulerConfiguration as kube-scheduler's file has it, and what differs by default."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.api.errors import InvalidError
from trimtab.kube.leases import LeaseTimings
from trimtab.kube.retries import Backoff
from trimtab.scheduler.configuration import Election, RateLimit, read

V1 = "kubescheduler.config.k8s.io/v1"


def written(**fields: Any) -> dict[str, Any]:
    """A configuration with these fields."""
    return {"apiVersion": V1, "kind": "KubeSchedulerConfiguration", **fields}


def test_defaults_do_not_conflict_with_kube_scheduler() -> None:
    """Its own pods, its own lease; back-off as kube-scheduler's."""
    configuration = read()
    assert list(configuration.profiles) == ["trimtab"]
    assert configuration.election == Election("trimtab-scheduler", "kube-system", LeaseTimings())
    assert configuration.backoff == Backoff(1.0, 10.0)
    assert configuration.rate_limit is None


def test_settings_of_a_file() -> None:
    """Every field that a service has a use for."""
    configuration = read(
        written(
            parallelism=4,
            podInitialBackoffSeconds=2,
            podMaxBackoffSeconds=30,
            clientConnection={"qps": 20, "burst": 40},
            leaderElection={
                "leaderElect": True,
                "resourceName": "mine",
                "resourceNamespace": "here",
                "leaseDuration": "1m30s",
                "renewDeadline": "20s",
                "retryPeriod": "500ms",
            },
            profiles=[{"schedulerName": "one"}, {"schedulerName": "two"}],
        )
    )
    assert list(configuration.profiles) == ["one", "two"]
    assert configuration.bindings == 4
    assert configuration.backoff == Backoff(2.0, 30.0)
    assert configuration.rate_limit == RateLimit(20, 40)
    assert configuration.election == Election("mine", "here", LeaseTimings(90.0, 20.0, 0.5))


def test_the_caller_may_name_the_only_profile() -> None:
    """Where there is no other scheduler, it may be the default one."""
    assert list(read(written(), scheduler_name="default-scheduler").profiles) == ["default-scheduler"]
    assert list(read(written(profiles=[{"schedulerName": "x"}]), scheduler_name="default-scheduler").profiles) == ["x"]


def test_the_proposals_form_is_accepted() -> None:
    """Default constraints at the top of the file."""
    constraint = {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}
    tree = {"apiVersion": "componentconfig/v1alpha1", "defaultTopologySpreadConstraints": [constraint]}
    configuration = read(tree, scheduler_name="mine")
    (found,) = configuration.profiles["mine"].default_constraints
    assert (found.max_skew, found.topology_key) == (2, "rack")
    assert configuration.profiles["mine"].name == "mine"
    assert configuration.election is not None


def test_election_can_be_switched_off() -> None:
    """A single process needs no lease."""
    assert read(written(leaderElection={"leaderElect": False})).election is None


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        pytest.param({"leaderElection": {"leaseDuration": "soon"}}, "leaderElection.leaseDuration", id="no duration"),
        pytest.param(
            {"leaderElection": {"leaseDuration": "5s"}}, "leaderElection", id="a lease shorter than its renewal"
        ),
        pytest.param({"clientConnection": {"qps": 5, "burst": 0}}, "clientConnection", id="a limit without room"),
        pytest.param({"podMaxBackoffSeconds": 0}, "podMaxBackoffSeconds", id="a back-off that shrinks"),
        pytest.param({"profiles": [{}, {}]}, "profiles[0].schedulerName", id="several profiles without names"),
        pytest.param({"profiles": "all"}, "profiles", id="profiles that are none"),
        pytest.param({"parallelismus": 1}, "", id="a field that does not exist"),
    ],
)
def test_errors_name_the_field(fields: dict[str, Any], path: str) -> None:
    """The error has the path of the field in the file."""
    with pytest.raises(InvalidError) as caught:
        read(written(**fields))
    assert caught.value.path == path


def test_a_negative_qps_means_no_limit() -> None:
    """As kube-scheduler has it."""
    assert read(written(clientConnection={"qps": -1})).rate_limit is None
