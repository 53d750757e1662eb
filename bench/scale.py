"""The long benchmarks: `make bench-scale`, or `make bench-scale ONLY=growth`; `CONTROL_PLANE=DIR` for real binaries.

Each figure is a function that returns JSON; the results of the figures that ran replace theirs in `bench/scale.json`,
from which `make generate` writes docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import growth, many, processes
from bench.binding import comparison
from bench.binding.cluster import CONSTRAINTS
from bench.binding.comparison import Extent
from bench.binding.contenders import TRIMTAB, TRIMTAB_PARTS
from bench.binding.turns import LIMIT
from bench.results import publish

EXISTING = 15_000
"""Pods of the workload that a cluster in use has before the first turn: three on each node."""


@dataclass(frozen=True, slots=True)
class Options:
    """What figures may need."""

    control_plane: Path | None
    rounds: int
    pods: int
    constraints: Sequence[str]


def _growth(options: Options) -> Mapping[str, Any]:  # noqa: ARG001 - it needs none
    return growth.measure()


def _processes(options: Options) -> Mapping[str, Any]:  # noqa: ARG001 - it needs none
    return processes.measure_all(processes.NODES, processes.PODS)


def _processes_large(options: Options) -> Mapping[str, Any]:  # noqa: ARG001 - it needs none
    return processes.measure_all(*processes.LARGE, ("webhooks",))


def _scale_downs(options: Options) -> Mapping[str, Any]:  # noqa: ARG001 - it needs none
    return many.scale_downs()


def _topologies(options: Options) -> Mapping[str, Any]:  # noqa: ARG001 - it needs none
    return many.topologies()


def _binding(options: Options, **more: Any) -> Mapping[str, Any] | None:
    if options.control_plane is None:
        return None
    return comparison.compare(
        options.control_plane, Extent(options.rounds, options.pods, kinds=options.constraints, **more)
    ).tree()


def _binding_in_use(options: Options) -> Mapping[str, Any] | None:
    return _binding(options, existing=EXISTING)


def _binding_parts(options: Options) -> Mapping[str, Any] | None:
    return _binding(options, contenders=(LIMIT, TRIMTAB, TRIMTAB_PARTS))


FIGURES: Mapping[str, Callable[[Options], Mapping[str, Any] | None]] = {
    "processes": _processes,
    "processes-large": _processes_large,
    "growth": _growth,
    "scale-downs": _scale_downs,
    "topologies": _topologies,
    "binding": _binding,
    "binding-in-use": _binding_in_use,
    "binding-parts": _binding_parts,
}
"""By name; None where a figure needs a control plane and there is none."""


def _stop(number: int, _: object) -> None:
    """End as SIGINT does, so that the processes of a control plane end, too."""
    raise SystemExit(128 + number)


def main() -> None:
    """Measure what was asked for, one after the other."""
    parser = argparse.ArgumentParser(prog="make bench-scale", description=__doc__)
    parser.add_argument("--only", choices=sorted(FIGURES), help="one figure instead of all")
    parser.add_argument("--control-plane", type=Path, help="a folder with etcd, kube-apiserver and kube-scheduler")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each scheduler with each kind of constraints")
    parser.add_argument("--pods", type=int, default=1_000, help="pods of a turn")
    parser.add_argument(
        "--constraints",
        nargs="+",
        choices=list(CONSTRAINTS),
        default=list(CONSTRAINTS),
        help="of the pods; all of them",
    )
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    options = Options(given.control_plane, given.rounds, given.pods, given.constraints)
    for name in [given.only] if given.only else FIGURES:
        print(name, flush=True)
        measured = FIGURES[name](options)
        if measured is None:
            print("  left out: it needs CONTROL_PLANE=DIR")
            continue
        publish(name, measured)
        print(json.dumps(measured, indent=2), flush=True)


if __name__ == "__main__":
    main()
