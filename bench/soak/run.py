"""A run: rounds of faults with a quiet point after each, until the time is over."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from bench.promise import watching, workloads
from bench.promise.options import Options as StageOptions
from bench.promise.stage import Stage
from bench.promise.workloads import DEPLOYMENTS
from bench.soak import judging, kinds, lab, wire
from bench.soak.arena import Arena, NoEffectError, deployment
from bench.soak.faults import FAULTS
from bench.soak.installation import installed
from bench.soak.kinds import FAKETIME, REAL, Kind
from bench.soak.lab import Lab
from bench.soak.ledger import Ledger
from bench.soak.options import Options
from bench.soak.players import CLONE_SETS, PLAIN, TOPOLOGIES, UNITED, clone_set, pod_fields, united_topology
from bench.soak.quiet import quiet_point
from bench.soak.report import Report
from bench.soak.sampling import HELD, LAG, WORK, Sampler
from bench.soak.schedule import Step, moments, steps
from bench.soak.zones import NODES_PER_ZONE, Zones
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.retries import NO_RETRIES
from trimtab.kube.sessions import Session

_REQUEST_SECONDS = 15.0
_FIRST_SIZE = 6
_PROGRESS_SECONDS = 10.0
_FIGURES = (0.5, 0.99)


async def soak(options: Options) -> Report:
    """Run everything, and report."""
    folder = options.logs or Path(tempfile.mkdtemp(prefix="soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    available = frozenset(({REAL} if options.control_plane else set()) | ({FAKETIME} if options.preload else set()))
    ledger = Ledger()
    print(f"seed {options.seed}, logs in {folder}", flush=True)
    for name, needs in kinds.not_applicable(available).items():
        print(f"  not applicable: {name}, as there is no {needs}", flush=True)
    if not options.control_plane and options.wire_seconds:
        await _misbehave(ledger, folder / "wire", options)
    async with arena(options, folder, ledger) as made:
        ledger.began = time.monotonic()
        sampler = Sampler(made)
        sampling = asyncio.create_task(sampler.run())
        showing = asyncio.create_task(_show_progress(ledger, options))
        try:
            await _rounds(made, sampler, options, kinds.applicable(available))
        except asyncio.CancelledError:
            ledger.note("the run was stopped early")
        finally:
            await cancel(sampling, showing, *made.tasks)
        sampler.check_memory()
        report = Report(
            seed=options.seed,
            control_plane=made.lab.description,
            command=command(options),
            ledger=ledger,
            memory=sampler.memory(),
            not_applicable=kinds.not_applicable(available),
            series=sampler.series(),
        )
        report.figures |= _figures(made, sampler)
        return report


def command(options: Options) -> str:
    """What repeats the run."""
    binaries = f" CONTROL_PLANE={options.control_plane}" if options.control_plane else ""
    return f"make soak MINUTES={options.minutes:g} SEED={options.seed}{binaries}"


async def _misbehave(ledger: Ledger, folder: Path, options: Options) -> None:
    print(f"  a server misbehaves for {options.wire_seconds:g} s", flush=True)
    result = await wire.misbehave(folder, options.seed, options.wire_seconds)
    ledger.note("faults of a server that misbehaves", result.faults)
    ledger.check(judging.RECOVERS, not result.problems, "; ".join(result.problems))


async def _rounds(made: Arena, sampler: Sampler, options: Options, chosen: tuple[Kind, ...]) -> None:
    """Round after round, until the time is over."""
    number = 0
    while made.ledger.elapsed < options.minutes * 60:
        await play(made, steps(options.seed, number, chosen), options.round_seconds)
        took = await quiet_point(made, sampler, random.Random(f"{options.seed}/{number}/quiet"))
        number += 1
        made.ledger.rounds = number
        print(f"  round {number} is over; its quiet point: {took}", flush=True)


async def play(made: Arena, todo: list[Step], seconds: float) -> None:
    """Carry out the steps of a round, each at its moment; some go on while the next begin."""
    began = time.monotonic()
    for step, moment in zip(todo, moments(len(todo), seconds), strict=True):
        await asyncio.sleep(max(0.0, began + moment - time.monotonic()))
        made.start(_carry_out(made, step))


async def _carry_out(made: Arena, step: Step) -> None:
    try:
        detail = await FAULTS[step.kind](made, step.random())
    except NoEffectError as reason:
        made.ledger.record(step, str(reason), is_effective=False)
    else:
        made.ledger.record(step, detail)


async def _show_progress(ledger: Ledger, options: Options) -> None:
    while True:
        await asyncio.sleep(_PROGRESS_SECONDS)
        print(
            f"  {ledger.elapsed / 60:5.1f} of {options.minutes:g} min: {ledger.faults.total()} faults, "
            f"{ledger.checks.total()} checks, {len(ledger.breaches)} breaches",
            flush=True,
        )


def _figures(made: Arena, sampler: Sampler) -> dict[str, str]:
    """How long requests took and loops were late."""
    figures: dict[str, str] = {}
    if made.seconds:
        ordered = sorted(made.seconds)
        picked = [f"{ordered[min(len(ordered) - 1, int(len(ordered) * each))]:.2f}" for each in _FIGURES]
        figures["scale requests while the API server was up, s"] = (
            f"median {picked[0]}, p99 {picked[1]}, longest {ordered[-1]:.2f}, of {len(ordered)}"
        )
    figures["objects that a process could not read"] = f"{sum(sampler.unreadable.values()):.0f}"
    for replica in made.installation.replicas:
        lag, work, held = (sampler.total(metric, replica.name) for metric in (LAG, WORK, HELD))
        late = [
            f"{lag.above(bound):.0f} ({work.above(bound):.0f} by work) above {bound:g} s" for bound in (0.05, 0.25, 1.0)
        ]
        figures[f"event loop of {replica.name}"] = f"{', '.join(late)}, of {lag.count:.0f}"
        if held.count:
            late = [f"{held.above(bound):.0f} above {bound:g} s" for bound in (1.0, 2.0, 2.25)]
            figures[f"requests held by {replica.name}"] = f"{', '.join(late)}, of {held.count:.0f}"
    return figures


@asynccontextmanager
async def arena(options: Options, folder: Path, ledger: Ledger) -> AsyncIterator[Arena]:
    """A lab with nodes, Trimtab and workloads, until the context ends."""
    async with AsyncExitStack() as stack:
        print("  starting a lab and Trimtab", flush=True)
        started = await stack.enter_async_context(lab.running(folder / "lab", options.control_plane))
        client = await stack.enter_async_context(Client(Session(config.discover(started.kubeconfig))))
        stage = await _stage(options, started, client, folder)
        zones = Zones(stage, started.kubeconfig)
        stack.push_async_callback(zones.close)
        await zones.start()
        await zones.wait_joined()
        installation = await stack.enter_async_context(installed(client, started, folder))
        made = Arena(started, installation, stage, ledger, zones, options.preload)
        for kind, handle in (
            (watching.PODS, made.handle_pod),
            (watching.EVENTS, stage.events.handle),
            (DEPLOYMENTS, made.handle_deployment),
        ):
            await stack.enter_async_context(watching.following(stage.client, kind, stage.run, handle))
        await _create_players(made)
        yield made


async def _stage(options: Options, started: Lab, client: Client, folder: Path) -> Stage:
    run = f"soak-{uuid.uuid4().hex[:6]}"
    stage_options = StageOptions(
        kubeconfig=started.kubeconfig,
        seed=options.seed,
        nodes_per_zone=NODES_PER_ZONE,
        is_stock=False,
        faketime="",
        preload="",
        policy={},
        scale_down={},
        logs=folder,
        details=None,
        window=10.0,
        tolerance=5.0,
    )
    for name in (run, f"{run}-strange"):
        await client.create(workloads.NAMESPACES, {"metadata": {"name": name}})
    patient = client.using(retry=NO_RETRIES, timeout=_REQUEST_SECONDS)
    return Stage(stage_options, patient, run, folder, watching.PodWatch(), watching.EventWatch())


async def _create_players(made: Arena) -> None:
    """Create the workloads, and wait until they are complete."""
    await made.client.create(TOPOLOGIES, united_topology(), namespace=made.namespace)
    await asyncio.sleep(2.0)  # subsets are in effect once the namespace has its label
    for name in (*PLAIN, UNITED):
        await made.stage.create(deployment(name), _FIRST_SIZE, pod_fields(name))
    await made.client.create(CLONE_SETS, clone_set(made.stage.run, _FIRST_SIZE), namespace=made.namespace)
    for name in (*PLAIN, UNITED):
        await made.stage.wait_ready(deployment(name), _FIRST_SIZE)
