"""What a process loads."""

from __future__ import annotations

import subprocess
import sys


def test_a_process_without_the_dashboard_does_not_load_it() -> None:
    """Its modules take time to load."""
    program = (
        "import sys; from trimtab.api.configuration import TrimtabConfiguration;"
        "from trimtab.app import check; check(TrimtabConfiguration(components=('webhooks',)));"
        "sys.exit('trimtab.app.dashboard' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0  # noqa: S603 - our own program
