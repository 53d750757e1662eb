"""What all verbs work on: the objects, the kinds, who watches, who is asked, and what time it is."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from trimtab.api import times
from trimtab_lab.apiserver.admission.builtin_plugins import Plugins
from trimtab_lab.apiserver.admission.reviews import Reviews
from trimtab_lab.apiserver.admission.webhooks import Call
from trimtab_lab.apiserver.kinds.registry import Kind, Registry
from trimtab_lab.apiserver.storage.broadcaster import BOOKMARK_INTERVAL, Hub
from trimtab_lab.apiserver.storage.store import HISTORY, Entry, Store, Tree
from trimtab_lab.apiserver.verbs.encoding import Printer, as_yaml
from trimtab_lab.apiserver.verbs.negotiation import YAML, Form
from trimtab_lab.apiserver.verbs.requests import Answer


class Cluster:
    """One cluster's state. `call` reaches webhooks; what happens by itself is started by the server."""

    def __init__(
        self,
        *,
        clock: Callable[[], int],
        call: Call,
        history: int = HISTORY,
        bookmark_interval: float = BOOKMARK_INTERVAL,
        seed: int | None = None,
    ) -> None:
        self.clock = clock
        self._second, self._now = -1, ""
        self.rng = random.Random(seed)  # noqa: S311 – names are not secrets
        self.registry = Registry()
        self.store = Store(history)
        self.hub = Hub(self.store, bookmark_interval)
        self.plugins = Plugins(self.store, self.registry, self.rng)
        self.admissions = Reviews(self.store, self.registry, call)

    def now(self) -> str:
        """The time as objects carry it; written out once a second."""
        now = self.clock()
        if now // 10**9 != self._second:
            self._second, self._now = now // 10**9, times.format_time(now)
        return self._now

    def printer(self, kind: Kind, form: Form) -> Printer:
        """What writes objects of a kind in a form."""
        return Printer(kind, form, self.clock)

    def answer_list(self, kind: Kind, form: Form, entries: Sequence[Entry], metadata: Tree) -> Answer:
        """A list, in the form that was asked for."""
        body = self.printer(kind, form).list(entries, metadata)
        return Answer(200, as_yaml(b"".join(body.pieces)) if form.media_type == YAML else body, form.media_type)

    def answer(self, status: int, kind: Kind, form: Form, entry: Entry) -> Answer:
        """One object, in the form that was asked for."""
        body = self.printer(kind, form).object(entry)
        return Answer(status, as_yaml(body) if form.media_type == YAML else body, form.media_type)
