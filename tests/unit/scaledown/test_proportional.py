"""Who shrinks to what: as the Deployment controller will do it."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.lab.workloads.objects import replicaset
from trimtab.api.apps import Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment
from trimtab.api.meta import ObjectMeta
from trimtab.scaledown import proportional
from trimtab_lab.workloads.deployment import proportional as upstream
from trimtab_lab.workloads.deployment.replicasets import OwnedReplicaSets, limits_of


def deployment(replicas: int, surge: int | str = "25%", kind: str = "RollingUpdate") -> Deployment:
    """A Deployment of that size."""
    rolling = RollingUpdateDeployment(max_surge=surge, max_unavailable="25%") if kind == "RollingUpdate" else None
    strategy = DeploymentStrategy(type=kind, rolling_update=rolling)
    return Deployment(
        metadata=ObjectMeta(name="web", uid="d"), spec=DeploymentSpec(replicas=replicas, strategy=strategy)
    )


def sizes(found: tuple[proportional.ControllerSize, ...]) -> dict[str, int]:
    """What each is to have."""
    return {size.name: size.after for size in found}


def test_a_standalone_replicaset_gets_the_size() -> None:
    """It owns its pods."""
    found = proportional.controller_sizes(replicaset("web", 10), 4)
    assert sizes(found) == {"web": 4}


def test_the_only_replicaset_with_pods_gets_all() -> None:
    """Old ones without pods are no part of it, but their pods would be related."""
    found = proportional.controller_sizes(deployment(10), 4, [replicaset("new", 10), replicaset("old", 0)])
    assert sizes(found) == {"new": 4}
    assert len(found[0].siblings) == 2


def test_several_replicasets_of_a_recreate_deployment_are_left_to_the_rollout() -> None:
    """Its strategy deals with them."""
    sets = [replicaset("new", 5), replicaset("old", 5)]
    made = deployment(10, kind="Recreate")
    assert proportional.controller_sizes(made, 4, sets) == ()
    assert proportional.is_left_to_rollout(made, 4, sets)
    assert not proportional.is_left_to_rollout(made, 10, sets)


def test_replicasets_whose_sum_the_surge_covers_are_left_to_the_rollout() -> None:
    """None shrinks because of the size; the rollout deletes pods until it is reached."""
    sets = [replicaset("new", 6), replicaset("old", 7)]
    assert proportional.is_left_to_rollout(deployment(13), 11, sets)  # and a surge of 3
    assert not proportional.is_left_to_rollout(deployment(13), 9, sets)
    assert not proportional.is_left_to_rollout(deployment(13), 11, [replicaset("new", 13), replicaset("old", 0)])
    assert not proportional.is_left_to_rollout(replicaset("web", 13), 11, [])


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=4),
    st.integers(0, 100),
    st.sampled_from([0, 3, "25%", "100%"]),
    st.booleans(),
)
def test_several_shrink_as_the_deployment_controller_will_do_it(
    before: list[int], size: int, surge: int | str, annotated: bool
) -> None:
    """Held against the lab's controller, which is held against the real one."""
    target = min(size, sum(before) - 1)
    made = deployment(sum(before), surge)
    most = limits_of(made).max_pods if annotated else None
    sets = [replicaset(f"web-{n}", each, desired=sum(before), most=most) for n, each in enumerate(before)]
    after = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, replicas=target))
    move = upstream.next_step(limits_of(after), OwnedReplicaSets(None, tuple(sets)), rolling=True, reported=0)
    assert move is not None
    want = {each.metadata.name: new for each, new in move.sizes if new < (each.spec.replicas or 0)}
    assert sizes(proportional.controller_sizes(made, target, sets)) == want
