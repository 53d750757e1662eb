"""Writes everything that is generated: `make generate`."""

from __future__ import annotations

from tools import commands, completions, configuration, crds, grafana, kustomize, lintrules, mergekeys, metrics, reasons
from tools.chart import files as chart


def main() -> None:
    """Run every generator; tests check that what they write is current."""
    mergekeys.TARGET.write_text(mergekeys.generate(), encoding="utf-8")
    chart.main()
    commands.main()
    completions.main()
    crds.main()
    configuration.main()
    grafana.main()
    kustomize.main()
    lintrules.main()
    metrics.main()
    reasons.main()


if __name__ == "__main__":
    main()
