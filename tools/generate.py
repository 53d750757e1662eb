"""Writes everything that is generated: `make generate`."""

from __future__ import annotations

from tools import configuration, crds, grafana, mergekeys, metrics, reasons


def main() -> None:
    """Run every generator; tests check that what they write is current."""
    mergekeys.TARGET.write_text(mergekeys.generate(), encoding="utf-8")
    crds.main()
    configuration.main()
    grafana.main()
    metrics.main()
    reasons.main()


if __name__ == "__main__":
    main()
