"""The mode Observe: nothing is written, requests are hardly slower, and every recorded result is right.

Workloads grow, rest for a moment and shrink. Every other scale-down of a workload is requested by a user whom the
webhooks are told to leave out, so that it is answered without Trimtab. What Trimtab recorded of the others is compared
with what our watches saw, and the API server's audit log, where it is given, with the promise that no pod is written.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from bench.promise import product
from bench.promise.comparison import JSON
from bench.promise.measuring import Measurement, Round, attach_events
from bench.promise.report import Report, tally
from bench.promise.scenarios.rounds import grow
from bench.promise.stage import Stage
from bench.promise.workloads import DEPLOYMENTS, Workload
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.resources import untyped
from trimtab.kube.sessions import Session

POLICY = {"mode": "Observe"}
_HOOKS = untyped(
    "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
_MOST_EXTRA_SECONDS = 0.05
_SIZES = (4, 14)
"""Of workloads before they shrink: small, because on one machine the pods that come and go slow all requests down."""


_OBSERVED, _LEFT_OUT = "promise-observed", "promise-left-out"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument("--rounds", type=int, default=500, help="observed scale-downs, and as many without (500)")
    parser.add_argument("--workloads", type=int, default=6, help="workloads side by side (default: 6)")
    parser.add_argument("--rest", type=float, default=1.0, help="seconds before each scale-down (default: 1)")
    parser.add_argument("--audit-log", type=Path, help="the API server's audit log, with at least the metadata of pods")


async def measure(stage: Stage, arguments: argparse.Namespace) -> Report:
    """Play all rounds, then read Trimtab's history."""
    await _leave_out(stage)
    players = [Workload(DEPLOYMENTS, f"w{index}") for index in range(arguments.workloads)]
    finished, todo = list[tuple[bool, Measurement]](), iter(range(2 * arguments.rounds))
    async with _acting_as(stage, _OBSERVED) as observed, _acting_as(stage, _LEFT_OUT) as left_out:
        stages = (observed, left_out)
        await asyncio.gather(*(_play(each, stages, todo, finished, arguments.rest) for each in players))
    await asyncio.sleep(5.0)
    history = await product.history(stage.product) if stage.product else []
    attach_events([measurement.round for _, measurement in finished], stage.events.seen)
    report = _report(stage, finished, history)
    if arguments.audit_log:
        _add_audited(report, arguments.audit_log.read_text())
    return report


async def _leave_out(stage: Stage) -> None:
    """Keep the API server from sending the requests of one user to Trimtab."""
    condition = {"name": "left-out", "expression": f"request.userInfo.username != '{_LEFT_OUT}'"}
    for each in (await stage.client.list(_HOOKS)).items:
        if "trimtab" not in each["metadata"]["name"]:
            continue
        for hook in each["webhooks"]:
            hook.setdefault("matchConditions", []).append(condition)
        await stage.client.replace(_HOOKS, each)
    await asyncio.sleep(2.0)  # API servers learn of changed webhooks by a watch of their own


@asynccontextmanager
async def _acting_as(stage: Stage, user: str) -> AsyncIterator[Stage]:
    """A stage whose requests are made as another user, who may do everything."""
    endpoint = config.discover(stage.options.kubeconfig)
    identity = {"Impersonate-User": (user,), "Impersonate-Group": ("system:masters",)}
    async with Client(Session(replace(endpoint, impersonate=identity))) as client:
        yield replace(stage, client=client)


async def _play(
    workload: Workload,
    stages: tuple[Stage, Stage],
    todo: Iterator[int],
    finished: list[tuple[bool, Measurement]],
    rest: float,
) -> None:
    """Shrink one workload again and again: observed, left out, observed, …

    Without a rest, the status that its controllers still write makes the API server repeat most requests.
    """
    size, is_observed = 1, False
    await stages[0].create(workload, size)
    for index in todo:
        is_observed = not is_observed
        stage = stages[0 if is_observed else 1]
        rng = random.Random(f"{stage.options.seed}/{index}")
        size = await grow(stage, workload, size, rng, _SIZES)
        await asyncio.sleep(rest)
        measurement = Measurement(stage, workload, rng.randrange(1, size))
        await measurement.request()
        await measurement.finish()
        finished.append((is_observed, measurement))
        size = measurement.round.target
        if len(finished) % 25 == 0:
            print(f"[{len(finished)}] {measurement.round.line()}", flush=True)


def _add_audited(report: Report, lines: str) -> None:
    """Count the writes of pods in an audit log that change metadata: bindings, statuses and deletions are others'."""
    entries = [json.loads(line) for line in lines.splitlines()]
    writes = [each for each in entries if each["verb"] in ("patch", "update") and _is_pod(each.get("objectRef", {}))]
    report.add("audit log: entries about pods", len(entries))
    report.add("audit log: pods patched or updated", len(writes))
    if writes:
        report.failures.append(f"{len(writes)} pods were written; the first: {writes[0]['requestURI']}")


def _is_pod(reference: JSON) -> bool:
    return reference.get("resource") == "pods" and not reference.get("subresource")


def _report(stage: Stage, finished: list[tuple[bool, Measurement]], history: list[JSON]) -> Report:
    rounds = [measurement.round for is_observed, measurement in finished if is_observed]
    left_out = [measurement.round for is_observed, measurement in finished if not is_observed]
    report = Report(f"{len(rounds)} observed scale-downs", rounds=rounds)
    costs = len(stage.pods.cost_writes)
    with_trimtab, without = (sorted(each.request_seconds for each in some) for some in (rounds, left_out))
    extra = _at(with_trimtab, 0.99) - _at(without, 0.99)
    wrong = list(_wrong_records(stage, rounds, history))
    report.add("costs written to pods", costs)
    report.add("scale-downs that stock left with a skew above 1", sum(each.skew > 1 for each in rounds))
    for name, seconds in (("with Trimtab", with_trimtab), ("without", without)):
        shares = " · ".join(f"{_at(seconds, share):.3f}" for share in (0.5, 0.9, 0.99, 1.0))
        report.add(f"requests {name}, seconds: p50 · p90 · p99 · longest", shares)
    report.add("records", len(history))
    report.add("wrong or missing records", len(wrong))
    report.add("requests with a warning", sum(bool(each.warnings) for each in rounds))
    for text, count in tally(f"{each.reason}: {each.message}" for each in stage.events.seen):
        report.add(f"event: {text[:80]}", count)
    if costs:
        report.failures.append(f"{costs} costs were written")
    if extra > _MOST_EXTRA_SECONDS:
        report.failures.append(f"requests took {extra:.3f} s longer")
    report.failures += wrong
    return report


def _wrong_records(stage: Stage, rounds: list[Round], history: list[JSON]) -> Iterator[str]:
    """Rounds whose record is missing, or says otherwise than our watches."""
    by_workload: dict[str, list[JSON]] = {}
    for record in reversed(history):
        if record["namespace"] == stage.namespace and record.get("result") != "superseded":
            by_workload.setdefault(record["name"], []).append(record)
    for each in rounds:
        sizes = (sum(each.before.values()), each.target)
        records = by_workload.get(each.workload, [])
        matching = [record for record in records if (record["from"], record["to"]) == sizes]
        if not matching:
            yield f"{each.line()}: no record"
            continue
        record = matching[0]
        records.remove(record)
        zones = record["distributions"][0]
        left = dict(zip(zones["domains"], zones.get("left", ()), strict=False))
        planned = max(zones["planned"]) - min(zones["planned"])
        best = max(each.best.values()) - min(each.best.values())
        if left != each.after or planned != best or record["mode"] != "Observe":
            yield f"{each.line()}: recorded {record['from']} → {record['to']}, left {left}, planned {zones['planned']}"


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0
