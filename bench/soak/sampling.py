"""What the processes report while a run goes on: memory, metrics, and the history of scale-downs."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from bench.figures import resident_mib
from bench.promise.processes import ProcessError
from bench.soak import judging
from bench.soak.arena import Arena
from bench.soak.judging import Histogram, Limit
from bench.soak.replicas import WEBHOOKS, Replica

INTERVAL = 3.0
MARKS = (60.0, 600.0, 3600.0)
"""When the memory of each process is reported, in seconds."""
LAG, HELD = "trimtab_event_loop_lag_seconds", "trimtab_scaledown_held_seconds"
WORK = "trimtab_event_loop_work_seconds"
UNREADABLE = "trimtab_unreadable_objects"
REVIEWS = "trimtab_webhook_review_duration_seconds"


@dataclass
class Sampler:
    """Takes samples until cancelled."""

    arena: Arena
    sizes: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    """MiB of each process, by its name and the seconds since the run began."""
    ages: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    """MiB of each process of Trimtab, by its name and process id, and the seconds since it started."""
    histograms: dict[tuple[str, str, int], Histogram] = field(default_factory=dict)
    """By metric, replica and process id."""
    unreadable: dict[tuple[str, int], float] = field(default_factory=dict)
    """Versions of objects that a process could not read, by replica and process id."""
    late: set[str] = field(default_factory=set)
    """What has been reported about processes."""
    judged: set[str] = field(default_factory=set)
    """The records of scale-downs that have been checked: a process keeps them for longer than the arena does."""

    async def run(self) -> None:
        """Take samples."""
        while True:
            await self.sample()
            await asyncio.sleep(INTERVAL)

    async def sample(self) -> None:
        """Take one sample of everything."""
        self._measure_memory()
        for replica in self.arena.installation.replicas:
            await self.scrape(replica)

    async def scrape(self, replica: Replica) -> None:
        """Read the metrics and the history of a replica."""
        pid = replica.current.process.pid
        self._check_alive(replica)
        text = await replica.get("/metrics")
        if text is None or replica.current.process.pid != pid:
            return
        for name in (LAG, WORK, HELD, REVIEWS):
            self.histograms[name, replica.name, pid] = histogram(text, name)
        self.unreadable[replica.name, pid] = counter(text, UNREADABLE)
        if replica.component == WEBHOOKS and (records := await replica.get("/scaledowns")):
            self._take_history(replica, records)

    def total(self, metric: str, replica: str) -> Histogram:
        """A metric of a replica over all its processes."""
        found = [value for (name, owner, _), value in self.histograms.items() if (name, owner) == (metric, replica)]
        return sum(found, Histogram({}))

    def check_loops(self) -> None:
        """Check that the event loop of each process was free."""
        self._check_histograms(judging.EVENT_LOOP, {LAG: judging.LAG_LIMIT, WORK: judging.WORK_LIMIT})

    def check_durations(self) -> None:
        """Check that each process answered requests and reviews in time."""
        self._check_histograms(judging.BUDGET, dict.fromkeys((HELD, REVIEWS), judging.ANSWER_LIMIT))

    def _check_histograms(self, invariant: str, limits: Mapping[str, Limit]) -> None:
        """Check the histograms of each process; a breach is reported once."""
        for (name, replica, pid), found in self.histograms.items():
            key = f"{replica} ({pid}): {name}"
            if name in limits and key not in self.late:
                problem = limits[name].breach(found)
                self.late |= {key} if problem else set()
                self.arena.ledger.check(invariant, not problem, f"{key} is {problem}")

    def check_memory(self) -> None:
        """Check that the memory of each process that lived long enough has not grown."""
        for name, samples in self.ages.items():
            found = judging.growth(samples)
            if found is not None:
                text = f"{name}: {found[0]:.0f} MiB after the warm-up, {found[1]:.0f} MiB at the end"
                self.arena.ledger.check(judging.MEMORY, judging.is_flat(*found), text)

    def memory(self) -> dict[str, dict[str, float]]:
        """The MiB of each process at the marks and at the end."""
        return {name: memory_at_marks(samples) for name, samples in sorted(self.sizes.items()) if samples}

    def series(self) -> dict[str, list[float]]:
        """The MiB of each process, minute by minute."""
        return {name: by_minute(samples) for name, samples in sorted(self.sizes.items()) if samples}

    def _measure_memory(self) -> None:
        processes = {each.name: each.current.process.pid for each in self.arena.installation.replicas}
        with suppress(ProcessError):
            processes |= {f"lab: {name}": pid for name, pid in self.arena.lab.processes().items()}
        for name, pid in {**processes, "this program": os.getpid()}.items():
            if (size := resident(pid)) is not None:
                self.sizes[name].append((self.arena.ledger.elapsed, size))
        for replica in self.arena.installation.replicas:
            instance = replica.current
            if (size := resident(instance.process.pid)) is not None:
                age = time.time() - instance.started
                self.ages[f"{replica.name} ({instance.process.pid})"].append((age, size))

    def _check_alive(self, replica: Replica) -> None:
        if replica.changing.locked() or not replica.has_ended_by_itself:
            self.arena.ledger.check(judging.ALIVE, holds=True)
            return
        is_expected = replica.has_ended_as_it_must
        detail = f"{replica.name} ended with {replica.current.process.returncode}; see {replica.current.log}"
        self.arena.ledger.check(judging.ALIVE, is_expected, detail)
        self.arena.ledger.note("schedulers that ended because they lost their lease", is_expected)
        self.arena.start(self._restart(replica))

    async def _restart(self, replica: Replica) -> None:
        async with replica.changing:
            if replica.has_ended_by_itself:
                replica.current.died = time.time()
                try:
                    await replica.restart()
                except ProcessError as error:
                    self.arena.ledger.check(judging.RECOVERS, holds=False, detail=str(error))

    def _take_history(self, replica: Replica, text: str) -> None:
        for record in json.loads(text):
            key = f"{replica.name}/{record['id']}"
            known = self.arena.history.get(key)
            self.arena.history[key] = {**record, "seen": known["seen"] if known else time.monotonic()}
            if key not in self.judged:
                self.judged.add(key)
                held = record.get("heldMilliseconds", 0)
                detail = f"{record['name']} {record['from']} → {record['to']} ({record['outcome']}): held for {held} ms"
                self.arena.ledger.check(judging.BUDGET, not judging.over_budget(held), detail)


def histogram(text: str, name: str) -> Histogram:
    """A histogram of a page of metrics, over all its labels."""
    buckets: dict[float, float] = {}
    for family in text_string_to_metric_families(text):
        if family.name == name:
            for sample in family.samples:
                if sample.name == f"{name}_bucket":
                    bound = float(sample.labels["le"])
                    buckets[bound] = buckets.get(bound, 0.0) + sample.value
    return Histogram(buckets)


def counter(text: str, name: str) -> float:
    """A counter of a page of metrics, over all its labels."""
    families = [family for family in text_string_to_metric_families(text) if family.name == name]
    return sum(sample.value for family in families for sample in family.samples if sample.name == f"{name}_total")


def resident(pid: int) -> float | None:
    """The resident memory of a process in MiB; None if it has ended."""
    try:
        return resident_mib(pid)
    except (OSError, IndexError):
        return None


def by_minute(samples: list[tuple[float, float]]) -> list[float]:
    """The last of each minute's sizes."""
    minutes = {int(at // 60): round(size, 1) for at, size in samples}
    return [size for _, size in sorted(minutes.items())]


def memory_at_marks(samples: list[tuple[float, float]]) -> dict[str, float]:
    """The MiB of one process at the marks that were reached, and at the end."""
    found = {
        f"{mark / 60:.0f} min": next((round(size, 1) for at, size in samples if at >= mark), None) for mark in MARKS
    }
    return {name: size for name, size in found.items() if size is not None} | {"end": round(samples[-1][1], 1)}
