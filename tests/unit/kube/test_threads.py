"""Large objects are read in another thread, whichever way they come."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.unit.kube.fakes import ScriptedTransport, pod_tree
from trimtab.api import codec
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.lists import Lister
from trimtab.kube.resources import Resource
from trimtab.kube.threads import compute_beside
from trimtab.kube.transport import Response

SCOPE = {"namespace": "", "label_selector": "", "field_selector": ""}
END = {"metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}}
SIZES = {"small": 0, "large": 1 << 20}


def pod(size: int) -> dict[str, Any]:
    """A pod with an annotation of that size."""
    tree = pod_tree("a")
    return {**tree, "metadata": {**tree["metadata"], "resourceVersion": "7", "annotations": {"x": "y" * size}}}


def events(*trees: tuple[str, Any]) -> bytes:
    """Lines of a watch."""
    return b"".join(json.dumps({"type": kind, "object": tree}).encode() + b"\n" for kind, tree in trees)


def client(body: bytes) -> Client:
    """A client whose next request is answered so."""
    return Client(ScriptedTransport(Response(200, {}, body)))


async def get(tree: Any) -> list[Pod]:
    """Read it as a single object."""
    return [await client(json.dumps(tree).encode()).get(Pod, "a", namespace="n")]


async def list_pages(tree: Any) -> list[Pod]:
    """Read it as a page of a list."""
    page = await client(json.dumps({"metadata": {}, "items": [tree]}).encode()).list(Pod)
    return list(page.items)


async def watch(tree: Any) -> list[Pod]:
    """Read it as an event of a watch."""
    async with client(events(("ADDED", tree))).watch(Pod, resource_version="1") as found:
        return [event.object async for event in found if event.object is not None]


async def initial_events(tree: Any) -> list[Pod]:
    """Read it as one of the initial events of a watch."""
    lister = Lister(client(events(("ADDED", tree), ("BOOKMARK", END))), Resource.of(Pod), SCOPE, page=250)
    return [each async for page in lister.parts() for each in page.items]


async def changes_before_the_bookmark(tree: Any) -> list[Pod]:
    """Read it as one of the initial events, of which another one cannot be decoded with it."""
    lines = events(("DELETED", pod(0)), ("ADDED", tree), ("BOOKMARK", END))
    lister = Lister(client(lines), Resource.of(Pod), SCOPE, page=250)
    return [each async for page in lister.parts() for each in page.items]


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("read", [get, list_pages, watch, initial_events, changes_before_the_bookmark])
async def test_large_objects_are_decoded_in_another_thread(
    read: Callable[[Any], Awaitable[list[Pod]]], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And small ones on the event loop, since changing threads takes longer than that."""
    threads: set[threading.Thread] = set()

    def spied(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(data: bytes, kind: Any) -> Any:
            if len(data) > size:
                threads.add(threading.current_thread())
            return function(data, kind)

        return call

    for name in ("decode_exactly", "decode_object", "decode_lines_exactly"):
        monkeypatch.setattr(codec, name, spied(getattr(codec, name)))
    (found,) = await read(pod(size))
    assert found.metadata.name == "a"
    assert threads
    assert (threads == {threading.current_thread()}) is (size == 0)
    assert (threading.current_thread() in threads) is (size == 0)


class Counts(list[int]):
    """Numbers that change."""

    def copy(self) -> Counts:
        """The numbers as they are now."""
        return Counts(self)


def total(counts: Counts) -> tuple[int, str]:
    """Their sum, and the thread that computed it."""
    return sum(counts), threading.current_thread().name


async def test_what_is_computed_beside_the_loop_is_of_the_state_before() -> None:
    """What changes meanwhile, or during a delay, is not seen; without an executor nothing can."""
    counts = Counts([1, 2])

    async def delay() -> None:
        counts.append(4)

    with ThreadPoolExecutor(1, thread_name_prefix="beside") as executor:
        found = await compute_beside(executor, counts, total, delay=delay)
    assert found == (3, "beside_0")
    assert await compute_beside(None, counts, total, delay=delay) == (7, "MainThread")


async def test_the_loop_goes_on_while_something_is_computed() -> None:
    """It computes until the loop lets it end."""
    go = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        computing = asyncio.ensure_future(compute_beside(executor, Counts(), lambda _: go.wait(30)))
        await asyncio.sleep(0)
        go.set()
        assert await computing
