"""The options that all scenarios have."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from bench.promise.comparison import JSON


@dataclass(frozen=True, slots=True)
class Options:
    """How a scenario runs."""

    kubeconfig: Path
    seed: int
    nodes_per_zone: int
    is_stock: bool
    faketime: str
    preload: str
    policy: JSON
    scale_down: JSON
    logs: Path | None
    details: Path | None
    window: float
    tolerance: float
    configuration: JSON = field(default_factory=dict)
    """More fields of Trimtab's configuration."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add them to the parser of a scenario."""
    kubeconfig = os.environ.get("KUBECONFIG")
    parser.add_argument("--kubeconfig", type=Path, default=kubeconfig, help="the cluster; default: $KUBECONFIG")
    parser.add_argument("--seed", type=int, default=0, help="what random numbers begin with (default: 0)")
    parser.add_argument("--nodes-per-zone", type=int, default=12, help="simulated nodes in each zone (default: 12)")
    parser.add_argument("--stock", action="store_true", help="run without Trimtab, for comparison")
    parser.add_argument(
        "--faketime", default="", metavar="OFFSET", help="run Trimtab under another clock, such as +30s"
    )
    parser.add_argument("--preload", default="", metavar="PATH", help="the library of libfaketime, for --faketime")
    parser.add_argument("--policy", type=json.loads, help="more fields of the default policy, as JSON")
    parser.add_argument(
        "--scale-down", type=json.loads, default={}, help="more fields of the configuration's scaleDown, as JSON"
    )
    parser.add_argument("--logs", type=Path, help="a folder for the logs of all processes; default: a temporary one")
    parser.add_argument(
        "-o", "--output", nargs=2, metavar=("json", "FILE"), help="write the details of every round to a file"
    )
    parser.add_argument("--window", type=float, default=10.0, help="seconds in which the controller acts (default: 10)")
    parser.add_argument(
        "--tolerance", type=float, default=5.0, help="seconds by which clocks may differ (default: 5); for `certain`"
    )


def read_options(parser: argparse.ArgumentParser, arguments: argparse.Namespace, policy: JSON) -> Options:
    """The options as given, `policy` where none is given; ends the program where they make no sense."""
    if arguments.kubeconfig is None:
        parser.error("which cluster? set KUBECONFIG, or give --kubeconfig")
    if arguments.faketime and not arguments.preload:
        parser.error("--faketime needs --preload, the path of libfaketime")
    if arguments.output and arguments.output[0] != "json":
        parser.error("-o takes a format and a file; the only format is json")
    return Options(
        kubeconfig=arguments.kubeconfig,
        seed=arguments.seed,
        nodes_per_zone=arguments.nodes_per_zone,
        is_stock=arguments.stock,
        faketime=arguments.faketime,
        preload=arguments.preload,
        policy=policy if arguments.policy is None else arguments.policy,
        scale_down=arguments.scale_down,
        logs=arguments.logs,
        details=Path(arguments.output[1]) if arguments.output else None,
        window=arguments.window,
        tolerance=arguments.tolerance,
    )
