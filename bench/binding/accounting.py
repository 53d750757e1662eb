"""Trimtab as a process that counts the CPU time of its own parts.

`python -m bench.binding.accounting FILE run ...` is `trimtab run ...`; on SIGUSR1 and at its end it writes to FILE how
many seconds of CPU each part has used so far.

**What counts where.** `PARTS` names the functions of each part, which are wrapped before Trimtab starts. Time counts
for the innermost of them that runs, and for no other: what a binding spends on TLS is TLS. A coroutine counts while one
of its steps runs, and not while it waits. What is left of the CPU time of the process is `REST`: the event loop, system
calls on sockets, other threads. uvloop is compiled, and nothing of it can be wrapped.

**What it costs.** Two readings of the thread's CPU clock for each call, which are system calls: about a microsecond
each. So only functions that take longer are wrapped, about twenty calls for a pod, and a comparison runs Trimtab
without it, too.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

PARTS: Mapping[str, Sequence[str]] = {
    "decisions": ("trimtab.scheduler.service:Service._schedule", "trimtab.scheduler.state:SchedulerState.attempt"),
    "bindings": ("trimtab.scheduler.binding:Binder.start", "trimtab.scheduler.binding:Binder._run"),
    "events": ("trimtab.kube.events:Recorder._handle",),
    "watches": ("trimtab.kube.informers:Informer._watch",),
    "JSON of watches": ("trimtab.api.codec:decode_exactly",),
    "JSON of requests": ("trimtab.api.codec:decode", "trimtab.api.codec:encode"),
    "HTTP": ("aiohttp.client_proto:ResponseHandler.data_received", "aiohttp.client_reqrep:ClientRequest.write_bytes"),
    "TLS": ("ssl:SSLObject.read", "ssl:SSLObject.write", "ssl:SSLObject.do_handshake"),
}
"""The functions of each part, as module and path."""
REST = "rest"
_SECONDS = 10.0
_POLL = 0.002


class Account:
    """CPU seconds by part, of the thread that creates it."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self.seconds: dict[str, float] = {}
        self._clock = clock
        self._thread = threading.get_ident()
        self._running: list[str] = []
        self._since = 0.0

    def counted(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with its time counted for a part."""
        self.seconds.setdefault(part, 0.0)
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                return await _Steps(self, part, function(*args, **kwargs))

            return awaited

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            return self.call(part, function, *args, **kwargs)

        return called

    def call(self, part: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function, and count its time for a part."""
        if threading.get_ident() != self._thread:
            return function(*args, **kwargs)
        self._charge()
        self._running.append(part)
        try:
            return function(*args, **kwargs)
        finally:
            self._charge()
            self._running.pop()

    def _charge(self) -> None:
        """Add the time since the last change to the part that has been running since."""
        now = self._clock()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now

    def write(self, file: Path) -> None:
        """Write the seconds of each part so far. A reader finds a whole file or none."""
        seconds = {**self.seconds, REST: time.process_time() - sum(self.seconds.values())}
        new = file.with_suffix(".new")
        new.write_text(json.dumps(seconds))
        new.replace(file)


class _Steps(Generator[Any, Any, Any]):
    """A coroutine whose steps are counted."""

    def __init__(self, account: Account, part: str, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._call = functools.partial(account.call, part)
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        return self

    def send(self, value: Any) -> Any:
        """Run the next step."""
        return self._call(self._coroutine.send, value)

    def throw(self, *error: Any) -> Any:
        """Run the next step with an exception, such as a cancellation."""
        return self._call(self._coroutine.throw, *error)


def find(name: str) -> tuple[Any, str]:
    """The module or class that has a function of the table, and the function's name there."""
    module, _, path = name.partition(":")
    *outer, last = path.split(".")
    return functools.reduce(getattr, outer, importlib.import_module(module)), last


def install(account: Account) -> None:
    """Wrap all functions of the table."""
    for part, names in PARTS.items():
        for name in names:
            owner, last = find(name)
            setattr(owner, last, account.counted(part, getattr(owner, last)))


def read(pid: int, file: Path) -> Mapping[str, float]:
    """Let a process write its account, and read it. Raises TimeoutError."""
    file.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR1)
    end = time.monotonic() + _SECONDS
    while not file.exists():
        if time.monotonic() > end:
            raise TimeoutError(f"process {pid} did not write {file.name} within {_SECONDS:.0f} s")
        time.sleep(_POLL)
    seconds: dict[str, float] = json.loads(file.read_text())
    return seconds


def main() -> None:
    """Run Trimtab with these arguments, after the first, which is the file."""
    file, account = Path(sys.argv.pop(1)), Account()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does, before numpy is imported
    install(account)
    signal.signal(signal.SIGUSR1, lambda *_: account.write(file))
    from trimtab import cli

    try:
        cli.main()
    finally:
        account.write(file)


if __name__ == "__main__":
    main()
