"""How long a process waits between its writes of one status. Pure: durations and the random source are arguments.

Several processes write the status of one UnitedTopology, each conditionally on the version that it has read. Without
waits, three things go wrong:

- All processes that lost to one writer would try again together, and all but one would lose again. So each waits for a
  random time after a conflict; the more conflicts in a row, the shorter.
- A process that has just written holds the newest version, and would win the next race as well, and the one after that.
  So it lets two other processes write first, but waits no longer than a few writes take. Where only one process writes,
  it waits for one write, so that others can start.
- A server that fails would be called without a pause. So each failure in a row adds to the wait.

All waits are in seconds and follow the `pace`: how long a write takes at present, as a moving average.
"""

from __future__ import annotations

import random

from trimtab.api.unitedtopology import UnitedTopology

TURNS = 2
"""How many writes of others are waited for between two of our own, where other processes write too."""
POLL_SECONDS = 0.01
"""How often to check whether others have written."""
MOST_FAILURES = 20
"""After so many failures in a row the wait grows no further, and withdrawals are left to the controller."""
LONGEST_TURN = 0.4
LONGEST_AFTER_CONFLICT = 0.15
_WRITES_PER_TURN = 8.0
_WRITES_AFTER_CONFLICT = 2.0
_WEIGHT = 0.3
"""The weight of the latest write in the pace."""
_AFTER_FAILURE = 0.1
_JITTER = (0.7, 1.3)


def smooth(pace: float | None, duration: float) -> float:
    """The pace after a write that took so long: on a busy server one may take ten times as long as the next."""
    return duration if pace is None else pace + _WEIGHT * (duration - pace)


def after_conflict(pace: float, conflicts: int, rng: random.Random) -> float:
    """The wait after the last of so many conflicts in a row."""
    return min(pace * _WRITES_AFTER_CONFLICT, LONGEST_AFTER_CONFLICT) * rng.random() / conflicts**2


def after_write(pace: float, rng: random.Random) -> float:
    """The wait after a write where no other process has written, and requests are pending."""
    return min(pace, LONGEST_TURN) * rng.uniform(*_JITTER)


def turn_timeout(pace: float, rng: random.Random) -> float:
    """The longest wait for the writes of other processes."""
    return min(pace * _WRITES_PER_TURN, LONGEST_TURN) * rng.uniform(*_JITTER)


def after_failure(failures: int) -> float:
    """The wait after the last of so many failures in a row."""
    return _AFTER_FAILURE * min(failures, MOST_FAILURES)


def has_other_webhook_written(before: UnitedTopology | None, after: UnitedTopology | None) -> bool:
    """Whether a webhook has written between two versions. A write of the controller, which takes no turns, has another
    `countedVersion`."""
    if before is None or after is None or before.metadata.resource_version == after.metadata.resource_version:
        return False
    return before.status.counted_version == after.status.counted_version
