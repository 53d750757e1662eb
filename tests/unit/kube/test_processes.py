"""What every long-running command needs."""

from __future__ import annotations

import json
import logging

import pytest

from trimtab.kube import processes


def test_json_logs_are_one_object_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    """With the exception, where there is one."""
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    try:
        processes.set_up_logs("json", "info")
        try:
            raise ValueError("no such zone")
        except ValueError:
            logging.getLogger("trimtab.test").exception("failed for %s", "shop/web")
        line = json.loads(capsys.readouterr().err)
    finally:
        root.setLevel(before[0])
        root.handlers[:] = before[1]
    assert (line["level"], line["logger"], line["message"]) == ("error", "trimtab.test", "failed for shop/web")
    assert "no such zone" in line["exception"]
