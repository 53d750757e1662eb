"""The scale-downs of one process: what was asked for, decided, written and left.

Each governed decrease is one record, in a ring of bounded size. It is opened when the request is answered and closed
when the controller has acted; then it is complete, and is logged as one line.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Sequence

import msgspec

from trimtab.api import codec, times
from trimtab.api.documents import JSON
from trimtab.api.model import Model
from trimtab.api.scaledown import Mode
from trimtab.kube.clocks import Clock
from trimtab.kube.processes import FIELDS
from trimtab.ranking.levelings import Leveling
from trimtab.scaledown.intent.requests import CheckedRequest, HoldResult, ScaleDownRequest
from trimtab.scaledown.results.levels import LevelCheck, counted

SIZE = 1000
"""How many records a process keeps."""
_MOST_VICTIMS = 500
_MOST_DOMAINS = 100

log = logging.getLogger(__name__)


class Distribution(Model):
    """The pods that one constraint counts in each domain: before, planned, as stock may leave them, and left."""

    topology_key: str
    domains: tuple[str, ...] = ()
    before: tuple[int, ...] = ()
    planned: tuple[int, ...] = ()
    stock: tuple[int, ...] = ()
    """One of the least level distributions that an unmodified controller may leave."""
    left: tuple[int, ...] = ()
    skew_before: int = 0
    skew_planned: int = 0
    skew_stock: int = 0
    skew_left: int | None = None

    @classmethod
    def of(cls, leveling: Leveling) -> Distribution:
        """What a plan says about a constraint; distributions over very many domains are left out."""
        is_listed = len(leveling.domains) <= _MOST_DOMAINS
        return cls(
            topology_key=leveling.topology_key,
            domains=leveling.domains if is_listed else (),
            before=leveling.before if is_listed else (),
            planned=leveling.after if is_listed else (),
            stock=leveling.stock if is_listed else (),
            skew_before=leveling.skew_before,
            skew_planned=leveling.skew_after,
            skew_stock=leveling.skew_stock,
        )

    def with_left(self, check: LevelCheck) -> Distribution:
        """The same with what is left."""
        left = check.counts if len(check.counts) <= _MOST_DOMAINS else ()
        return msgspec.structs.replace(self, left=left, skew_left=check.skew)


class ScaleDownRecord(Model):
    """One governed decrease."""

    id: str
    """The decision; plans of one decision have names of their own."""
    time: str
    mode: Mode
    kind: str
    namespace: str
    name: str
    uid: str
    policy: str
    """`namespace/name`, or the name of a default policy."""
    policy_uid: str
    """Empty for a default policy."""
    user: str
    from_: int = msgspec.field(name="from")
    to: int
    generation: int
    resource_version: str
    outcome: str
    """What came of the request: planned, partial, as-stock, observed, or why it was skipped."""
    warnings: tuple[str, ...] = ()
    held_milliseconds: int = 0
    costs_written: int = 0
    victims: tuple[str, ...] = ()
    """The pods that the plan chose."""
    distributions: tuple[Distribution, ...] = ()
    result: str = ""
    """level, best or missed; not-applied or superseded; empty while the controller has not acted."""
    cause: str = ""
    """Why it ended less level than was possible."""
    ended: str = ""

    def tree(self) -> JSON:
        """As JSON."""
        tree: JSON = codec.to_tree(self)
        return tree


class History:
    """The last records of a process."""

    def __init__(
        self, clock: Clock, size: int = SIZE, on_close: Callable[[ScaleDownRecord], None] | None = None
    ) -> None:
        self._clock = clock
        self._size = size
        self._on_close = on_close
        self._numbers = itertools.count()
        self._records: dict[str, ScaleDownRecord] = {}

    def __len__(self) -> int:
        return len(self._records)

    def records(self) -> list[ScaleDownRecord]:
        """All records, the latest first."""
        return list(self._records.values())[::-1]  # copied first: health pages are served by another thread

    def open(
        self, checked: CheckedRequest, result: HoldResult, levelings: Iterable[Leveling], victims: Sequence[str]
    ) -> str:
        """Record a request that has been answered; its identifier."""
        metadata, request = checked.workload.metadata, checked.request
        record = self._new(
            request,
            mode=checked.policy.spec.mode,
            policy=checked.policy.key or checked.policy.name,
            policy_uid=checked.policy.uid,
            generation=metadata.generation,
            resource_version=metadata.resource_version,
            outcome=result.outcome.value,
            warnings=result.warnings,
            held_milliseconds=round(checked.budget.elapsed() * 1000),
            costs_written=result.costs_written,
            victims=tuple(victims)[:_MOST_VICTIMS],
            distributions=tuple(map(Distribution.of, levelings)),
        )
        self._put(record)
        return record.id

    def close(self, decision: str, result: str, cause: str = "", checks: Sequence[LevelCheck] = ()) -> None:
        """Record how a scale-down ended, and log it."""
        known = self._records.get(decision)
        if known is None:
            return
        distributions = known.distributions
        if len(checks) == len(distributions):
            distributions = tuple(each.with_left(check) for each, check in zip(distributions, checks, strict=True))
        record = msgspec.structs.replace(
            known, result=result, cause=cause, distributions=distributions, ended=times.format_time(self._clock.now())
        )
        self._records[decision] = record
        log.info("%s", sentence(record), extra={FIELDS: {"scaleDown": record.tree()}})
        if self._on_close is not None:
            self._on_close(record)

    def _new(self, request: ScaleDownRequest, **fields: object) -> ScaleDownRecord:
        moment = times.format_time(self._clock.now())
        identity = f"{self._clock.now():x}-{next(self._numbers)}"
        known = {name: getattr(request, name) for name in ("kind", "namespace", "name", "uid", "user")}
        sizes = {"from_": request.before, "to": request.after}
        return ScaleDownRecord(id=identity, time=moment, **known, **sizes, **fields)  # type: ignore[arg-type]

    def _put(self, record: ScaleDownRecord) -> None:
        self._records[record.id] = record
        while len(self._records) > self._size:
            del self._records[next(iter(self._records))]


def summary_tree(record: ScaleDownRecord) -> JSON:
    """A record as the status of a policy lists it."""
    first = record.distributions[0] if record.distributions else Distribution(topology_key="")
    tree: JSON = {
        "time": record.time,
        "workload": f"{record.kind}/{record.name}",
        "from": record.from_,
        "to": record.to,
        "outcome": record.outcome,
        "result": record.result,
        "cause": record.cause,
        "left": counted(first.left),
        "planned": counted(first.planned),
        "stock": counted(first.stock),
    }
    return tree


def sentence(record: ScaleDownRecord) -> str:
    """A record in one line, for people."""
    subject = f"{record.namespace}/{record.kind}/{record.name}: {record.from_} → {record.to}"
    left = [_left(each) for each in record.distributions if each.skew_left is not None]
    ending = record.result + (f" ({record.cause})" if record.cause else "")
    return "; ".join([f"{subject} {record.outcome}", *left, ending])


def _left(distribution: Distribution) -> str:
    parts = (("left", distribution.left), ("planned", distribution.planned), ("stock may leave", distribution.stock))
    texts = [f"{name} {'/'.join(map(str, counts))}" for name, counts in parts if counts]
    return f"{distribution.topology_key}: {', '.join(texts)}" if texts else f"{distribution.topology_key}"
