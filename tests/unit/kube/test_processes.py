"""What every long-running command needs."""

from __future__ import annotations

import ctypes
import json
import logging
from types import SimpleNamespace

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


def test_large_buffers_are_returned_where_the_c_library_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """glibc takes them from its heap otherwise; another library has no such setting."""
    settings: list[tuple[int, int]] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=lambda *given: settings.append(given)))
    processes.return_large_buffers()
    assert settings == [(-3, 1 << 20)]  # M_MMAP_THRESHOLD in malloc.h
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace())
    processes.return_large_buffers()
