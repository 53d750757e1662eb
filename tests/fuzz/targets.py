"""What is fuzzed: for each target the input that it gets, and what must hold for any input.

A target must answer, or refuse with the error that its callers handle. Everything else is a bug.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from tests.fuzz import files
from tests.lab.rollouts import OWNERS
from tests.unit.kube.fakes import FakeServer
from tests.unit.kube.strange_objects import MODELS, deep, tree
from trimtab.admission.validation import CHECKS, Validation
from trimtab.api import codec
from trimtab.api.admission import AdmissionReview
from trimtab.api.apps import ReplicaSet, StatefulSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import ReplicationController, Service
from trimtab.api.errors import InvalidError
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube import watches
from trimtab.kube.client import Client
from trimtab.kube.errors import ApiError
from trimtab.kube.resources import Resource
from trimtab.scaledown.intent.reviews import KINDS, scale_down_request
from trimtab.snapshot.view import MIRRORED, Snapshot
from trimtab.testing.clocks import VirtualClock


@dataclass(frozen=True)
class Target:
    """Inputs, and the check that every one of them must pass."""

    inputs: st.SearchStrategy[Any]
    check: Callable[[Any], None]


@functools.cache
def field_names(model: Any) -> list[str]:
    """The names of all fields in a type and in the types of its fields."""
    found: dict[str, None] = {}
    queue, seen = [inspect.type_info(model)], set[Any]()
    while queue:
        info = queue.pop()
        if isinstance(info, inspect.StructType):
            if info.cls in seen:
                continue
            seen.add(info.cls)
            found |= dict.fromkeys(field.encode_name for field in info.fields)
            queue += [field.type for field in info.fields]
        for inner in ("type", "item_type", "value_type"):
            if isinstance(getattr(info, inner, None), inspect.Type):
                queue.append(getattr(info, inner))
        queue += getattr(info, "types", ())
    return list(found)


@functools.cache
def values(model: Any) -> st.SearchStrategy[Any]:
    """JSON values whose keys are often fields of the type."""
    scalars = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=8),
        st.sampled_from(["10%", "a/b", "2026-01-01T00:00:00Z", "apps/v1", "Deployment", "..", "1e9Gi", "-1"]),
    )
    keys = st.one_of(st.sampled_from(field_names(model)), st.text(max_size=4))
    return st.recursive(
        scalars,
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=5)),
        max_leaves=30,
    )


@st.composite
def texts(draw: st.DrawFn, model: Any) -> str:
    """An object of a kind, valid but for one part; sometimes very deep, sometimes damaged."""
    whole = tree(model, "fuzzed")
    at: Any = whole
    for _ in range(draw(st.integers(0, 4))):
        containers = [each for each in (at.values() if isinstance(at, dict) else at) if isinstance(each, (dict, list))]
        if not containers:
            break
        at = draw(st.sampled_from(containers))
    part = "@" if draw(st.integers(0, 9)) == 0 else draw(values(model))
    if isinstance(at, dict):
        at[draw(st.sampled_from([*at, *field_names(model)]))] = part
    else:
        at.append(part)
    text = json.dumps(whole).replace('"@"', deep(draw(st.sampled_from([100, 150, 300, 1100, 5000]))))
    if draw(st.integers(0, 9)) == 0:
        start = draw(st.integers(0, len(text) - 1))
        text = text[:start] + draw(st.text(max_size=3)) + text[start + draw(st.integers(0, 3)) :]
    return text


def check_decoder(case: tuple[type[Any], str]) -> None:
    """A list and a watch have the valid objects beside any text that is JSON."""
    model, text = case
    before, after = (json.dumps(tree(model, name)) for name in ("before", "after"))
    try:
        [page] = watches.parts(f'{{"metadata":{{}},"items":[{before},{text},{after}]}}'.encode(), model)
    except ApiError:
        assert not _is_json(text)
    else:
        names = {each.metadata.name for each in page.items}
        assert names >= {"before", "after"}, names
    with suppress(ApiError):
        watches.reader(model)(f'{{"type":"MODIFIED","object":{text}}}'.encode(errors="surrogatepass"))


def check_snapshot(case: tuple[type[Any], str]) -> None:
    """A snapshot takes any object that can be read, or refuses it; either way it is as before when that is dropped."""
    model, text = case
    fuzzed = _readable(text, model)
    known = _readable(json.dumps(tree(model, "known")), model)
    for add in (_put, _put_with_list):
        snapshot = Snapshot()
        snapshot.put_all(known)
        before = _contents(snapshot)
        for each in fuzzed:
            with suppress(InvalidError, OverflowError):  # what is no quantity, and numbers that no API server stores
                add(snapshot, each)
            snapshot.drop(model, each.metadata.namespace, each.metadata.name)
            snapshot.put_all(known)  # it may have had the same name
        assert _contents(snapshot) == before


def _readable(text: str, model: type[Any]) -> Sequence[Any]:
    try:
        [page] = watches.parts(f'{{"metadata":{{}},"items":[{text}]}}'.encode(), model)
    except (ApiError, UnicodeEncodeError):
        return ()
    return page.items


def _put(snapshot: Snapshot, found: Any) -> None:
    snapshot.put(found)
    snapshot.put(found)


def _put_with_list(snapshot: Snapshot, found: Any) -> None:
    snapshot.put_all([found])


def _contents(snapshot: Snapshot) -> Any:
    """What a snapshot has, by name."""
    groups: tuple[type[Any], ...] = (Service, ReplicationController, ReplicaSet, StatefulSet, CloneSet)
    return (
        {pod.key for pod in snapshot.pods.objects if pod is not None},
        set(snapshot.nodes.rows.index),
        set(snapshot.namespaces),
        {(kind, group.metadata.name) for kind in groups for group in snapshot.groups(kind, "n")},
    )


def check_kinds(case: tuple[type[Any], str]) -> None:
    """An object of our kinds is admitted, or refused with what is wrong."""
    model, text = case
    resource = Resource.of(model)
    review = _review(resource.group, resource.version, resource.kind, resource.plural, text, text)
    if review is not None and review.request is not None:
        request = msgspec.structs.replace(review.request, old_object=None)
        response = asyncio.run(_validated(request))
        assert response.allowed or response.status is not None


def check_reviews(case: tuple[type[Any], str]) -> None:
    """A review of a workload is a request to scale down, or it is not."""
    model, text = case
    resource = Resource.of(model)
    old = json.dumps({**tree(model), "spec": {"replicas": 5}})
    review = _review(resource.group, resource.version, resource.kind, resource.plural, text, old)
    if review is not None and review.request is not None:
        scale_down_request(review.request, OWNERS)


def _review(group: str, version: str, kind: str, plural: str, new: str, old: str) -> AdmissionReview | None:
    identity = {"group": group, "version": version}
    request = {
        "uid": "u",
        "kind": {**identity, "kind": kind},
        "resource": {**identity, "resource": plural},
        "operation": "UPDATE",
        "namespace": "n",
        "name": "fuzzed",
        "object": "@new",
        "oldObject": "@old",
    }
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    try:
        text = body.replace('"@new"', new).replace('"@old"', old)
        return codec.decode(text.encode(errors="surrogatepass"), AdmissionReview)
    except InvalidError:
        return None


async def _validated(request: Any) -> Any:
    clock = VirtualClock()
    return await Validation(Client(FakeServer(clock), clock=clock), CHECKS).decide(request)


def _is_json(text: str) -> bool:
    try:
        json.loads(text.encode())
    except RecursionError:
        return False  # it may be, or not
    except ValueError:
        return False
    return "\\ud" not in text.lower()  # half of a surrogate pair is JSON, but not text


def _of(*models: type[Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from(models).flatmap(lambda model: st.tuples(st.just(model), texts(model)))


def _is_reviewed(model: type[Any]) -> bool:
    resource = Resource.of(model)
    return (resource.group, resource.plural) in KINDS or model in OWNERS.custom


TARGETS: Mapping[str, Target] = {
    "decoder": Target(_of(*MODELS), check_decoder),
    "snapshot": Target(_of(*MIRRORED, CloneSet), check_snapshot),
    "kinds": Target(_of(CloneSet, UnitedTopology, ScaleDownPolicy), check_kinds),
    "reviews": Target(_of(*filter(_is_reviewed, MODELS)), check_reviews),
    "scenarios": Target(files.scenario_texts(), files.check_scenario),
    "kubeconfig": Target(files.texts((files.KUBECONFIG,), files.WORDS), files.check_kubeconfig),
}
"""All targets, by name."""
