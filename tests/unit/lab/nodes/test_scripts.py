"""Scripts: what annotations make a pod do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.lab.nodes.objects import a_pod
from trimtab_lab.nodes import scripts
from trimtab_lab.nodes.scripts import ANNOTATIONS, DEFAULT_TIMINGS, PREFIX, AnnotationValues, Behaviour, Script, Span

DOCUMENTATION = Path(__file__).parents[4] / "docs" / "lab-nodes.md"


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({}, AnnotationValues(), id="nothing said, all by habit"),
        pytest.param({"start-seconds": "3"}, AnnotationValues(start=Span(3, 3)), id="one time"),
        pytest.param({"start-seconds": "1.5-4"}, AnnotationValues(start=Span(1.5, 4)), id="a span"),
        pytest.param({"behaviour": "hang"}, AnnotationValues(behaviour=Behaviour.HANG), id="a behaviour"),
        pytest.param({"crashes": "3", "exit-code": "7"}, AnnotationValues(crashes=3, exit_code=7), id="numbers"),
        pytest.param({"back-off-seconds": "0.5"}, AnnotationValues(back_off=0.5), id="a wait"),
    ],
)
def test_annotations_are_read(annotations: dict[str, str], want: AnnotationValues) -> None:
    """Each annotation sets one field; the others keep their defaults."""
    values, problems = scripts.read({f"{PREFIX}{name}": text for name, text in annotations.items()})
    assert (values, problems) == (want, [])


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        pytest.param("start-seconds", "soon", "not a number of seconds", id="a word for a time"),
        pytest.param("start-seconds", "5-1", "must not decrease", id="a span that decreases"),
        pytest.param("start-seconds", "99999999", "exceed", id="longer than anybody waits"),
        pytest.param("behaviour", "dance", "there are run, hang, crash, complete", id="no such behaviour"),
        pytest.param("crashes", "-1", "whole number", id="fewer than none"),
        pytest.param("exit-code", "256", "from 0 to 255", id="more than a byte"),
        pytest.param("stat-seconds", "1", "start-seconds", id="a name that does not exist"),
    ],
)
def test_invalid_values_are_reported_and_ignored(name: str, text: str, reason: str) -> None:
    """A pod runs whatever its annotations are, and the problem names the annotation."""
    values, problems = scripts.read({f"{PREFIX}{name}": text, f"{PREFIX}init-seconds": "9"})
    assert values == AnnotationValues(init=Span(9, 9))
    assert len(problems) == 1
    assert problems[0].startswith(f"{PREFIX}{name}: ")
    assert reason in problems[0]


def test_other_annotations_are_ignored() -> None:
    """Only those with the prefix count."""
    assert scripts.read({"example.com/behaviour": "crash", "behaviour": "crash"}) == (AnnotationValues(), [])


@pytest.mark.parametrize(
    ("annotations", "behaviour", "ends"),
    [
        pytest.param({}, Behaviour.RUN, None, id="run for ever"),
        pytest.param({"behaviour": "hang"}, Behaviour.HANG, None, id="hang for ever"),
        pytest.param({"behaviour": "crash"}, Behaviour.CRASH, 10.0, id="crash after ten seconds"),
        pytest.param({"crash-after-seconds": "3"}, Behaviour.CRASH, 3.0, id="a time implies a crash"),
        pytest.param({"behaviour": "complete"}, Behaviour.COMPLETE, 10.0, id="complete after ten seconds"),
        pytest.param({"complete-after-seconds": "4"}, Behaviour.COMPLETE, 4.0, id="a time implies completion"),
        pytest.param(
            {"behaviour": "complete", "crash-after-seconds": "3"}, Behaviour.COMPLETE, 10.0, id="what is said wins"
        ),
        pytest.param({"behaviour": "run", "crash-after-seconds": "3"}, Behaviour.RUN, None, id="run is said, too"),
    ],
)
def test_a_script_has_the_behaviour_of_the_containers(
    annotations: dict[str, str], behaviour: Behaviour, ends: float | None
) -> None:
    """The behaviour, or what a time implies, and when the containers end by themselves."""
    script, _ = scripts.script_for(a_pod(annotations=annotations), 1)
    assert (script.behaviour, script.ends_after) == (behaviour, ends)


def test_init_containers_are_counted_without_sidecars() -> None:
    """Only those that must end before the others start."""
    script, _ = scripts.script_for(a_pod(inits=("one", "+sidecar", "two")), 1)
    assert script.inits == 2


@given(uid=st.text(), seed=st.integers(0, 2**32))
def test_the_same_pod_draws_the_same_times(uid: str, seed: int) -> None:
    """In every process, and within its timings."""
    pod = a_pod(uid=uid, annotations={"crash-after-seconds": "1-9"})
    first, again = (scripts.script_for(pod, seed)[0] for _ in range(2))
    assert first == again
    assert DEFAULT_TIMINGS.start.low <= first.start <= DEFAULT_TIMINGS.start.high
    assert 1 <= (first.ends_after or 0) <= 9


def test_pods_and_seeds_draw_different_times() -> None:
    """A thousand pods do not start at once."""
    starts = {scripts.script_for(a_pod(uid=str(n)), seed)[0].start for n in range(100) for seed in (1, 2)}
    assert len(starts) == 200


def test_saying_more_about_one_thing_changes_nothing_else() -> None:
    """An annotation for the start does not change the time to stop."""
    plain, _ = scripts.script_for(a_pod(), 1)
    values, _ = scripts.script_for(a_pod(annotations={"start-seconds": "7", "ready-seconds": "1-2"}), 1)
    assert (plain.stop, plain.init) == (values.stop, values.init)


@pytest.mark.parametrize(
    ("script", "waits"),
    [
        pytest.param(Script(), [1, 10, 20, 40, 80, 160, 300, 300], id="as kubelets wait"),
        pytest.param(Script(back_off=2.0), [1, 2, 4, 8, 16, 32, 64, 128], id="as values"),
        pytest.param(Script(back_off=0.1), [0.1, 0.1, 0.2, 0.4], id="hardly at all"),
        pytest.param(Script(ends_after=600.0), [1, 1, 1], id="long runs begin anew"),
    ],
)
def test_the_wait_between_restarts_grows(script: Script, waits: list[float]) -> None:
    """At once the first time, then doubled up to five minutes."""
    assert [script.back_off_seconds(restarts) for restarts in range(len(waits))] == waits


@pytest.mark.parametrize(
    ("policy", "code", "want"),
    [
        pytest.param("Always", 0, True, id="always, even after success"),
        pytest.param("Always", 1, True, id="always"),
        pytest.param("OnFailure", 0, False, id="not after success"),
        pytest.param("OnFailure", 1, True, id="after a failure"),
        pytest.param("Never", 1, False, id="never"),
    ],
)
def test_restart_policies(policy: str, code: int, want: Any) -> None:
    """Which ends are followed by a restart."""
    assert Script(restart_policy=policy).restarts_after(code) is want


def test_a_pod_that_crashes_so_often_runs_on() -> None:
    """After the annotated number of crashes it keeps running."""
    script = Script(behaviour=Behaviour.CRASH, ends_after=5.0, crashes=2)
    assert [script.run_seconds(restarts) for restarts in range(4)] == [5.0, 5.0, None, None]


def test_the_documentation_has_the_same_table() -> None:
    """Name, default and meaning of every annotation, in the same order."""
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*?) \| (.*?) \|$", DOCUMENTATION.read_text(), re.MULTILINE)
    assert rows == [(name, each.default, each.meaning) for name, each in ANNOTATIONS.items()]


def test_documented_defaults_are_the_defaults() -> None:
    """Reading a default changes nothing."""
    for name, annotation in ANNOTATIONS.items():
        if name not in ("behaviour", "crashes", "crash-after-seconds", "complete-after-seconds"):
            assert annotation.read(annotation.default) == getattr(AnnotationValues(), annotation.field)
    ends = {"crash-after-seconds": "crash", "complete-after-seconds": "complete"}
    for name, behaviour in ends.items():
        script, _ = scripts.script_for(a_pod(annotations={"behaviour": behaviour}), 1)
        assert script.ends_after == float(ANNOTATIONS[name].default)
