"""Terms of assigned pods, indexed by the labels that they require."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from trimtab.api import codec, selectors
from trimtab.api.core import Service
from trimtab.api.nodes import ZONE
from trimtab.snapshot.nodes import NodeTable
from trimtab.snapshot.shapes import HeldTerm, Term
from trimtab.snapshot.terms import COLUMNS_KEPT, TermBook
from trimtab.testing.builders import cluster, pod

LONG = {"matchExpressions": [{"key": "app", "operator": "In", "values": [f"v{number}" for number in range(2000)]}]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def held(selector: str | None, *, namespaces: tuple[str, ...] = ("default",), wider: str | None = None) -> HeldTerm:
    """A required anti-affinity term over pods of this selector (None: of no pods)."""
    chosen = selectors.NOTHING if selector is None else selectors.parse(selector)
    return HeldTerm(
        Term(ZONE, chosen, frozenset(namespaces), None if wider is None else selectors.parse(wider)),
        anti=True,
        required=True,
    )


@pytest.mark.parametrize(
    ("term", "reached"),
    [
        pytest.param(held("app=web"), True, id="by one label"),
        pytest.param(held("app=db"), False, id="another value"),
        pytest.param(held("app in (db,web)"), True, id="by one of several values"),
        pytest.param(held("app in (db,cat)"), False, id="by none of them"),
        pytest.param(held("app=web,tier=back"), False, id="all labels must fit"),
        pytest.param(held("app!=db"), True, id="by what it is not"),
        pytest.param(held("!legacy"), True, id="by a label it lacks"),
        pytest.param(held(""), True, id="everybody"),
        pytest.param(held(None), False, id="no pods"),
        pytest.param(held("app=web", namespaces=("other",)), False, id="of another namespace"),
        pytest.param(held("app=web", namespaces=(), wider="team=one"), True, id="of a namespace with these labels"),
        pytest.param(held("app=web", namespaces=(), wider="team=two"), False, id="of one with others"),
    ],
)
def test_pods_that_a_term_applies_to(term: HeldTerm, reached: bool) -> None:
    """A pod of `default`, a namespace of team one, with the labels app=web and tier=front."""
    nodes = NodeTable()
    book = TermBook(nodes)
    book.adjust(term, nodes.row_of("a"), 1)
    assert book.reaching("default", {"team": "one"}, {"app": "web", "tier": "front"}) == ([term] if reached else [])


def test_holders_are_counted_by_node() -> None:
    """Rows of nodes that were added later are included."""
    nodes = NodeTable()
    book = TermBook(nodes)
    term = held("app=web")
    for _ in range(2):
        book.adjust(term, nodes.row_of("a"), 1)
    for number in range(100):
        nodes.row_of(f"n{number}")
    assert book.per_node(term).tolist() == [2] + [0] * 100
    book.adjust(term, nodes.row_of("n99"), 1)
    assert book.per_node(term).tolist() == [2, *([0] * 99), 1]
    assert book.per_node(held("app=db")).tolist() == [0] * 101


def test_after_any_changes_the_book_equals_a_recount() -> None:
    """What was put in and taken out again leaves no trace, neither in the counts nor in what is found."""
    rng = Random(4)
    texts = ("app=web", "app in (web,db)", "app!=web", "", "tier=front,app=db")
    nodes = NodeTable()
    book = TermBook(nodes)
    held_now: list[tuple[HeldTerm, int]] = []
    for _ in range(400):
        if held_now and rng.random() < 0.5:
            term, row = held_now.pop(rng.randrange(len(held_now)))
            book.adjust(term, row, -1)
        else:
            term, row = held(rng.choice(texts)), nodes.row_of(f"n{rng.randrange(5)}")
            held_now.append((term, row))
            book.adjust(term, row, 1)
        assert set(book) == {term for term, _ in held_now}
        for term in book:
            assert book.per_node(term).tolist() == [held_now.count((term, row)) for row in range(len(nodes))]
        found = book.reaching("default", {}, {"app": "web"})
        assert sorted(map(str, found)) == sorted(
            {str(t) for t, _ in held_now if t.term.selector.matches({"app": "web"})}
        )
    for term, row in held_now:
        book.adjust(term, row, -1)
    assert len(book) == 0
    assert book.reaching("default", {}, {"app": "web"}) == []


def test_few_terms_have_columns() -> None:
    """Each takes memory for every node: only terms that were asked for lately have one, and it stays right."""
    nodes = NodeTable()
    book = TermBook(nodes)
    terms = [held(f"app=a{number}") for number in range(3 * COLUMNS_KEPT)]
    for number, term in enumerate(terms):
        book.adjust(term, nodes.row_of(f"n{number % 5}"), 1)
    assert not book._columns  # noqa: SLF001
    for _ in range(2):
        for number, term in enumerate(terms):
            assert book.per_node(term).tolist() == [int(row == number % 5) for row in range(5)]
            assert len(book._columns) <= COLUMNS_KEPT  # noqa: SLF001
    book.adjust(terms[0], nodes.row_of("n3"), 1)
    assert book.per_node(terms[0]).tolist() == [1, 0, 0, 1, 0]
    for node in ("n0", "n3"):
        book.adjust(terms[0], nodes.row_of(node), -1)
    assert book.per_node(terms[0]).tolist() == [0] * 5
    assert len(book) == len(terms) - 1


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        pytest.param(
            {
                "affinity": {
                    name: {REQUIRED: [{"topologyKey": ZONE}] * 51} for name in ("podAffinity", "podAntiAffinity")
                }
            },
            "spec.affinity: has 102 terms, and 100 is the most",
            id="terms",
        ),
        pytest.param(
            {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": ZONE, "labelSelector": LONG}]}}},
            "spec.affinity: has 2,001 entries, and 2,000 is the most",
            id="values",
        ),
        pytest.param(
            {"containers": [{"name": "main", "ports": [{"hostPort": 1 + number} for number in range(1001)]}]},
            "spec.containers[*].ports: has more than 1,000 host ports",
            id="host ports",
        ),
    ],
)
def test_rules_that_are_too_many_do_not_count(spec: dict[str, Any], problem: str) -> None:
    """That is reported for one pod of the template; the pod itself counts on its node."""
    found: list[tuple[str, str]] = []
    view = cluster("z1: a").snapshot()
    view.report_ignored_to(lambda pod, reason: found.append((pod.metadata.name, reason)))
    for name in ("p", "q"):
        for restarts in (0, 1, 2):
            view.put(pod(name).on("a").spec(**spec).restarts(restarts).build())
    assert found == [("p", f"{problem}; other pods are treated as if it did not have them")]
    assert (len(view.terms), len(view.ports)) == (0, 0)
    assert view.nodes.pods.tolist() == [2]


def test_the_selector_of_a_service_that_is_too_large_is_reported() -> None:
    """Once for each selector, however often the Service changes."""
    found: list[str] = []
    view = cluster("z1: a").snapshot()
    view.report_ignored_to(lambda service, reason: found.append(f"{service.metadata.name}: {reason}"))
    for version, size in enumerate((2000, 2001, 2001, 2002)):
        selector = {f"l{number}": "" for number in range(size)}
        tree = {"metadata": {"name": "web", "namespace": "a", "resourceVersion": str(version)}}
        view.put(codec.convert({**tree, "spec": {"selector": selector}}, Service))
    assert found == [f"web: spec.selector: has {size} labels, and 2,000 is the most" for size in ("2,001", "2,002")]
