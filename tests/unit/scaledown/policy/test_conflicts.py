"""Workloads whose selectors match the same pods, for a whole namespace at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api.scaledown import ScaleDownPolicy, ScaleDownPolicySpec
from trimtab.api.selectors import NOTHING, Operator, Requirement, Selector, from_labels
from trimtab.scaledown.policy import conflicts
from trimtab.scaledown.policy.statuses import Findings, status
from trimtab.scaledown.policy.workloads import WorkloadRef


def workload(at: int, labels: Mapping[str, str], selector: Selector | None = None, owner: str = "") -> WorkloadRef:
    """A workload; it selects its own pods by default."""
    chosen = from_labels(labels) if selector is None else selector
    return WorkloadRef("apps/v1", "ReplicaSet", "default", f"w{at:03}", f"u{at}", labels, chosen, owner_uid=owner)


keys, values = st.sampled_from(["app", "tier", "zone"]), st.sampled_from(["x", "y", "z"])
some_labels = st.dictionaries(keys, values, max_size=3)
some_requirements = st.one_of(
    st.builds(lambda key, value: Requirement(key, Operator.EQUALS, (value,)), keys, values),
    st.builds(
        lambda key, operator, chosen: Requirement(key, operator, tuple(chosen)),
        keys,
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.sets(values, min_size=1),
    ),
    st.builds(Requirement, keys, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
)
some_selectors = st.one_of(
    st.just(NOTHING), st.builds(lambda found: Selector(tuple(found)), st.lists(some_requirements, max_size=3))
)
some_owners = st.sampled_from(["", "", "o1", "o2", "u1", "u2"])
"""None, workloads elsewhere, and workloads that may be among those of a test."""
some_workloads = st.lists(
    st.builds(workload, st.integers(0, 30), some_labels, some_selectors, some_owners),
    max_size=12,
    unique_by=lambda ref: ref.uid,
)


@st.composite
def some_equal_workloads(draw: st.DrawFn) -> list[WorkloadRef]:
    """Workloads of which many have the same labels and selector; one of them may own others, or itself."""
    kinds = draw(st.lists(st.tuples(some_labels, some_selectors), min_size=1, max_size=3))
    chosen = draw(st.lists(st.tuples(st.sampled_from(kinds), some_owners), max_size=12))
    return [workload(at, labels, selector, owner) for at, ((labels, selector), owner) in enumerate(chosen)]


@settings(deadline=None, max_examples=200)
@given(some_workloads | some_equal_workloads())
def test_conflicts_of_a_namespace_equal_those_of_each_workload(refs: list[WorkloadRef]) -> None:
    """Computed at once and one by one, in which each is compared with all."""
    found = conflicts.conflicts_by_uid(refs)
    assert found == {ref.uid: others for ref in refs if (others := conflicts.conflicting_workloads(ref, refs))}


@settings(deadline=None, max_examples=200)
@given(some_workloads | some_equal_workloads(), st.integers(1, 4), st.randoms(use_true_random=False))
def test_of_many_conflicts_some_are_found(refs: list[WorkloadRef], most: int, rng: random.Random) -> None:
    """As many as are wanted, for each workload; which ones does not depend on the order of the workloads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conflicts, "MOST", most)
        found = conflicts.conflicts_by_uid(refs)
        for ref in refs:
            everyone = conflicts.conflicting_workloads(ref, refs)
            some = found.get(ref.uid, ())
            assert len(some) == min(most, len(everyone))
            assert [each for each in everyone if each in some] == list(some)
        rng.shuffle(refs)
        assert conflicts.conflicts_by_uid(refs) == found


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> list[Selector]:
    """The selectors that are compared with labels, once for each comparison."""
    found: list[Selector] = []
    original = Selector.matches

    def counted(selector: Selector, labels: Mapping[str, str]) -> bool:
        found.append(selector)
        return original(selector, labels)

    monkeypatch.setattr(Selector, "matches", counted)
    return found


def test_workloads_with_equal_labels_are_not_all_compared_with_all(comparisons: list[Selector]) -> None:
    """Each has enough conflicts soon."""
    found = conflicts.conflicts_by_uid([workload(at, {"app": "web"}) for at in range(200)])
    assert {len(others) for others in found.values()} == {conflicts.MOST}
    assert len(comparisons) <= 200 * (conflicts.MOST + 1)


def test_workloads_that_share_some_labels_are_compared_by_their_own(comparisons: list[Selector]) -> None:
    """Those of one application differ by their component alone."""
    refs = [workload(at, {"app": "shop", "component": f"c{at}"}) for at in range(200)]
    assert conflicts.conflicts_by_uid(refs) == {}
    assert len(comparisons) <= 200


def of_one_owner(at: int) -> WorkloadRef:
    """A ReplicaSet with the same labels as others."""
    return workload(at, {"app": "web"}, owner="o")


def of_one_owner_with_labels_of_its_own(at: int) -> WorkloadRef:
    """A ReplicaSet that selects the pods of all others."""
    return workload(at, {"app": "web", "release": f"r{at}"}, from_labels({"app": "web"}), owner="o")


def by_binary_labels(at: int) -> WorkloadRef:
    """A workload with eight labels, each of which half of all workloads have."""
    return workload(at, {f"b{bit}": str(at >> bit & 1) for bit in range(8)})


def by_binary_expressions(at: int) -> WorkloadRef:
    """The same, with the selector written as expressions."""
    labels = by_binary_labels(at).pod_labels
    return workload(at, labels, Selector(tuple(Requirement(key, Operator.IN, (labels[key],)) for key in labels)))


def without_selector(at: int) -> WorkloadRef:
    """A workload whose selector cannot be read."""
    return workload(at, {"app": "web"}, NOTHING)


@pytest.mark.parametrize(
    "made",
    [of_one_owner, of_one_owner_with_labels_of_its_own, by_binary_labels, by_binary_expressions, without_selector],
)
def test_workloads_that_do_not_conflict_are_not_all_compared_with_all(
    made: Callable[[int], WorkloadRef], comparisons: list[Selector]
) -> None:
    """None of them ever has enough conflicts."""
    assert conflicts.conflicts_by_uid(map(made, range(256))) == {}
    assert len(comparisons) <= 256


def test_workloads_of_one_owner_conflict_with_one_of_another(comparisons: list[Selector]) -> None:
    """They do not conflict with one another, nor with their owner."""
    owner, other = workload(500, {"app": "web"}), workload(501, {"app": "web"})
    sets = [workload(at, {"app": "web"}, owner="u500") for at in range(200)]
    found = conflicts.conflicts_by_uid([owner, other, *sets])
    assert found["u500"] == (other,)
    assert len(found["u501"]) == conflicts.MOST
    assert all(found[each.uid] == (other,) for each in sets)
    assert len(comparisons) <= 10


@pytest.mark.parametrize("surplus", [0, 1, 2])
def test_equal_workloads_conflict_with_one_another_and_never_with_themselves(surplus: int) -> None:
    """Around the number of conflicts that are found."""
    refs = [workload(at, {"app": "web"}) for at in range(conflicts.MOST + surplus)]
    found = conflicts.conflicts_by_uid(refs)
    assert {len(others) for others in found.values()} == {min(conflicts.MOST, len(refs) - 1)}
    assert all(ref not in found[ref.uid] for ref in refs)


def test_a_wide_selector_conflicts_with_more_workloads_than_it_reports() -> None:
    """Each of these reports it."""
    wide = workload(0, {"app": "wide"}, Selector())
    found = conflicts.conflicts_by_uid([wide, *(workload(at, {"app": f"a{at}"}) for at in range(1, 100))])
    assert len(found["u0"]) == conflicts.MOST
    assert all(found[f"u{at}"] == (wide,) for at in range(1, 100))


@pytest.mark.parametrize(
    ("count", "words"),
    [
        pytest.param(3, "and A 0, A 1, A 2 select", id="all are named"),
        pytest.param(19, "and A 0, A 1, A 2, 16 more select", id="all are counted"),
        pytest.param(conflicts.MOST, "and A 0, A 1, A 2, at least 17 more select", id="there may be others"),
    ],
)
def test_a_policy_reports_how_many_workloads_conflict(count: int, words: str) -> None:
    """At least so many, where no more were looked for."""
    findings = Findings(applies_to=["A web"], conflicts={"A web": [f"A {at}" for at in range(count)]})
    found = status(ScaleDownPolicy(spec=ScaleDownPolicySpec()), findings, 0).conditions[0]
    assert words in found.message


@pytest.mark.parametrize(
    "large",
    [
        pytest.param(workload(1, {f"k{at}": "x" for at in range(101)}, Selector()), id="labels of its pods"),
        pytest.param(
            workload(1, {}, Selector(tuple(Requirement(f"k{at}", Operator.DOES_NOT_EXIST) for at in range(101)))),
            id="requirements",
        ),
        pytest.param(
            workload(1, {}, Selector((Requirement("k", Operator.NOT_IN, tuple(f"v{at}" for at in range(101))),))),
            id="values",
        ),
    ],
)
def test_workloads_with_very_many_labels_are_not_compared(large: WorkloadRef, comparisons: list[Selector]) -> None:
    """Hundreds of them would keep the process busy."""
    assert conflicts.conflicting_workloads(large, [workload(2, {"app": "web"})])
    comparisons.clear()
    assert conflicts.conflicts_by_uid([large, workload(2, {"app": "web"})]) == {}
    assert len(comparisons) <= 1


@pytest.mark.parametrize("operator", [Operator.EXISTS, Operator.IN])
def test_workloads_that_select_by_other_labels_are_not_compared(
    operator: Operator, comparisons: list[Selector]
) -> None:
    """Whether a label must have one of several values, or any."""
    wanted = ("x", "y") if operator is Operator.IN else ()
    refs = [workload(at, {f"k{at}": "x"}, Selector((Requirement(f"k{at}", operator, wanted),))) for at in range(60)]
    assert conflicts.conflicts_by_uid(refs) == {}
    assert len(comparisons) <= len(refs)
