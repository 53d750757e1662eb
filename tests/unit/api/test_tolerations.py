"""A toleration covers the taints that it covers in Kubernetes; numbers are those of the module's list of rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api import tolerations
from trimtab.api.nodes import Taint
from trimtab.api.pods import Toleration

GPU = Taint(key="gpu", value="a100", effect="NoSchedule")


def cores(value: str) -> Taint:
    """A taint whose value may be a number."""
    return Taint(key="cores", value=value, effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        pytest.param(Toleration(operator="Exists"), True, id="Exists without a key covers all (2, 3)"),
        pytest.param(Toleration(key="gpu", operator="Exists"), True, id="Exists covers any value (3)"),
        pytest.param(Toleration(key="cpu", operator="Exists"), False, id="another key covers nothing (2)"),
        pytest.param(Toleration(key="gpu", value="a100"), True, id="no operator means Equal (3)"),
        pytest.param(Toleration(key="gpu", operator="Equal", value="h100"), False, id="another value (3)"),
        pytest.param(Toleration(key="gpu"), False, id="no value is not any value (3)"),
        pytest.param(Toleration(operator="Equal", value="a100"), True, id="Equal without a key (2)"),
        pytest.param(Toleration(operator="Exists", effect="NoSchedule"), True, id="the same effect (1)"),
        pytest.param(Toleration(operator="Exists", effect="NoExecute"), False, id="another effect (1)"),
        pytest.param(Toleration(key="gpu", operator="exists"), False, id="an unknown operator (5)"),
    ],
)
def test_tolerates(toleration: Toleration, want: bool) -> None:
    """A toleration covers a taint by effect, key and value."""
    assert tolerations.tolerates(toleration, GPU) is want


@pytest.mark.parametrize(
    ("operator", "value", "taint", "want"),
    [
        pytest.param("Lt", "5", "4", True, id="a taint of 4 is less than 5"),
        pytest.param("Lt", "5", "5", False, id="a taint of 5 is not"),
        pytest.param("Gt", "5", "6", True, id="a taint of 6 is more than 5"),
        pytest.param("Gt", "-5", "-4", True, id="negative numbers compare as numbers"),
        pytest.param("Gt", "9", "10", True, id="ten is more than nine"),
        pytest.param("Gt", "-1", "0", True, id="zero is a number"),
        pytest.param("Gt", "-1", "-0", False, id="minus zero is not canonical"),
        pytest.param("Gt", "05", "6", False, id="nor is a leading zero"),
        pytest.param("Gt", "5", "+6", False, id="nor a plus sign"),
        pytest.param("Gt", "", "6", False, id="nor no number at all"),
        pytest.param("Gt", "5", "-", False, id="nor a sign alone"),
        pytest.param("Gt", "5", "6.0", False, id="nor a fraction"),
        pytest.param("Gt", "5", "9223372036854775807", True, id="the largest number"),
        pytest.param("Gt", "5", "9223372036854775808", False, id="a number beyond 64 bits"),
        pytest.param("Gt", "5", "9" * 5000, False, id="a number beyond reason"),
    ],
)
def test_comparison_operators(operator: str, value: str, taint: str, want: bool) -> None:
    """Lt and Gt compare canonical numbers (4), and cover nothing while the feature is off."""
    toleration = Toleration(key="cores", operator=operator, value=value)
    assert tolerations.tolerates(toleration, cores(taint), comparison_operators=True) is want
    assert not tolerations.tolerates(toleration, cores(taint))


def test_the_first_untolerated_taint_is_found() -> None:
    """Taints of other effects are passed over, and so is what a toleration covers."""
    soft = Taint(key="a", effect="PreferNoSchedule")
    covered, first, second = (Taint(key=key, effect="NoSchedule") for key in "bcd")
    ours = [Toleration(key="b", operator="Exists")]
    assert tolerations.untolerated(ours, [soft, covered, first, second]) == first
    assert tolerations.untolerated(ours, [soft, covered]) is None
    assert tolerations.untolerated(ours, [soft, covered], ["PreferNoSchedule"]) == soft


def test_prefer_no_schedule_taints_are_counted() -> None:
    """Only taints that ask for pods to stay away if they can count against a node, and only if not covered."""
    taints = [Taint(key=key, effect="PreferNoSchedule") for key in "abc"] + [Taint(key="d", effect="NoSchedule")]
    ours = [Toleration(key="a", operator="Exists"), Toleration(key="b", operator="Exists", effect="NoSchedule")]
    assert tolerations.count_prefer_no_schedule(ours, taints) == 2


TAINTS = st.builds(
    Taint,
    key=st.sampled_from("ab"),
    value=st.sampled_from(["", "1", "2"]),
    effect=st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"]),
)
TOLERATIONS = st.builds(
    Toleration,
    key=st.sampled_from(["", "a", "b"]),
    operator=st.sampled_from(["", "Equal", "Exists", "Lt", "Gt", "?"]),
    value=st.sampled_from(["", "1", "2"]),
    effect=st.sampled_from(["", "NoSchedule", "NoExecute"]),
)


@given(st.lists(TOLERATIONS), st.lists(TAINTS), TOLERATIONS)
def test_another_toleration_never_hurts(ours: list[Toleration], taints: list[Taint], more: Toleration) -> None:
    """What is covered stays covered when a toleration is added."""
    if tolerations.untolerated(ours, taints) is None:
        assert tolerations.untolerated([*ours, more], taints) is None
    assert tolerations.count_prefer_no_schedule([*ours, more], taints) <= tolerations.count_prefer_no_schedule(
        ours, taints
    )


@given(TAINTS)
def test_the_widest_toleration_covers_every_taint(taint: Taint) -> None:
    """Exists without key and effect covers whatever taint there is."""
    assert tolerations.tolerated([Toleration(operator="Exists")], taint)
