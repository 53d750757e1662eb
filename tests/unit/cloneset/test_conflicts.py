"""CloneSets whose selectors overlap."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.cloneset.clusters import manifest, template
from trimtab.api import codec, selectors
from trimtab.api.cloneset import CloneSet
from trimtab.api.meta import LabelSelector
from trimtab.api.selectors import Selector
from trimtab.cloneset import conflicts
from trimtab.testing.builders import uid_for


def cloneset(
    name: str, *, created: str = "2026-01-01T00:00:00Z", namespace: str = "default", **labels: str
) -> CloneSet:
    """A CloneSet that selects app=web, whose pods have these labels."""
    tree = manifest(3, name, selector={"matchLabels": {"app": "web"}}, template=template(**{"app": "web", **labels}))
    tree["metadata"] |= {"uid": uid_for(name), "creationTimestamp": created, "namespace": namespace}
    return codec.convert(tree, CloneSet)


OLD = cloneset("old")
YOUNG = cloneset("young", created="2026-01-02T00:00:00Z", tier="front")
APART = cloneset("apart", app="api")
ELSEWHERE = cloneset("elsewhere", namespace="other")


def test_clonesets_that_select_the_same_pods_conflict() -> None:
    """In the same namespace; a CloneSet does not conflict with itself."""
    everyone = (OLD, YOUNG, ELSEWHERE)
    assert conflicts.conflicting(OLD, everyone) == (YOUNG,)
    assert conflicts.conflicting(YOUNG, everyone) == (OLD,)
    assert conflicts.conflicting(ELSEWHERE, everyone) == ()


def test_one_selector_that_matches_the_others_pods_is_enough() -> None:
    """Either way round."""
    assert conflicts.conflicting(APART, (OLD,)) == (OLD,)


def test_selectors_are_compiled_once_for_many_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each CloneSet, however often it is compared, validated, or offered an orphan."""
    compiled: list[LabelSelector | None] = []
    original = selectors.compile

    def counted(selector: LabelSelector | None) -> Selector:
        compiled.append(selector)
        return original(selector)

    monkeypatch.setattr(selectors, "compile", counted)
    everyone = [cloneset(f"c{at}") for at in range(4)]
    for each in everyone:
        found = conflicts.conflicting(each, everyone)
        conflicts.defers_adoption(each, found)
        assert conflicts.selector_of(each).matches({"app": "web"})
    assert len(compiled) == 4


def test_orphans_are_left_to_the_older_cloneset() -> None:
    """So that two do not adopt the same pod."""
    assert not conflicts.defers_adoption(OLD, (YOUNG,))
    assert conflicts.defers_adoption(YOUNG, (OLD,))


def test_orphans_are_not_left_to_a_cloneset_that_does_not_adopt() -> None:
    """One that is invalid or being deleted."""
    strategy = msgspec.structs.replace(OLD.spec.update_strategy, partition=1)
    spec = msgspec.structs.replace(OLD.spec, update_strategy=strategy)
    assert not conflicts.defers_adoption(YOUNG, (msgspec.structs.replace(OLD, spec=spec),))
    going = msgspec.structs.replace(OLD.metadata, deletion_timestamp=OLD.metadata.creation_timestamp)
    assert not conflicts.defers_adoption(YOUNG, (msgspec.structs.replace(OLD, metadata=going),))
