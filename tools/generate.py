"""Writes everything that is generated: `make generate`."""

from __future__ import annotations

from tools import configuration, crds, grafana, mergekeys


def main() -> None:
    """Run every generator; a test holds each of their products to the sources."""
    mergekeys.TARGET.write_text(mergekeys.generate(), encoding="utf-8")
    crds.main()
    configuration.main()
    grafana.main()


if __name__ == "__main__":
    main()
