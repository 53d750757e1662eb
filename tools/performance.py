"""Writes `docs/performance.md` from `bench/scale.json`, which `make bench-scale` and `make bench` write."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "bench" / "scale.json"
TARGET = ROOT / "docs" / "performance.md"
HEADING = """# Performance

The results of `make bench-scale` and `make bench ARGS=--publish`, generated from `bench/scale.json` by `make generate`.
Machines differ, and a machine that does other work differs from itself: compare figures of one run with one another.

So do interpreters. Those of distributions and of container images are compiled with profile-guided optimization; one
that is not (pyenv's default, for example) takes up to one and a half times as long, and its calibration as well.
Publish with the former: `make install PYTHON=/usr/bin/python3` in a clone of its own, and the benchmarks there.
"""
_BEFORE = """
## Before and after one cache

What the processes took when every part had watches and copies of its own, and what they take now, on the same kind of
machine. Rates stand beside kube-scheduler's of the same run.

| | before | now |
|---|---|---|
"""
_BEFORE_ROWS: Sequence[tuple[str, str, Callable[[Mapping[str, Any]], object]]] = (
    ("all in one: MiB", "647", lambda results: _set(results, "all-in-one")["MiB"]),
    ("all in one: watches of pods", "6", lambda results: _set(results, "all-in-one")["watches of pods"]),
    ("all in one: connections", "46", lambda results: _set(results, "all-in-one")["connections"]),
    ("all in one: CPU at the start, s", "26", lambda results: _set(results, "all-in-one")["CPU s"]),
    ("webhooks: MiB", "275", lambda results: _set(results, "webhooks")["MiB"]),
    ("webhooks: ready after, s", "12.6", lambda results: _set(results, "webhooks")["ready after s"]),
    ("controllers: MiB", "337", lambda results: _set(results, "controllers")["MiB"]),
    ("scheduler: MiB", "160", lambda results: _set(results, "scheduler")["MiB"]),
    ("a pod in the cache: KiB", "3.6", lambda results: f"{_figure(results, 'cache-memory-50k'):.2f}"),
    ("soft constraints: pods a second", "155–183 beside 59–75", lambda results: _rates(results, "soft")),
    ("hard constraint: pods a second", "139–156 beside 54–65", lambda results: _rates(results, "hard")),
    ("no constraints: pods a second", "153–156 beside 119–143", lambda results: _rates(results, "none")),
)
"""What, its value before, and the one of today."""
_BINDING = """
## Pods created and bound end to end

5,000 nodes without kubelets; eight clients create pods of one workload, and a watch shows when the last has a node. The
schedulers take turns on one control plane, each alone, with one configuration file and no limit of requests. Everything
shares the machine: etcd, the API server, the clients and the scheduler. *Limit* is what the API server takes from the
same clients if they bind each pod themselves, without a scheduler. CPU is in milliseconds a pod, of all processes and
by process; *peak MiB* is the scheduler's memory.

A turn ends with the last binding. Trimtab binds first: while pods are being bound, for half a minute at most, their
events wait. So rate and CPU are shown twice for either scheduler: until the last pod has a node, and *with events*,
until the last event of these pods is written, too. Rows without these figures were measured before that: Trimtab wrote
its events beside the bindings.
"""
_BINDING_ROWS = """
### {title}

| constraints | | pods a second | median | of kube-scheduler's | with events | CPU | CPU with events | peak MiB |
|---|---|---|---|---|---|---|---|---|
"""
_PARTS = """
### Where Trimtab's time goes

CPU of the scheduler's process in milliseconds a pod, by part, for the first pods of a cluster. Time counts for one part
alone: what a binding spends on TLS is TLS. *Events* are those that the scheduler writes, as far as they are written
before the turn ends; *watches* is what it does with the changes that it watches: cache, snapshot, queue. *HTTP* is
parsing responses and sending the bodies of requests; what the HTTP client does besides counts for the binding or the
event. *Rest* is the event loop, system calls on sockets, and other threads. The process counts the parts itself, which
takes time, too: *all, not counted* is the CPU of the process in turns without that.

*All processes* is what etcd, the API server, the clients and the scheduler use for a pod together. They share the
processors, and *all processors* divides the machine's by that: it is the most that can be bound here. If the scheduler
took no time, and the others as much as now, it would be *without the scheduler*. *One core* is what the process, which
computes in one thread, could bind if a core were its own.

"""
_PROCESSES = """
## What processes cost at the start

`trimtab run` on the lab's API server, measured when the process is ready, leads and watches pods: processor time and
seconds since its start, memory, and what the server counts of its watches and connections. Then 2,000 pods change a
second, for five seconds: the cores that this takes, and how often the event loop was more than 50 ms late since the
start, of how many measurements (fifty a second), and how often by its own work; in parentheses, how often a thread was
that only sleeps, since a virtual machine is not always given its processors. Each process is started several times;
the figures are medians, and delays are those of all starts.
"""
_PROCESSES_ROWS = """
| components | CPU, s | ready after, s | MiB (peak) | watches (of pods) | connections | cores for changes | late |
|---|---|---|---|---|---|---|---|
"""
_GROWTH = """
## Growth with the cluster

Decisions about one workload of 1,000 pods while the rest of the cluster grows, 20 pods a node (15,000 nodes: 300,000
pods). An exponent of 0 means that the rest of the cluster costs nothing, 1 that the time grows as the cluster does. The
calibration sorts 10,000 tuples.

"""
_SCALE_DOWNS = """
## Many scale-downs at once

ReplicaSets on the lab that are scaled down by a third within one second, every tenth of them large, held by one webhook
process with the limits of an installation. Times are what the caller of `/scale` waits, in seconds; the last column has
the share of workloads for which all costs of the plan were written.

| workloads | p50 | p99 | longest | completely written |
|---|---|---|---|---|
"""
_TOPOLOGIES = """
## Many UnitedTopologies at once

Pods on the lab, created in turn for each UnitedTopology, 200 under way together, reviewed by three webhook processes
beside a controller. Each has subsets of 300 pods, 40 % and any number; no limit was exceeded. Times are in seconds.

| | p50 | p99 | longest |
|---|---|---|---|
"""
_FIGURES = """
## The figures of `make bench`

Each value stands beside a calibration of the same run, since machines differ: the time to sort 10,000 tuples, a simpler
program that does the same work, or the limit itself. The ratio is what can be compared; the last column has its limit.

| figure | value | calibration | ratio | limit of the ratio |
|---|---|---|---|---|
"""


def generate() -> str:
    """The text of the page."""
    results = json.loads(SOURCE.read_text(encoding="utf-8"))
    text = HEADING
    if {"binding", "processes", "figures"} <= results.keys():
        text += _BEFORE + "".join(f"| {name} | {before} | {now(results)} |\n" for name, before, now in _BEFORE_ROWS)
    if "binding" in results:
        text += _BINDING
    for found in (results[name] for name in ("binding", "binding-in-use") if name in results):
        text += _BINDING_ROWS.format(title=_binding_title(found)) + "\n".join(_binding(found["rows"])) + "\n"
        text += _machine(found)
    if "binding-parts" in results:
        found = results["binding-parts"]
        text += _PARTS + "\n".join(_parts(found["rows"], found["machine"]["cores"])) + "\n" + _machine(found)
    if "processes" in results:
        text += _PROCESSES
    for found in (results[name] for name in ("processes", "processes-large") if name in results):
        text += _PROCESSES_ROWS + "\n".join(_processes(found)) + "\n" + _machine(found)
    if "growth" in results:
        text += _GROWTH + "\n".join(_growth(results["growth"])) + "\n" + _machine(results["growth"])
    if "scale-downs" in results:
        found = results["scale-downs"]
        text += _SCALE_DOWNS + "\n".join(_scale_downs(found)) + "\n" + _machine(found)
    if "topologies" in results:
        found = results["topologies"]
        text += _TOPOLOGIES + "\n".join(_topologies(found)) + "\n" + _machine(found)
    if "figures" in results:
        found = results["figures"]
        text += _FIGURES + "\n".join(_figures(found["rows"])) + "\n" + _machine(found)
    return text


def _set(results: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """What a process with these components takes."""
    return results["processes"]["sets"][name]  # type: ignore[no-any-return]


def _figure(results: Mapping[str, Any], name: str) -> float:
    return next(float(row["value"]) for row in results["figures"]["rows"] if row["name"] == name)


def _rates(results: Mapping[str, Any], constraints: str) -> str:
    """The median rates of both schedulers."""
    rates = {row["contender"]: _median(row) for row in results["binding"]["rows"] if row["constraints"] == constraints}
    return f"{rates['trimtab']:.0f} beside {rates['kube-scheduler']:.0f}"


def _figures(rows: list[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        value, beside = f"{row['value']:.3g} {row['unit']}", f"{row['calibration']:.3g}"
        yield f"| {row['name']} | {value} | {beside} | {row['ratio']:.3g} | {row['limit']} |"


def _scale_downs(results: Mapping[str, Any]) -> Iterator[str]:
    sizes = results["sizes"]
    for name, times in results["held"].items():
        kind = f"{name}, {sizes[name]} pods" if name in sizes else name
        yield f"| {kind} | {_times(times)} | {results['completely written'][name]:.0%} |"
    outcomes = ", ".join(f"{name} {count}" for name, count in results["outcomes"].items())
    yield (
        f"\n{results['workloads']} workloads with {results['pods']:,} pods: {outcomes}; "
        f"calibration {results['calibration_ms']:.2f} ms."
    )


def _topologies(results: Mapping[str, Any]) -> Iterator[str]:
    yield f"| reviews, in the webhooks | {_times(results['reviews'])} |"
    yield f"| creations, for the client | {_times(results['creation'])} |"
    rate = results["creations"] / results["seconds"]
    yield (
        f"\n{results['topologies']} UnitedTopologies, {results['creations']:,} pods, {rate:.0f} a second; without a "
        f"subset for lack of time: {results['without_subset']}. Status writes: {results['status_writes']:,}, of which "
        f"{results.get('conflicts', 0):,} conflicted; calibration {results['calibration_ms']:.2f} ms."
    )


def _times(times: Mapping[str, float]) -> str:
    return " | ".join(f"{times[each]:.2f}" for each in ("p50", "p99", "longest"))


def _binding_title(results: Mapping[str, Any]) -> str:
    existing, pods = results["existing pods"], results.get("pods of a turn", 1_000)
    state = f"{existing:,} pods of the workload have a node already" if existing else "The first pods of a cluster"
    return f"{state}, {pods:,} pods a turn"


def _binding(rows: list[Mapping[str, Any]]) -> Iterator[str]:
    peers = {row["constraints"]: _median(row) for row in rows if row["contender"] == "kube-scheduler"}
    for row in rows:
        cpu = _cpu(row["CPU ms a pod"])
        listed, median = " ".join(f"{rate:.0f}" for rate in row["pods a second"]), _median(row)
        name, ratio = f"{row['constraints']} | {row['contender']}", median / peers[row["constraints"]]
        events = f"{_with_events(row)} | {cpu} | {_cpu(row.get('CPU ms a pod with events', {}))}"
        yield f"| {name} | {listed} | {median:.0f} | {ratio:.2f} × | {events} | {row['peak MiB'] or ''} |"


def _cpu(used: Mapping[str, float]) -> str:
    """The milliseconds of all processes, and of each."""
    if not used:
        return ""
    return f"{sum(used.values()):.1f}: " + ", ".join(f"{name} {value}" for name, value in used.items())


def _with_events(row: Mapping[str, Any]) -> str:
    """The median rate until events are written, and how many pods are left without one."""
    rates, missing = row.get("with events a second"), sum(row.get("without an event", ()))
    if not rates:
        return ""
    return f"{statistics.median(rates):.0f}" + (f" ({missing} missing)" if missing else "")


def _parts(rows: list[Mapping[str, Any]], cores: int) -> Iterator[str]:
    limits, plain, counted = (
        [row for row in rows if row["contender"] == name] for name in ("limit", "trimtab", "trimtab-parts")
    )
    yield "| | " + " | ".join(row["constraints"] for row in counted) + " |"
    yield "|---" * (len(counted) + 1) + "|"
    parts = [row["parts ms a pod"] for row in counted]
    for name in parts[0]:
        yield _line(name, [each[name] for each in parts])
    yield _line("all", [sum(each.values()) for each in parts])
    used = [row["CPU ms a pod"]["trimtab"] for row in plain]
    together = [sum(row["CPU ms a pod"].values()) for row in plain]
    yield _line("all, not counted", used)
    yield _line("all processes", together)
    yield _line("pods a second", [_median(row) for row in plain], 0)
    yield _line("all processors, pods a second", [cores * 1e3 / each for each in together], 0)
    free = [cores * 1e3 / (each - own) for each, own in zip(together, used, strict=True)]
    yield _line("without the scheduler, pods a second", free, 0)
    yield _line("one core, pods a second", [1e3 / each for each in used], 0)
    yield _line("limit, pods a second", [_median(row) for row in limits], 0)


def _line(name: str, values: list[float], digits: int = 2) -> str:
    return f"| {name} | " + " | ".join(f"{value:.{digits}f}" for value in values) + " |"


def _median(row: Mapping[str, Any]) -> float:
    return float(statistics.median(row["pods a second"]))


def _processes(results: Mapping[str, Any]) -> Iterator[str]:
    for name, start in results["sets"].items():
        memory = f"{start['MiB']} ({start['peak MiB']})"
        watches = f"{start['watches']} ({start['watches of pods']})"
        times = f"{start['CPU s']} | {start['ready after s']}"
        sleeper = f"({start['late sleeping']} of {start['turns sleeping']})"
        by_work = f", {start['late by work']} by work" if "late by work" in start else ""
        changes = f"{start['cores for changes']} | {start['late']} of {start['turns']}{by_work} {sleeper}"
        yield f"| {name} | {times} | {memory} | {watches} | {start['connections']} | {changes} |"
    size, runs = f"{results['nodes']:,} nodes and {results['pods']:,} pods", results.get("runs", 1)
    yield f"\n{size}, {runs} start{'s' * (runs > 1)}; calibration {results['calibration ms']} ms."


def _growth(results: Mapping[str, Any]) -> Iterator[str]:
    sizes = results["sizes"]
    yield "| | " + " | ".join(f"{int(size):,} nodes" for size in sizes) + " | exponent |"
    yield "|---" * (len(sizes) + 2) + "|"
    for name in next(iter(sizes.values())):
        slope = results["exponents"].get(name)
        values = " | ".join(f"{measured[name]:.3g}" for measured in sizes.values())
        yield f"| {name} | {values} | {'' if slope is None else f'{slope:.2f}'} |"


def _machine(results: Mapping[str, Any]) -> str:
    machine = results["machine"]
    plane = f", {results['controlPlane']}" if "controlPlane" in results else ""
    note = f" {results['note']}" if "note" in results else ""
    return f"\nMeasured with Python {machine['python']} on {machine['cores']} cores{plane}.{note}\n"


def main() -> None:
    """Write the page."""
    TARGET.write_text(generate(), encoding="utf-8")


if __name__ == "__main__":
    main()
