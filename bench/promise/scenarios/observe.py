"""The mode Observe: nothing is written, requests are hardly slower, and every recorded result is right.

Workloads in two namespaces grow and shrink in the same way. The webhook for scale requests is told to leave out one of
the namespaces, so that its requests are answered without Trimtab. What Trimtab recorded of the others is compared with
what our own watches saw.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.promise import product, workloads
from bench.promise.comparison import JSON
from bench.promise.measuring import Measurement, Round, attach_events
from bench.promise.report import Report, tally
from bench.promise.scenarios.rounds import grow
from bench.promise.stage import Stage
from bench.promise.workloads import DEPLOYMENTS, Workload
from trimtab.kube.resources import untyped

POLICY = {"mode": "Observe"}
_HOOKS = untyped(
    "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
_MOST_EXTRA_SECONDS = 0.05


@dataclass
class Answers:
    """How long scale requests took, with Trimtab and without."""

    observed: list[float] = field(default_factory=list)
    unobserved: list[float] = field(default_factory=list)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument("--rounds", type=int, default=500, help="observed scale-downs (default: 500)")
    parser.add_argument("--workloads", type=int, default=6, help="workloads side by side (default: 6)")


async def measure(stage: Stage, arguments: argparse.Namespace) -> Report:
    """Play all rounds, then read Trimtab's history."""
    left_out = f"{stage.namespace}-without"
    await stage.client.create(workloads.NAMESPACES, {"metadata": {"name": left_out}})
    await _leave_out(stage, left_out)
    players = [Workload(DEPLOYMENTS, f"w{index}") for index in range(arguments.workloads)]
    finished, answers, todo = list[Measurement](), Answers(), iter(range(arguments.rounds))
    await asyncio.gather(*(_play(stage, left_out, each, todo, finished, answers) for each in players))
    await asyncio.sleep(5.0)
    history = await product.history(stage.product) if stage.product else []
    rounds = [measurement.round for measurement in finished]
    attach_events(rounds, stage.events.seen)
    await stage.client.delete(workloads.NAMESPACES, left_out)
    return _report(stage, finished, answers, history)


async def _leave_out(stage: Stage, namespace: str) -> None:
    """Keep the API server from sending requests of a namespace to Trimtab."""
    rule = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [namespace]}
    for each in (await stage.client.list(_HOOKS)).items:
        if "trimtab" not in each["metadata"]["name"]:
            continue
        for hook in each["webhooks"]:
            selector = hook.setdefault("namespaceSelector", {})
            selector.setdefault("matchExpressions", []).append(rule)
        await stage.client.replace(_HOOKS, each)
    await asyncio.sleep(2.0)  # API servers learn of changed webhooks by a watch of their own


async def _play(
    stage: Stage,
    left_out: str,
    workload: Workload,
    todo: Iterator[int],
    finished: list[Measurement],
    answers: Answers,
) -> None:
    size = 1
    await stage.create(workload, size)
    body = workloads.manifest(workload, stage.run, 0)
    await stage.client.create(workload.kind, body, namespace=left_out)
    for index in todo:
        rng = random.Random(f"{stage.options.seed}/{index}")
        size = await grow(stage, workload, size, rng)
        measurement = Measurement(stage, workload, rng.randrange(1, size))
        await _time_unobserved(stage, left_out, workload, answers)
        await measurement.request()
        answers.observed.append(measurement.round.request_seconds)
        await measurement.finish()
        finished.append(measurement)
        size = measurement.round.target
        if len(finished) % 25 == 0:
            print(f"[{len(finished)}] {measurement.round.line()}", flush=True)


async def _time_unobserved(stage: Stage, left_out: str, workload: Workload, answers: Answers) -> None:
    """The same kind of request without Trimtab: up, not timed, and down, timed. Its pods are never created."""
    for size in (0, 1, 0):
        began = time.monotonic()
        await stage.client.resize(workload.kind, workload.name, size, namespace=left_out)
    answers.unobserved.append(time.monotonic() - began)


def _report(stage: Stage, finished: list[Measurement], answers: Answers, history: list[JSON]) -> Report:
    rounds = [measurement.round for measurement in finished]
    report = Report(f"{len(rounds)} observed scale-downs", rounds=rounds)
    costs = len(stage.pods.cost_writes)
    extra = _p99(answers.observed) - _p99(answers.unobserved)
    wrong = list(_wrong_records(stage, rounds, history))
    report.add("costs written to pods", costs)
    report.add("scale-downs that stock left with a skew above 1", sum(each.skew > 1 for each in rounds))
    report.add("p99 of requests with Trimtab, seconds", f"{_p99(answers.observed):.3f}")
    report.add("p99 of requests without, seconds", f"{_p99(answers.unobserved):.3f}")
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


def _p99(seconds: list[float]) -> float:
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] if ordered else 0.0
