"""What was seen of every pod, and what it amounts to."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api.pods import Pod
from trimtab.testing.builders import pod
from trimtab_lab.scenarios import observations
from trimtab_lab.scenarios.observations import NOWHERE, NodeView, State
from trimtab_lab.scenarios.timelines import Moment, Tally, Timeline, moments

ZONES = {"zone": "topology.kubernetes.io/zone"}
NODES = {name: NodeView({ZONES["zone"]: f"zone-{name}"}) for name in "ab"}


def test_only_changes_are_recorded() -> None:
    """A pod that is seen again as it was makes no entry."""
    timeline = Timeline(ZONES)
    waiting, ready = pod("p").build(), pod("p").on("a").ready().build()
    assert timeline.record_pod(waiting, NODES, 1.0) is not None
    assert timeline.record_pod(waiting, NODES, 2.0) is None
    assert timeline.record_pod(ready, NODES, 3.0) is not None
    assert timeline.record_pod(ready, NODES, 4.0, gone=True) is not None
    assert [(change.at, change.state, change.node) for change in timeline.changes] == [
        (1.0, State.WAITING, ""),
        (3.0, State.READY, "a"),
        (4.0, State.GONE, "a"),
    ]


def test_a_domain_begins_with_its_first_node() -> None:
    """Before that there was nothing to be empty."""
    timeline = Timeline(ZONES)
    timeline.record_node(NODES["a"], 0.0)
    timeline.record_node(NODES["a"], 1.0)
    timeline.record_node(NODES["b"], 2.0)
    assert moments(timeline, "zone") == [
        Moment(0.0, {"zone-a": Tally()}),
        Moment(2.0, {"zone-a": Tally(), "zone-b": Tally()}),
    ]


def test_a_pod_moves_through_the_tallies() -> None:
    """Starting, ready, terminating, gone: counted in the domain of its node while it counts."""
    timeline = Timeline(ZONES)
    timeline.record_node(NODES["a"], 0.0)
    steps = [pod("p"), pod("p").on("a"), pod("p").on("a").ready(), pod("p").on("a").ready().terminating()]
    for at, built in enumerate(steps, 1):
        timeline.record_pod(built.build(), NODES, float(at))
    timeline.record_pod(steps[-1].build(), NODES, 5.0, gone=True)
    tallies = [moment.tallies["zone-a"] for moment in moments(timeline, "zone")]
    assert tallies == [Tally(), Tally(starting=1), Tally(ready=1), Tally(terminating=1), Tally()]


def test_a_pod_on_an_unknown_node_is_nowhere_until_the_node_is_seen() -> None:
    """Informers may show a pod before its node; the domain without a name vanishes again."""
    timeline = Timeline(ZONES)
    placed = pod("p").on("a").ready().build()
    timeline.record_pod(placed, {}, 1.0)
    timeline.record_pod(placed, NODES, 2.0)
    assert [moment.tallies for moment in moments(timeline, "zone")] == [
        {NOWHERE: Tally(ready=1)},
        {"zone-a": Tally(ready=1)},
    ]


@settings(deadline=None, max_examples=60)
@given(
    events=st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from(["waiting", "a", "b", "ready a", "ready b", "leaving a", "gone"])),
        max_size=30,
    )
)
def test_playing_back_gives_what_counting_gives(events: list[tuple[int, str]]) -> None:
    """The last moment of the timeline is the distribution of the existing pods."""
    timeline = Timeline(ZONES)
    for name in NODES.values():
        timeline.record_node(name, 0.0)
    pods: dict[int, Pod] = {}
    for at, (number, what) in enumerate(events, 1):
        built = pod(f"p{number}")
        words = what.split()
        if words[-1] in NODES:
            built.on(words[-1])
        built = built.ready() if "ready" in words else built.terminating() if "leaving" in words else built
        timeline.record_pod(built.build(), NODES, float(at), gone=what == "gone")
        pods[number] = built.build()
        if what == "gone":
            del pods[number]
    counted = observations.spread([each for each in pods.values() if each.active], NODES, ZONES["zone"])
    last = moments(timeline, "zone")[-1]
    assert {domain: tally.pods for domain, tally in last.tallies.items()} == counted.domains
    assert last.skew == counted.skew
