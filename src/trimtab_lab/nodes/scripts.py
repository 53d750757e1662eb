"""The behaviour of a pod: its annotations and the shape's timings, turned into the numbers of one pod.

`ANNOTATIONS` lists everything that can be set; the table in `docs/lab-nodes.md` is the same. A pod without annotations
starts after a moment and runs until it is deleted. Times are seconds, `2.5`, or a range, `1-5`, from which each pod
draws its own. It draws with the seed and its UID, always in the same order: the same pod draws the same numbers in
every process, and an annotation changes only what it is about.

A value that cannot be read is reported and ignored; a pod is never refused for its annotations.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from trimtab.api.errors import InvalidError
from trimtab_lab.nodes.views import Pod

PREFIX = "lab.trimtab.dev/"

_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:\s*-\s*([0-9]+(?:\.[0-9]+)?))?")
_LONGEST = 10**7
"""The largest number of seconds: about a third of a year."""

FIRST_RESTART = 1.0
"""Seconds until containers that ended for the first time run again."""
LONGEST_BACK_OFF = 300.0


class Behaviour(Enum):
    """What the containers of a pod do once they run."""

    RUN = "run"
    HANG = "hang"
    CRASH = "crash"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class Span:
    """A time in seconds: a number, or a range."""

    low: float
    high: float

    def draw(self, rng: random.Random) -> float:
        """Draw a time. Draws from a single number too, so that later draws stay the same."""
        return self.low + (self.high - self.low) * rng.random()


@dataclass(frozen=True, slots=True)
class PodTimings:
    """How long pods without annotations take; the shape of a cluster can change it."""

    start: Span = Span(0.5, 2.0)
    init: Span = Span(0.5, 0.5)
    ready: Span = Span(0.0, 0.0)
    stop: Span = Span(0.1, 1.0)


DEFAULT_TIMINGS = PodTimings()


@dataclass(frozen=True, slots=True)
class AnnotationValues:
    """The values of a pod's annotations, with the timings and defaults where there are none."""

    behaviour: Behaviour | None = None
    start: Span = DEFAULT_TIMINGS.start
    init: Span = DEFAULT_TIMINGS.init
    ready: Span = DEFAULT_TIMINGS.ready
    stop: Span = DEFAULT_TIMINGS.stop
    crash_after: Span | None = None
    complete_after: Span | None = None
    crashes: int | None = None
    exit_code: int = 1
    back_off: float = 10.0


@dataclass(frozen=True, slots=True)
class Script:
    """The behaviour of one pod: what it does, and how many seconds each phase takes."""

    behaviour: Behaviour = Behaviour.RUN
    start: float = 1.0
    init: float = 0.5
    ready: float = 0.0
    stop: float = 0.5
    ends_after: float | None = None
    crashes: int | None = None
    exit_code: int = 1
    back_off: float = 10.0
    inits: int = 0
    """The number of init containers that must end before the others start, without sidecars."""
    restart_policy: str = "Always"

    def run_seconds(self, restarts: int) -> float | None:
        """How long the containers run this time; None if until they are stopped."""
        if self.behaviour is Behaviour.CRASH and self.crashes is not None and restarts >= self.crashes:
            return None
        return self.ends_after

    def restarts_after(self, code: int) -> bool:
        """Whether containers with this exit code are restarted."""
        return self.restart_policy == "Always" or (self.restart_policy == "OnFailure" and code != 0)

    def back_off_seconds(self, restarts: int) -> float:
        """The wait before the next restart of containers that have been restarted so often.

        As kubelets do: none at first, then 10 s, doubled up to 5 minutes; reset for containers that ran for 10 minutes.
        """
        if restarts == 0 or (self.ends_after or 0.0) >= 2 * LONGEST_BACK_OFF:
            return min(FIRST_RESTART, self.back_off)
        return float(min(LONGEST_BACK_OFF, self.back_off * 2.0 ** min(restarts - 1, 20)))


@dataclass(frozen=True, slots=True)
class Annotation:
    """One annotation: how it is read, which field of `AnnotationValues` it sets, and what it means."""

    field: str
    read: Callable[[str], Any]
    default: str
    meaning: str


def read_span(text: str) -> Span:
    """Read `2.5` or `1-5`, in seconds."""
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise InvalidError("", f'"{text}" is not a number of seconds; write 2.5, or 1-5 for any between')
    low = float(match[1])
    high = float(match[2]) if match[2] else low
    if high < low or high > _LONGEST:
        raise InvalidError("", f'"{text}" must not decrease, nor exceed {_LONGEST}')
    return Span(low, high)


def _read_behaviour(text: str) -> Behaviour:
    try:
        return Behaviour(text)
    except ValueError:
        known = ", ".join(each.value for each in Behaviour)
        raise InvalidError("", f'"{text}" is not a behaviour; there are {known}') from None


def _read_count(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and int(text) <= most):
            raise InvalidError("", f'"{text}" is not a whole number from 0 to {most}')
        return int(text)

    return read


def _read_seconds(text: str) -> float:
    return read_span(text).low


ANNOTATIONS: dict[str, Annotation] = {
    "behaviour": Annotation(
        "behaviour",
        _read_behaviour,
        "run",
        "`run` until deleted; `hang`: run and never become ready; `crash`: exit with an error; `complete`: exit with 0",
    ),
    "start-seconds": Annotation(
        "start", read_span, "0.5-2", "from the assignment to a node until the first container runs"
    ),
    "init-seconds": Annotation("init", read_span, "0.5", "how long each init container takes"),
    "ready-seconds": Annotation("ready", read_span, "0", "from running until ready"),
    "crash-after-seconds": Annotation(
        "crash_after", read_span, "10", "how long the containers run before they crash; implies `crash`"
    ),
    "crashes": Annotation("crashes", _read_count(10**6), "for ever", "how often they crash before they keep running"),
    "exit-code": Annotation("exit_code", _read_count(255), "1", "the exit code of a crash"),
    "back-off-seconds": Annotation(
        "back_off", _read_seconds, "10", "the wait before the second restart; doubled each time, up to 300"
    ),
    "complete-after-seconds": Annotation(
        "complete_after", read_span, "10", "how long the containers run before they exit with 0; implies `complete`"
    ),
    "stop-seconds": Annotation(
        "stop", read_span, "0.1-1", "from deletion until the pod is gone; at most its grace period"
    ),
}
"""All annotations, by name without the prefix."""

_ENDS = Span(10.0, 10.0)


def script_for(pod: Pod, seed: int, timings: PodTimings = DEFAULT_TIMINGS) -> tuple[Script, list[str]]:
    """The behaviour of this pod, and the problems with its annotations."""
    values, problems = read(pod.metadata.annotations, timings)
    rng = random.Random(f"{seed}/{pod.metadata.uid}")  # noqa: S311 - spreads starts, guards nothing
    start, init, ready, stop = (span.draw(rng) for span in (values.start, values.init, values.ready, values.stop))
    behaviour, ends = _ending(values)
    script = Script(
        behaviour=behaviour,
        start=start,
        init=init,
        ready=ready,
        stop=stop,
        ends_after=None if ends is None else ends.draw(rng),
        crashes=values.crashes,
        exit_code=values.exit_code,
        back_off=values.back_off,
        inits=sum(not container.sidecar for container in pod.spec.init_containers),
        restart_policy=pod.spec.restart_policy,
    )
    return script, problems


def read(annotations: Mapping[str, str], timings: PodTimings = DEFAULT_TIMINGS) -> tuple[AnnotationValues, list[str]]:
    """Read annotations; returns their values, and the problems."""
    values = AnnotationValues(start=timings.start, init=timings.init, ready=timings.ready, stop=timings.stop)
    problems: list[str] = []
    for key, text in annotations.items():
        name = key.removeprefix(PREFIX)
        if name == key:
            continue
        try:
            values = _with(values, name, text)
        except InvalidError as error:
            problems.append(f"{key}: {error.reason}")
    return values, problems


def _with(values: AnnotationValues, name: str, text: str) -> AnnotationValues:
    annotation = ANNOTATIONS.get(name)
    if annotation is None:
        raise InvalidError("", f"is not known; there are {', '.join(ANNOTATIONS)}")
    return replace(values, **{annotation.field: annotation.read(text)})


def _ending(values: AnnotationValues) -> tuple[Behaviour, Span | None]:
    """What a pod does, and when its containers end by themselves. A time implies its behaviour."""
    if values.behaviour is Behaviour.CRASH or (values.behaviour is None and values.crash_after):
        return Behaviour.CRASH, values.crash_after or _ENDS
    if values.behaviour is Behaviour.COMPLETE or (values.behaviour is None and values.complete_after):
        return Behaviour.COMPLETE, values.complete_after or _ENDS
    return values.behaviour or Behaviour.RUN, None
