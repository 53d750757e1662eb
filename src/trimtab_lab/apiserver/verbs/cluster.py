"""What all verbs work on: the objects, the kinds, who watches, who is asked, and what time it is."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from trimtab.api import times
from trimtab_lab.apiserver.admission.builtin_plugins import BuiltInPlugins
from trimtab_lab.apiserver.admission.webhook_dispatcher import Call
from trimtab_lab.apiserver.admission.webhook_plugin import WebhookPlugin
from trimtab_lab.apiserver.kinds.registry import Kind, Registry
from trimtab_lab.apiserver.storage.broadcaster import BOOKMARK_INTERVAL, Broadcaster
from trimtab_lab.apiserver.storage.store import HISTORY, Entry, Store, Tree
from trimtab_lab.apiserver.verbs.encoding import ResponseEncoder, as_yaml
from trimtab_lab.apiserver.verbs.negotiation import YAML, OutputFormat
from trimtab_lab.apiserver.verbs.requests import Response


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
        self.broadcaster = Broadcaster(self.store, bookmark_interval)
        self.plugins = BuiltInPlugins(self.store, self.registry, self.rng)
        self.webhooks = WebhookPlugin(self.store, self.registry, call)

    def now(self) -> str:
        """The time as objects carry it; written out once a second."""
        now = self.clock()
        if now // 10**9 != self._second:
            self._second, self._now = now // 10**9, times.format_time(now)
        return self._now

    def encoder(self, kind: Kind, form: OutputFormat) -> ResponseEncoder:
        """What writes objects of a kind in a form."""
        return ResponseEncoder(kind, form, self.clock)

    def respond_list(self, kind: Kind, form: OutputFormat, entries: Sequence[Entry], metadata: Tree) -> Response:
        """A list, in the form that was asked for."""
        body = self.encoder(kind, form).list(entries, metadata)
        return Response(200, as_yaml(b"".join(body.pieces)) if form.media_type == YAML else body, form.media_type)

    def respond(self, status: int, kind: Kind, form: OutputFormat, entry: Entry) -> Response:
        """One object, in the form that was asked for."""
        body = self.encoder(kind, form).object(entry)
        return Response(status, as_yaml(body) if form.media_type == YAML else body, form.media_type)
