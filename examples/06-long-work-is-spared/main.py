"""Six workers report what would be lost with them; the three with the least to lose are deleted."""

import asyncio
import time
from dataclasses import replace
from ipaddress import ip_network

from worker import Worker

from trimtab.api import codec
from trimtab.api.pods import Pod
from trimtab.api.scaledown import StrategySpec
from trimtab.kube.clocks import SystemClock
from trimtab.ranking import Policy, Workload, plan
from trimtab.ranking.strategies.probe import ProbeSettings
from trimtab.scaledown.sources.answers import AnswerSource, HttpFetch, ProbeRequest
from trimtab.testing.builders import cluster, pod

HOURS = [0, 7, 3, 0, 1, 5]
"""Hours of work of each worker."""
HERE = [ip_network("127.0.0.0/8")]
"""The network of the pods: in this example, this machine."""


def running(number: int, hours: int) -> tuple[Pod, int]:
    """A pod with a worker, and the port of its endpoint."""
    worker = Worker()
    worker.started = time.monotonic() - 3600 * hours if hours else None
    port = worker.serve("127.0.0.1", 0)
    tree = pod(f"worker-{number}").on("a" if number % 2 else "b").phase("Running").ready().tree()
    tree["status"]["podIP"] = "127.0.0.1"
    return codec.convert(tree, Pod), port


async def main() -> None:
    """Query the workers, plan, and print the reasons."""
    clock, fetch = SystemClock(), HttpFetch()
    source = AnswerSource(clock, fetch, networks=HERE)
    pods = [running(number, hours) for number, hours in enumerate(HOURS)]
    await source.probe(ProbeRequest(each, ProbeSettings(port=port)) for each, port in pods)
    await fetch.close()
    view = cluster("z1: a", "z2: b").snapshot()
    for each, _ in pods:
        view.put(each)
    answers = source.samples.fresh([each for each, _ in pods], now=clock.monotonic(), max_age=60)
    policy = replace(Policy.of([StrategySpec(name="Probe")]), stated=answers)
    decided = plan(Workload.of_all(view), view, policy, replicas=3, now=clock.now())
    for victim in decided.victims:
        print(f"{victim.key} goes: {answers[victim.key] / 3600:.0f} h of work would be lost")
    spared = sorted(set(answers) - set(decided.keys))
    print(f"spared: {', '.join(f'{key} ({answers[key] / 3600:.0f} h)' for key in spared)}")


asyncio.run(main())
