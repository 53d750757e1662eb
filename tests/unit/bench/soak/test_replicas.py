"""Replicas in the soak: when one counts as ready, and when as ended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from bench.promise.processes import ProcessError
from bench.soak import replicas
from bench.soak.replicas import CONTROLLERS, SCHEDULER, Instance, Replica

LOST = "trimtab: one could not renew the lease trimtab-system/trimtab-scheduler\n"


@dataclass
class Process:
    """A process that has ended with a code, or runs."""

    returncode: int | None = None
    pid: int = 1


@dataclass
class Scripted(Replica):
    """A replica without processes: each one started is the next of a list, and is ready if it runs."""

    processes: list[int | None] = field(default_factory=list)
    text: str = LOST

    async def start(self, shift: float = 0.0, preload: str = "") -> None:
        """Start the next process."""
        del preload
        log = self.folder / f"{len(self.instances)}.log"
        log.write_text(self.text)
        process = cast("asyncio.subprocess.Process", Process(self.processes.pop(0)))
        self.instances.append(Instance(process, log, shift))

    async def get(self, path: str, *, is_any: bool = False) -> str | None:
        """Ready, if the process runs."""
        del path, is_any
        return "ok" if self.current.process.returncode is None else None


def scripted(folder: Path, component: str, *processes: int | None, **fields: Any) -> Scripted:
    """A replica whose processes end with these codes, or run."""
    return Scripted(component, 2, folder, lambda: 0, processes=list(processes), **fields)


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "_RESTART_DELAY", 0.0)
    monkeypatch.setattr(replicas, "_POLL", 0.0)


async def test_a_scheduler_that_loses_its_lease_is_waited_for_until_it_is_restarted(tmp_path: Path) -> None:
    """It ends because it must, and the sampler starts another one."""
    replica = scripted(tmp_path, SCHEDULER, 1, None)
    await replica.start()
    waiting = asyncio.ensure_future(replica.wait_ready())
    await asyncio.sleep(0)
    assert replica.has_ended_as_it_must
    assert not waiting.done()
    await replica.start()
    await waiting
    assert not replica.has_ended_as_it_must


async def test_a_scheduler_that_loses_its_lease_while_it_starts_is_started_again(tmp_path: Path) -> None:
    replica = scripted(tmp_path, SCHEDULER, 1, 1, None)
    await replica.restart()
    assert len(replica.instances) == 3


@pytest.mark.parametrize(
    ("component", "text"), [pytest.param(CONTROLLERS, LOST), pytest.param(SCHEDULER, "Traceback\n")]
)
async def test_any_other_end_is_an_error(tmp_path: Path, component: str, text: str) -> None:
    """Controllers go on without their lease, and no process may end for another reason."""
    replica = scripted(tmp_path, component, 1, text=text)
    with pytest.raises(ProcessError, match="has ended"):
        await replica.restart()
    assert not replica.has_ended_as_it_must


async def test_there_is_an_end_to_waiting(tmp_path: Path) -> None:
    replica = scripted(tmp_path, SCHEDULER, 1)
    await replica.start()
    with pytest.raises(ProcessError, match="not ready in time"):
        await replica.wait_ready(patience=0.0)
