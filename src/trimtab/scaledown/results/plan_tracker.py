"""After a request was answered: seeing what became of its plan, learning from it, and taking costs back.

The marks on pods say everything that is needed (see `ledger`), so this is a controller like any other: a key is a
workload that some pod's mark names, and it is looked at again until no mark is left. Whatever a process that died has
left behind is found by the next one when its informers list the pods, and by every other one that is running.

**Whose plan.** What a process planned itself it remembers: it sees to those marks, and counts which pods went as
planned. A plan that is overtaken by the next one of the same process is part of that from then on. The plans of another
process are left to it for a while, whatever becomes of one's own: a request of theirs may be held right now. After that
they count as abandoned, and are anybody's. How long that has been is told by one's own clock, from when a plan was
first seen: clocks of two machines differ.

**Not ours to see to** are the plans of namespaces that another Trimtab looks after. Where the switch is off, nobody's
plan is waited for: what was written is taken back, as soon as no request is held for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trimtab.api.annotations import PlanAnnotation
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND
from trimtab.kube.queues import WorkQueue
from trimtab.kube.runners import Result, Runner
from trimtab.scaledown import clonesets, cost_writer
from trimtab.scaledown.cost_writer import Ledger
from trimtab.scaledown.intent.settle_time import Settling
from trimtab.scaledown.metrics import Cause, Metrics
from trimtab.scaledown.policy.effective import NO_DEFAULTS, Defaults
from trimtab.scaledown.results.verdicts import PATIENCE, Pods, Verdict, judge, misses
from trimtab.scaledown.view import KINDS, View, read_live

ABANDONED = 30.0
"""Seconds after which a plan of another process is anybody's."""
_LOOK = 0.5
"""Seconds between looks at what is known, while a plan is open."""
_SOON = 0.1
"""Seconds after a marked pod has changed."""
_WORKERS = 2

log = logging.getLogger(__name__)


class Sizes(NamedTuple):
    """The size that a controller of pods had, and the one that it was to have."""

    was: int
    share: int


@dataclass(slots=True)
class Open:
    """A plan of this process that has not come to an end."""

    plan: str
    uid: str
    to: int
    sizes: Mapping[str, Sizes]
    """The sizes of each controller of pods, by its UID."""
    victims: Mapping[str, str]
    """The UIDs of the pods that were to go, and what decided that."""
    survivors: frozenset[str]
    stands_for: frozenset[str] = frozenset()
    """Earlier plans of this process that it has overtaken."""
    whole: bool = False
    """Whether all costs were written and seen."""
    answered: int | None = None
    """When the request was answered, on the monotonic clock."""
    ready: dict[str, bool] = field(default_factory=dict)
    """Pods that have gone, and whether they were ready."""
    sent_away: set[str] = field(default_factory=set)
    """Those of them that somebody else sent away: a drain, a person who named them, or a plan of another process."""
    revisions: set[str] = field(default_factory=set)
    """The revisions of pods that a CloneSet let go."""

    def covers(self, mark: PlanAnnotation | None) -> bool:
        """Whether it sees to a mark."""
        return mark is not None and (mark.plan == self.plan or mark.plan in self.stands_for)


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a plan, for whoever wants to know."""

    workload: str
    plan: str
    verdict: Verdict
    followed: int
    causes: Mapping[Cause, int]


class Aftermath:
    """Sees every plan to its end."""

    def __init__(
        self,
        client: Client,
        view: View,
        books: Ledger,
        *,
        metrics: Metrics,
        settling: Settling,
        patience: float = PATIENCE,
        abandoned: float = ABANDONED,
        defaults: Callable[[], Defaults] = lambda: NO_DEFAULTS,
    ) -> None:
        self._client = client
        self._clock = client.clock
        self._view = view
        self._ledger = books
        self._metrics = metrics
        self._settling = settling
        self._patience = patience
        self._abandoned = abandoned
        self._defaults = defaults
        self._open: dict[str, Open] = {}
        self._owners: dict[str, Open] = {}
        self._first_seen: dict[str, dict[str, int]] = {}
        """When each plan that marks name was first seen, by workload, on the monotonic clock."""
        self.ended: list[Ended] = []
        """The last plans that came to an end."""
        self.queue: WorkQueue[str] = WorkQueue(client.clock)
        self.runner = Runner("aftermath", self.reconcile, self.queue, workers=_WORKERS, after=view.required)
        view.pods.subscribe(added=self._seen, updated=self._changed, deleted=self._gone)
        metrics.watch_ages(self._oldest)

    async def run(self) -> None:
        """Work until cancelled."""
        await self.runner.run()

    def look(self) -> None:
        """Look at all plans again: the configuration has changed."""
        for workload in (*self._view.plans, *self._open):
            self.queue.add(workload)

    # What a request tells.

    def begin(self, workload: str, opened: Open) -> None:
        """Costs are about to be written. A plan that was open for the same workload is overtaken."""
        before = self._open.get(workload)
        if before is not None:
            earlier = {uid: why for uid, why in before.victims.items() if uid not in opened.survivors}
            opened.victims = {**earlier, **opened.victims}
            opened.ready |= before.ready
            opened.sent_away |= before.sent_away
            opened.revisions |= before.revisions
            opened.sizes = {**before.sizes, **opened.sizes}
            opened.stands_for |= before.stands_for | {before.plan}
            self._close(workload)
        self._open[workload] = opened
        self._owners |= dict.fromkeys(opened.sizes, opened)
        self.queue.add(workload)

    def answer(self, workload: str, opened: Open, *, whole: bool) -> None:
        """The request is being answered, whatever came of it."""
        opened.whole = whole
        opened.answered = self._clock.monotonic()
        self.queue.add(workload)

    def renew(self, workload: str, mark: PlanAnnotation) -> bool:
        """The request of an open plan was made again, and is being answered: whether there is such a plan."""
        opened = self._open.get(workload)
        if opened is None or opened.to != mark.to or not opened.covers(mark):
            return False
        self.answer(workload, opened, whole=opened.whole)
        return True

    def sees_to(self, workload: str, mark: PlanAnnotation | None) -> bool:
        """Whether a mark is of a plan of this process that has not come to an end."""
        opened = self._open.get(workload)
        return opened is not None and opened.covers(mark)

    # The loop.

    async def reconcile(self, workload: str) -> Result:
        """Look at what became of the plans for a workload (`namespace/Kind/name`)."""
        namespace, _, named = workload.partition("/")
        marked = self._marked(workload)
        opened = self._open.get(workload)
        if (not marked and opened is None) or not self._defaults().covers(namespace):
            return Result()
        if opened is not None and opened.answered is None:
            return Result(_LOOK)
        if not self._defaults().enabled:
            await self._take_back(workload, opened, [pod for pod, _ in marked], "switched off")
            return Result()
        subject, seen_to = self._subject(workload, marked, opened)
        if subject is None:
            return Result(_LOOK)
        verdict = self._judge(namespace, named, subject)
        if verdict.keeps:
            return Result(_LOOK)
        if verdict is Verdict.NOTHING and await self._took_effect(namespace, named, subject):
            return Result(_LOOK)  # the informer is behind
        await self._take_back(workload, opened, seen_to, verdict.value, verdict)
        return Result(_LOOK if len(seen_to) < len(marked) else None)

    async def _take_back(
        self,
        workload: str,
        opened: Open | None,
        pods: Sequence[Pod],
        reason: str,
        verdict: Verdict = Verdict.NOTHING,
    ) -> None:
        """Take costs back, and with that come to the end of the plan of this process, if there is one."""
        count = await self._ledger.take_back(pods, reason=reason)
        if count:
            log.info("%s: took back %d costs (%s)", workload, count, reason)
        if opened is not None and self._open.get(workload) is opened:
            self._end(workload, opened, verdict)

    def _marked(self, workload: str) -> list[tuple[Pod, PlanAnnotation]]:
        """The pods that bear marks for a workload, and are there to stay: whoever is going takes its cost along."""
        namespace, _, named = workload.partition("/")
        found = ((pod, cost_writer.mark_of(pod)) for pod in self._view.marked(namespace, named) if not pod.terminating)
        marked = [(pod, mark) for pod, mark in found if mark is not None]
        now, known = self._clock.monotonic(), self._first_seen.pop(workload, {})
        if marked:
            self._first_seen[workload] = {mark.plan: known.get(mark.plan, now) for _, mark in marked}
        return marked

    def _subject(
        self, workload: str, marked: Sequence[tuple[Pod, PlanAnnotation]], opened: Open | None
    ) -> tuple[_Subject | None, list[Pod]]:
        """What is to be judged, and the pods whose costs depend on that: one's own plan, or else the last of those that
        others have abandoned; nothing, while all of them are to be left alone."""
        seen = self._first_seen.get(workload, {})
        now, patience = self._clock.monotonic(), round(self._abandoned * SECOND)
        anybodys = [(pod, mark) for pod, mark in marked if now - seen[mark.plan] >= patience]
        if opened is not None:
            own = {pod.key: pod for pod, mark in marked if opened.covers(mark)}
            age = (now - (opened.answered or now)) / SECOND
            subject = _Subject(opened.uid, opened.to, opened.sizes, age, self._patience)
            return subject, list((own | {pod.key: pod for pod, _ in anybodys}).values())
        if not anybodys:
            return None, []
        latest = max((mark for _, mark in anybodys), key=lambda mark: (seen[mark.plan], mark.at))
        age = (now - seen[latest.plan]) / SECOND
        return _Subject(latest.uid, latest.to, sizes_of(anybodys), age, 0.0), [pod for pod, _ in anybodys]

    def _judge(self, namespace: str, named: str, subject: _Subject) -> Verdict:
        kind, _, name = named.partition("/")
        found = self._view.workload(kind, namespace, name)
        wanted = found.desired_replicas if found is not None and found.metadata.uid == subject.uid else None
        controllers = [self._pods(uid, each, namespace) for uid, each in subject.sizes.items()]
        return judge(to=subject.to, wanted=wanted, controllers=controllers, age=subject.age, patience=subject.patience)

    def _pods(self, uid: str, sizes: Sizes, namespace: str) -> Pods:
        active = sum(pod.active for pod in self._view.pods_of(uid))
        return Pods(sizes.was, sizes.share, self._size_of(uid, namespace), active)

    def _size_of(self, uid: str, namespace: str) -> int | None:
        """The size of a controller of pods now, by its UID."""
        for kind in KINDS:
            for each in self._view.informer(kind).store.by("namespace", namespace):
                if each.metadata.uid == uid:
                    size: int = each.desired_replicas
                    return size
        return None

    async def _took_effect(self, namespace: str, named: str, subject: _Subject) -> bool:
        """Whether the workload is as small as the plan wanted it after all, by the API server's own word."""
        kind, _, name = named.partition("/")
        live = await read_live(self._client, kind, namespace, name)
        return live is not None and live.metadata.uid == subject.uid and live.desired_replicas <= subject.to

    # The end of a plan.

    def _end(self, workload: str, opened: Open, verdict: Verdict) -> None:
        self._close(workload)
        if verdict is not Verdict.DONE:
            self._note(Ended(workload, opened.plan, verdict, 0, {}))
            return
        staying = [pod for uid in opened.sizes for pod in self._view.pods_of(uid) if pod.active]
        active = {pod.metadata.uid for pod in staying}
        causes = misses(
            opened.victims.keys(),
            opened.survivors,
            active,
            opened.ready,
            whole=opened.whole,
            sent_away=opened.sent_away,
            rolled=bool(opened.revisions) and len(opened.revisions.union(map(clonesets.revision, staying))) > 1,
        )
        went = [uid for uid in opened.victims if uid not in active]
        for uid in went:
            self._metrics.deleted(opened.victims[uid])
        for cause, count in causes.items():
            self._metrics.missed(cause, count)
        if causes[Cause.LAG]:
            log.warning("%s: %d pods went that were to stay: waiting longer from now on", workload, causes[Cause.LAG])
            self._settling.missed()
        elif opened.whole:
            self._settling.followed()
        self._note(Ended(workload, opened.plan, verdict, len(went), causes))

    def _close(self, workload: str) -> None:
        opened = self._open.pop(workload, None)
        if opened is not None:
            for uid in opened.sizes:
                self._owners.pop(uid, None)

    def _note(self, ended: Ended) -> None:
        self.ended = [*self.ended[-99:], ended]

    # What wakes it.

    def _seen(self, pod: Pod) -> None:
        """A thousand pods that go one after the other are worth a few looks, not a thousand."""
        for workload in cost_writer.by_plan(pod):
            self.queue.add_after(workload, _SOON)

    def _changed(self, old: Pod, new: Pod) -> None:
        self._seen(new)
        if new.terminating and not old.terminating:
            self._leaves(old, new)

    def _gone(self, pod: Pod) -> None:
        self._seen(pod)
        self._leaves(pod, pod)

    def _leaves(self, pod: Pod, going: Pod) -> None:
        """A pod is going: whether it was ready tells, afterwards, why it was chosen, unless it says so itself."""
        owner = pod.metadata.controller
        opened = self._owners.get(owner.uid) if owner is not None else None
        if opened is not None:
            ready = pod.status.condition("Ready")
            opened.ready.setdefault(pod.metadata.uid, ready is not None and ready.status == "True")
            if self._is_sent_away(going, opened):
                opened.sent_away.add(pod.metadata.uid)
            if owner is not None and owner.kind == "CloneSet":
                opened.revisions.add(clonesets.revision(pod))

    def _is_sent_away(self, pod: Pod, opened: Open) -> bool:
        """Whether it was not its controller who chose a pod by itself."""
        owner, mark = pod.metadata.controller, cost_writer.mark_of(pod)
        disrupted = pod.status.condition("DisruptionTarget")
        if (disrupted is not None and disrupted.status == "True") or (mark is not None and not opened.covers(mark)):
            return True
        found = None if owner is None else self._view.workload(owner.kind, pod.metadata.namespace, owner.name)
        return clonesets.is_named(found, pod)

    def _oldest(self) -> float:
        now = self._clock.now() / SECOND
        found = (
            cost_writer.mark_of(pod) for value in self._view.plans for pod in self._view.pods.store.by("plan", value)
        )
        return max((now - mark.at / 1000 for mark in found if mark is not None), default=0.0)


@dataclass(frozen=True, slots=True)
class _Subject:
    """What a plan was about."""

    uid: str
    to: int
    sizes: Mapping[str, Sizes]
    age: float
    """Seconds since it was answered, or since it was first seen."""
    patience: float


def sizes_of(marks: Sequence[tuple[Pod, PlanAnnotation]]) -> dict[str, Sizes]:
    """The sizes of each controller of marked pods, by the latest mark."""
    latest: dict[str, PlanAnnotation] = {}
    for pod, mark in marks:
        owner = pod.metadata.controller
        if owner is not None and (owner.uid not in latest or latest[owner.uid].at < mark.at):
            latest[owner.uid] = mark
    return {uid: Sizes(mark.was, mark.share) for uid, mark in latest.items()}
