"""Reading of reviews: large ones delay no others, and take no longer than the budget of their hook."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.admission.test_server import body, counted, hook, post, served, yes
from trimtab.admission.server import size_of
from trimtab.api import admission
from trimtab.api.admission import AdmissionRequest
from trimtab.kube.threads import LARGE_OBJECT, LARGE_REVIEW
from trimtab.testing.clocks import VirtualClock

SMALL, MEDIUM, LARGE = 10, LARGE_REVIEW + 1, LARGE_OBJECT + 1
"""Bytes of an object."""


def compact(**request: Any) -> bytes:
    """A review as API servers write it, without spaces."""
    return json.dumps(json.loads(body(**request)), separators=(",", ":")).encode()


def review(size: int, **request: Any) -> bytes:
    """A review of an object of some size."""
    return compact(name="web", namespace="shop", **request, object={"filling": "x" * size})


class Gate:
    """Reads reviews in other threads than the main one only while it is open."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.begun = 0
        self._read = admission.read_review

    def read(self, data: bytes) -> AdmissionRequest:
        """Read a review; a large one waits."""
        if len(data) > LARGE_OBJECT:
            self.begun += 1
            assert self.is_open.wait(30)
        return self._read(data)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Large reviews are read when the gate is opened."""
    made = Gate()
    monkeypatch.setattr(admission, "read_review", made.read)
    yield made
    made.is_open.set()


@pytest.mark.parametrize("size", [pytest.param(SMALL, id="small"), pytest.param(MEDIUM, id="medium")])
async def test_a_review_does_not_wait_for_large_ones(size: int, gate: Gate, tmp_path: Path) -> None:
    """However many of them there are."""
    async with served(tmp_path, [hook(yes)], clock=VirtualClock()) as (server, session):
        large = [asyncio.create_task(post(server, session, review(LARGE))) for _ in range(9)]
        while not gate.begun:
            await asyncio.sleep(0)
        status, answer = await post(server, session, review(size))
        assert (status, answer["response"]["warnings"]) == (200, ["seen web"])
        assert not any(each.done() for each in large)
        gate.is_open.set()
        assert [status for status, _ in await asyncio.gather(*large)] == [200] * 9
    assert counted(server, "allowed") == 10


@pytest.mark.parametrize("reviews", [1, 9])
async def test_what_is_not_read_within_the_budget_is_admitted(reviews: int, gate: Gate, tmp_path: Path) -> None:
    """It is counted and reported as any other that is late, and is not read after that."""
    clock, skipped = VirtualClock(), list[tuple[str, str, str]]()

    def on_skip(_: Any, request: AdmissionRequest, reason: str, outcome: Any) -> None:
        assert size_of(request) == 0
        skipped.append((f"{request.namespace}/{request.name}", outcome.value, reason))

    async with served(tmp_path, [hook(yes)], clock=clock, on_skip=on_skip) as (server, session):
        large = [asyncio.create_task(post(server, session, review(LARGE, userInfo={}))) for _ in range(reviews)]
        while not all(each.done() for each in large):
            await clock.advance(0.05)
        answers = [each.result() for each in large]
        assert [(status, answer["response"]) for status, answer in answers] == [
            (200, {"uid": "u", "allowed": True})
        ] * reviews
        gate.is_open.set()
    assert skipped == [("shop/web", "late", "no decision within 2 s")] * reviews
    assert counted(server, "late") == reviews
    assert gate.begun == 1


async def test_what_has_no_head_and_is_not_read_in_time_is_refused(gate: Gate, tmp_path: Path) -> None:
    """An answer needs the UID of its review, which API servers send first."""
    clock = VirtualClock()
    data = review(LARGE).replace(b',"object"', b',"options":"%s","object"' % (b"x" * LARGE))
    async with served(tmp_path, [hook(yes)], clock=clock) as (server, session):
        answer = asyncio.create_task(post(server, session, data))
        while not answer.done():
            await clock.advance(0.05)
        assert (await answer)[0] == 503
        gate.is_open.set()


async def test_a_large_ping_is_refused(tmp_path: Path) -> None:
    """Those of our own are short, and are read on the event loop."""
    async with served(tmp_path, [hook(yes)]) as (server, session):
        assert [(await post(server, session, review(size), "/ping"))[0] for size in (SMALL, MEDIUM)] == [200, 413]


@pytest.mark.parametrize(
    ("data", "name"),
    [
        pytest.param(review(SMALL, userInfo={"groups": ["a"] * 100}), "web", id="a review"),
        pytest.param(compact(name="web"), None, id="no object"),
        pytest.param(compact(userInfo={"extra": {"a": [], "object": []}}, object={}), None, id="its name before"),
        pytest.param(compact(userInfo={"username": ',"object":'}, name="web", object={}), "web", id="text before"),
        pytest.param(compact(filling="x" * LARGE_REVIEW, object={}), None, id="too long"),
        pytest.param(b'{"a":1,"object":', None, id="no review"),
        pytest.param(b'{"request":null,"object":', None, id="no request"),
    ],
)
def test_the_head_of_a_review_identifies_it(data: bytes, name: str | None) -> None:
    """It has everything but the objects."""
    head = admission.read_head(data)
    assert (None if head is None else head.name) == name
