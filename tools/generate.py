"""Writes everything that is generated: `make generate`."""

from __future__ import annotations

from tools import commands, configuration, crds, doctor, grafana, kinds, lintrules, mergekeys, metrics, picture, reasons


def main() -> None:
    """Run every generator; tests check that what they write is current."""
    mergekeys.TARGET.write_text(mergekeys.generate(), encoding="utf-8")
    commands.main()
    crds.main()
    configuration.main()
    doctor.main()
    grafana.main()
    kinds.main()
    lintrules.main()
    metrics.main()
    picture.main()
    reasons.main()


if __name__ == "__main__":
    main()
