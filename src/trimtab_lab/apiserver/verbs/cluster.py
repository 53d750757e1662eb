"""The state that all verbs share: objects, kinds, watchers, admission, and the clock."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from trimtab.api import times
from trimtab_lab.apiserver.admission.builtin_plugins import BuiltInPlugins
from trimtab_lab.apiserver.admission.service_account_tokens import ServiceAccountTokens
from trimtab_lab.apiserver.admission.webhook_dispatcher import Call
from trimtab_lab.apiserver.admission.webhook_plugin import WebhookPlugin
from trimtab_lab.apiserver.kinds.registry import Kind, Registry
from trimtab_lab.apiserver.storage.broadcaster import BOOKMARK_INTERVAL, Broadcaster
from trimtab_lab.apiserver.storage.store import HISTORY, Entry, Store, Tree
from trimtab_lab.apiserver.verbs.encoding import ResponseEncoder, as_yaml
from trimtab_lab.apiserver.verbs.negotiation import YAML, OutputFormat
from trimtab_lab.apiserver.verbs.requests import Response


class Cluster:
    """The state of one cluster. `call` reaches webhooks; the server starts the controllers."""

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
        self.tokens = ServiceAccountTokens(self.store, clock)
        self.webhooks = WebhookPlugin(self.store, self.registry, call)

    def now(self) -> str:
        """The present time as objects carry it; formatted once a second."""
        now = self.clock()
        if now // 10**9 != self._second:
            self._second, self._now = now // 10**9, times.format_time(now)
        return self._now

    def encoder(self, kind: Kind, output: OutputFormat) -> ResponseEncoder:
        """The encoder for objects of a kind in an output format."""
        return ResponseEncoder(kind, output, self.clock)

    def respond_list(self, kind: Kind, output: OutputFormat, entries: Sequence[Entry], metadata: Tree) -> Response:
        """A response with a list, in the negotiated format."""
        body = self.encoder(kind, output).list(entries, metadata)
        return Response(200, as_yaml(b"".join(body.pieces)) if output.media_type == YAML else body, output.media_type)

    def respond(self, status: int, kind: Kind, output: OutputFormat, entry: Entry) -> Response:
        """A response with one object, in the negotiated format."""
        body = self.encoder(kind, output).object(entry)
        return Response(status, as_yaml(body) if output.media_type == YAML else body, output.media_type)
