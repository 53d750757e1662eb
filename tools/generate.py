"""Writes everything that is generated: `make generate`."""

from __future__ import annotations

from tools import (
    commands,
    completions,
    configuration,
    crds,
    doctor,
    grafana,
    kinds,
    kustomize,
    lintrules,
    mergekeys,
    metrics,
    performance,
    picture,
    reasons,
)
from tools.chart import files as chart


def main() -> None:
    """Run every generator; tests check that what they write is current."""
    mergekeys.TARGET.write_text(mergekeys.generate(), encoding="utf-8")
    chart.main()
    commands.main()
    completions.main()
    crds.main()
    configuration.main()
    doctor.main()
    grafana.main()
    kinds.main()
    kustomize.main()
    lintrules.main()
    metrics.main()
    performance.main()
    picture.main()
    reasons.main()


if __name__ == "__main__":
    main()
