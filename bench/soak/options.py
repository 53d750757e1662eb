"""The options of a run."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

_FAKETIME = (
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
)


@dataclass(frozen=True, slots=True)
class Options:
    """How long, on what, and with which random numbers."""

    minutes: float
    seed: int
    control_plane: str
    round_seconds: float
    wire_seconds: float
    preload: str
    logs: Path | None
    output: Path


def read_options(arguments: list[str] | None = None) -> Options:
    """The options as given; ends the program where they make no sense."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description="A bounded, seeded chaos run.")
    parser.add_argument("--minutes", type=float, default=20.0, help="how long faults are made (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="what random numbers begin with (default: 0)")
    parser.add_argument(
        "--control-plane", default="", metavar="DIR", help="a folder with etcd, kube-apiserver and so on"
    )
    parser.add_argument(
        "--round-seconds", type=float, default=70.0, help="how long the faults of a round take (default: 70)"
    )
    parser.add_argument(
        "--wire-seconds",
        type=float,
        default=60.0,
        help="on the embedded lab: how long, before the rounds, a server answers with errors (default: 60)",
    )
    parser.add_argument("--preload", default=None, metavar="PATH", help="the library of libfaketime")
    parser.add_argument("--logs", type=Path, help="a folder for the state and all logs; default: a temporary one")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("soak.json"), help="the file with everything (default: soak.json)"
    )
    given = parser.parse_args(arguments)
    if given.minutes <= 0 or given.round_seconds <= 0:
        parser.error("--minutes and --round-seconds must be greater than 0")
    preload = next((each for each in _FAKETIME if Path(each).exists()), "") if given.preload is None else given.preload
    return Options(
        minutes=given.minutes,
        seed=given.seed,
        control_plane=given.control_plane,
        round_seconds=given.round_seconds,
        wire_seconds=given.wire_seconds,
        preload=preload,
        logs=given.logs,
        output=given.output,
    )
