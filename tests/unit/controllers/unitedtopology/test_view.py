"""What is found of pods by index."""

from __future__ import annotations

import pytest

from trimtab.controllers.unitedtopology.view import by_ended
from trimtab.subsets import marks
from trimtab.subsets.marks import Mark
from trimtab.testing.builders import PodBuilder, pod


def owned() -> PodBuilder:
    """A pod of a ReplicaSet that carries a mark."""
    marked = pod("p", namespace="shop").annotations(marks.written(Mark("spread", "a", "of-p")))
    return marked.owned_by("web-1")


@pytest.mark.parametrize(
    ("subject", "want"),
    [
        pytest.param(owned(), (), id="one that runs has not ended"),
        pytest.param(owned().phase("Failed"), ("shop/spread",), id="one that failed has"),
        pytest.param(owned().phase("Succeeded"), ("shop/spread",), id="one that is done has"),
        pytest.param(owned().terminating(), (), id="of one that is deleted, somebody was asked"),
        pytest.param(
            pod("p", namespace="shop").annotations(marks.written(Mark("spread", "a"))),
            ("shop/spread",),
            id="one that was released has",
        ),
        pytest.param(pod("p").phase("Failed"), (), id="one without a mark is nobody's"),
    ],
)
def test_who_has_ended_unasked(subject: PodBuilder, want: tuple[str, ...]) -> None:
    """Pods that make room although no webhook heard of it."""
    assert tuple(by_ended(subject.build())) == want
