"""What every long-running command needs."""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import signal
import subprocess
import sys
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


def test_a_crash_says_what_each_thread_did() -> None:
    """A process that ends by itself must not end silently."""
    steps = "import os; from trimtab.kube import processes; processes.set_up_logs(); os.kill(os.getpid(), 11)"
    command = [sys.executable, "-c", steps]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert ended.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in ended.stderr
    assert 'File "<string>", line 1 in <module>' in ended.stderr


def test_large_buffers_are_returned_and_small_ones_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """glibc takes large ones from its heap otherwise; another library has no such setting."""
    settings: list[tuple[int, int]] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=lambda *given: settings.append(given)))
    processes.set_up_memory()
    assert settings == [(-3, 1 << 20), (-1, 1 << 23)]  # M_MMAP_THRESHOLD and M_TRIM_THRESHOLD in malloc.h
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace())
    processes.set_up_memory()


def test_processes_run_on_uvloop_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is none for Windows and PyPy: asyncio's own loop does there."""
    loop = processes.new_event_loop()
    loop.close()
    assert type(loop).__module__.startswith("uvloop")
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = processes.new_event_loop()
    loop.close()
    assert isinstance(loop, asyncio.BaseEventLoop)


def test_a_long_running_process_ends_with_the_signals_that_stop_it() -> None:
    """Its work is cancelled and may clean up."""
    steps: list[str] = []

    async def work() -> None:
        steps.append(type(asyncio.get_running_loop()).__module__)
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            steps.append("cleaned up")

    processes.run_until_stopped(work)
    assert steps == ["uvloop", "cleaned up"]
