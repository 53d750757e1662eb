"""For how long reservations have been seen, by our own clock."""

from __future__ import annotations

from tests.unit.unitedtopology.admission.test_status_batcher import topology
from trimtab.api import codec
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.stores import key_of
from trimtab.testing.clocks import VirtualClock
from trimtab.unitedtopology.controller.counting import soonest
from trimtab.unitedtopology.controller.reservation_ages import ReservationAges, has_announced_deletion


def reserved(*names: str, older: str = "") -> UnitedTopology:
    """A UnitedTopology with these reservations, and one of an older revision."""
    tree = topology(9)
    at = "2020-01-01T00:00:00Z"
    tree["status"]["subsetStatuses"][0]["creating"] = dict.fromkeys(names, at)
    if older:
        row = {"name": "a", "creating": {older: at}}
        tree["status"]["otherRevisions"] = [{"revision": "r0", "subsetStatuses": [row]}]
    return codec.convert(tree, UnitedTopology)


async def test_the_age_of_a_reservation_counts_from_when_it_was_first_seen() -> None:
    """Whatever time it has itself, in all revisions; one that was removed and made again begins anew."""
    clock = VirtualClock()
    ages = ReservationAges(clock)
    assert ages.ages(reserved("x")) == {"x": 0.0}
    await clock.advance(30)
    assert ages.ages(reserved("x", "y", older="z")) == {"x": 30.0, "y": 0.0, "z": 0.0}
    await clock.advance(10)
    assert ages.ages(reserved("y", older="z")) == {"y": 10.0, "z": 10.0}
    assert ages.ages(reserved("x", "y", older="z")) == {"x": 0.0, "y": 10.0, "z": 10.0}
    ages.forget(key_of(reserved()))
    await clock.advance(5)
    assert ages.ages(reserved("y")) == {"y": 0.0}


def test_a_pod_whose_deletion_was_announced_has_existed() -> None:
    """Its name is part of the key."""
    assert has_announced_deletion("web-1@reservation")
    assert not has_announced_deletion("reservation")


def test_the_soonest_of_several_waits() -> None:
    """None where nothing is waited for."""
    assert soonest(3.0, None, 1.0, 2.0) == 1.0
    assert soonest(None, None) is None
    assert soonest() is None
