"""What is read from the processes of a run."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from bench.soak import judging, players, wire
from bench.soak.judging import Limit
from bench.soak.ledger import Ledger
from bench.soak.sampling import (
    HELD,
    LAG,
    REVIEWS,
    UNREADABLE,
    WORK,
    Sampler,
    by_minute,
    counter,
    histogram,
    memory_at_marks,
    resident,
)
from trimtab.admission.metrics import Metrics as ReviewMetrics
from trimtab.admission.metrics import ReviewOutcome
from trimtab.api import complexity
from trimtab.app.metrics import Metrics
from trimtab.scaledown.metrics import HoldOutcome
from trimtab.scaledown.metrics import Metrics as HeldMetrics


def test_a_histogram_is_read_as_the_product_writes_it() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    for seconds in (0.001, 0.3, 3.0):
        metrics.observe_lag(seconds, 0.0)
    found = histogram(generate_latest(registry).decode(), LAG)
    assert (found.count, found.above(0.25), found.above(2.5)) == (3, 2, 1)


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        pytest.param(LAG, judging.LAG_LIMIT, id="lag"),
        pytest.param(WORK, judging.WORK_LIMIT, id="work"),
        pytest.param(HELD, judging.ANSWER_LIMIT, id="held requests"),
        pytest.param(REVIEWS, judging.ANSWER_LIMIT, id="reviews"),
    ],
)
def test_what_the_product_measures_is_judged(name: str, limit: Limit) -> None:
    """Once for each process, and by bounds that are buckets of the product's histograms."""
    registry, ledger = CollectorRegistry(), Ledger()
    own, held, reviews = Metrics(registry), HeldMetrics(registry), ReviewMetrics(registry)
    observe: Mapping[str, Callable[[float], None]] = {
        LAG: lambda seconds: own.observe_lag(seconds, 0.0),
        WORK: lambda seconds: own.observe_lag(0.0, seconds),
        HELD: partial(held.record_request, HoldOutcome.PLANNED),
        REVIEWS: partial(reviews.answered, "scale", ReviewOutcome.ALLOWED),
    }
    for seconds in (limit.usual * 0.9, limit.most * 1.1):
        observe[name](seconds)
    sampler = Sampler(SimpleNamespace(ledger=ledger))  # type: ignore[arg-type]
    for pid in (1, 2):
        sampler.histograms[name, "webhooks-1", pid] = histogram(generate_latest(registry).decode(), name)
    for _ in range(2):
        sampler.check_loops()
        sampler.check_durations()
    assert [each.detail for each in ledger.breaches] == [
        f"webhooks-1 ({pid}): {name} is above {limit.most:g} s 1 times" for pid in (1, 2)
    ]


def test_a_counter_is_read_over_all_its_labels() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    for kind in ("Pod", "CloneSet", "CloneSet"):
        metrics.count_unreadable(kind)
    assert counter(generate_latest(registry).decode(), UNREADABLE) == 3


def test_memory_of_a_process_is_read_while_it_lives() -> None:
    size = resident(os.getpid())
    assert size is not None
    assert size > 10
    assert resident(2**22 + 1) is None


def test_memory_is_reported_at_the_marks_that_were_reached() -> None:
    samples = [(at, 50.0 + at / 60) for at in range(0, 900, 3)]
    found = memory_at_marks([(float(at), size) for at, size in samples])
    assert found == {"1 min": 51.0, "10 min": 60.0, "end": round(50 + 897 / 60, 1)}


def test_memory_is_kept_minute_by_minute() -> None:
    assert by_minute([(0, 1.0), (59, 2.0), (60, 3.0), (200, 4.04)]) == [2.0, 3.0, 4.0]


def test_unreadable_objects_are_too_complex_to_be_read() -> None:
    for kind in players.UNREADABLE:
        path, body = players.unreadable(kind, "strange", players.deep(300))
        assert path.startswith("/api")
        assert b'"strange"' in body
        assert complexity.is_too_deep(body)
        assert complexity.has_more_values(players.unreadable(kind, "strange", players.wide(complexity.MAX_VALUES))[1])


def test_the_troubles_of_a_server_are_drawn_from_the_seed() -> None:
    first, second = ([wire.trouble(random.Random(seed)) for seed in range(50)] for _ in range(2))
    assert first == second
    assert {each.kind for each in first} == set(wire.KINDS)
