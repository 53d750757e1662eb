"""When two templates are the same, and what is named after one."""

from __future__ import annotations

import re
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.unit.lab.workloads.objects import deployment, template
from trimtab.api.documents import Document
from trimtab.api.meta import LabelSelector
from trimtab_lab.workloads.deployment import templates

WEB = template()
HASHED = template(app="web", **{"pod-template-hash": "abc"})


@pytest.mark.parametrize(
    ("one", "other", "want"),
    [
        pytest.param(WEB, HASHED, True, id="the hash does not count"),
        pytest.param(WEB, dict(reversed(WEB.items())), True, id="the order of fields does not count"),
        pytest.param(
            WEB, WEB | {"metadata": WEB["metadata"] | {"creationTimestamp": None}}, True, id="a null is nothing"
        ),
        pytest.param(WEB, template("app:2"), False, id="another image"),
        pytest.param(WEB, template(app="web", tier="front"), False, id="one label more"),
        pytest.param(
            {"spec": {}}, {"metadata": {"labels": {"pod-template-hash": "x"}}, "spec": {}}, False, id="no labels"
        ),
    ],
)
def test_templates_are_compared(one: dict[str, Any], other: dict[str, Any], want: bool) -> None:
    """Two templates are the same if pods made from them would be."""
    assert templates.same(Document(one), Document(other)) is want


def test_no_template_is_the_same_as_no_template_only() -> None:
    """There is nothing to compare then."""
    assert templates.same(None, None)
    assert not templates.same(None, Document(WEB))


@given(st.integers(0, 50) | st.none(), st.integers(0, 50) | st.none())
@settings(deadline=None)
def test_collisions_change_the_hash(one: int | None, other: int | None) -> None:
    """The same count gives the same hash, another count another one."""
    same = templates.digest(Document(WEB), one) == templates.digest(Document(WEB), other)
    assert same is (one == other)


def test_the_hash_is_stable() -> None:
    """It must be the same after a restart, in every process: it names a ReplicaSet."""
    assert templates.digest(Document(WEB), None) == templates.digest(Document(HASHED), None) == "9rqrrw74hb"
    assert re.fullmatch("[bcdfghjklmnpqrstvwxz2456789]{10}", templates.digest(Document(template("app:2")), 3))


@pytest.mark.parametrize(
    ("name", "length"),
    [pytest.param("web", 14, id="a short name"), pytest.param("w" * 253, 253, id="a long name is cut")],
)
def test_a_replicaset_is_named(name: str, length: int) -> None:
    """The Deployment's name, a dash and the hash, within what a name may be."""
    made = templates.name_of(name, "b" * 10)
    assert len(made) == length
    assert made.endswith("-bbbbbbbbbb")


def test_template_and_selector_get_the_hash() -> None:
    """Everything else stays as it was written."""
    made = deployment(
        selector={"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "k", "operator": "Exists"}]}
    )
    assert made.spec.template is not None
    assert templates.labelled(made.spec.template, "abc") == HASHED
    assert templates.selector_with(made.spec.selector or LabelSelector(), "abc") == {
        "matchLabels": {"app": "web", "pod-template-hash": "abc"},
        "matchExpressions": [{"key": "k", "operator": "Exists"}],
    }
