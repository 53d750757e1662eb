"""Run benchmarks: print one line a figure, and write `bench/latest.json`; with `--publish` also `bench/scale.json`.

The exit status is 1 if a figure is outside its limit.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from bench import (
    apiserver,
    caches,
    cloneset,
    decoding,
    events,
    inspection,
    placement,
    ranking,
    scaledown,
    scheduler,
    subsets,
)
from bench.figures import Figure
from bench.results import publish

BENCHMARKS: dict[str, Callable[[], Figure]] = {
    "decode-5k": decoding.decode_5k,
    "decode-5k-memory": decoding.decode_5k_memory,
    "order-replicaset-10k": ranking.order_replicaset_10k,
    "order-replicaset-100k": ranking.order_replicaset_100k,
    "order-cloneset-10k": ranking.order_cloneset_10k,
    "plan-10k": ranking.plan_10k,
    "plan-recomputed-1k": ranking.recomputed_1k,
    "snapshot-event": events.snapshot_event,
    "snapshot-memory": events.snapshot_memory,
    "cache-memory-50k": caches.memory,
    "cache-listing-50k": caches.listing,
    "cache-pauses-50k": caches.pauses,
    "cache-changes-50k": caches.changes,
    "spread-5k": placement.spread_5k,
    "place-5k": placement.place_5k,
    "place-many-5k": placement.place_many_5k,
    "defaults-vs-selectorspread": placement.defaults_vs_selectorspread,
    "scheduler-lab-5k": scheduler.bound_on_the_lab,
    "scaledown-held-60": scaledown.held_60,
    "scaledown-held-1k": scaledown.held_1k,
    "scaledown-held-5k": scaledown.held_5k,
    "cloneset-1k-to-300": cloneset.seconds_1k_to_300,
    "cloneset-calls-a-pod": cloneset.calls_1k_to_300,
    "subsets-admission-p99": subsets.admission_p99,
    "subsets-creation-p99": subsets.creation_p99,
    "subsets-creation-stopped": subsets.creation_while_stopped,
    "subsets-status-writes": subsets.status_writes,
    "subsets-without-subset": subsets.without_subset,
    "cli-help": inspection.overview,
    "cli-plan-1k": inspection.plan_1k,
    "cli-snapshot-50k": inspection.snapshot_50k,
    "cli-snapshot-50k-memory": inspection.snapshot_50k_memory,
    "lab-creates": apiserver.creates,
    "lab-watches": apiserver.watches,
    "lab-list-5k": apiserver.lists,
    "lab-memory-50k": apiserver.memory,
}

LATEST = Path(__file__).with_name("latest.json")


def main() -> None:
    """Measure what was asked for, one after the other."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", choices=sorted(BENCHMARKS), help="one figure instead of all")
    parser.add_argument("--publish", action="store_true", help="write the figures for docs/performance.md; all of them")
    given = parser.parse_args()
    only = given.only
    if only and given.publish:
        parser.error("--publish takes all figures; leave --only out")
    chosen = {only: BENCHMARKS[only]} if only else BENCHMARKS
    rows = []
    for name, measure in chosen.items():
        figure = measure()
        print(
            f"{name:28} {figure.value:10.3f} {figure.unit:8} calibration {figure.calibration:9.3f}"
            f"   ratio {figure.ratio:8.4f}   {_limit(figure)}",
            flush=True,
        )
        rows.append(
            {
                "name": name,
                "value": figure.value,
                "unit": figure.unit,
                "calibration": figure.calibration,
                "ratio": figure.ratio,
                "limit": _limit(figure),
                "holds": figure.is_within_limit,
            }
        )
    LATEST.write_text(json.dumps(rows, indent=2) + "\n")
    if given.publish:
        publish("figures", {"rows": rows})
    if exceeded := [str(row["name"]) for row in rows if not row["holds"]]:
        sys.exit(f"outside their limits: {', '.join(exceeded)}; run them alone, on a machine that does nothing else")


def _limit(figure: Figure) -> str:
    if figure.limit is None:
        return ""
    return str(figure.limit) if figure.is_within_limit else f"exceeds {figure.limit}"


if __name__ == "__main__":
    main()
