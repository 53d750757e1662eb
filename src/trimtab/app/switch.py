"""The one switch: `scaleDown.enabled`, looked at again while the process runs.

Everything else in the configuration is read at the start. This is for when something goes wrong: whoever turns it off
does not want to wait for processes to be replaced. Off means that no request is held, and that what was written is
taken back.

A file that cannot be read, or would be refused at the start, changes nothing: the switch stays where it is, and a line
in the log says why.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.errors import InvalidError
from trimtab.kube.clocks import Clock

LOOK_EVERY = 2.0
"""Seconds between looks at the file."""

Listener = Callable[[bool], None]

log = logging.getLogger(__name__)


class Switch:
    """On or off, and whom to tell."""

    def __init__(self, *, on: bool) -> None:
        self.on = on
        self._listeners: dict[str, Listener] = {}

    def tell(self, name: str, listener: Listener) -> None:
        """Tell somebody of changes from now on. Who comes again under the same name takes the place of the first."""
        self._listeners[name] = listener

    def turn(self, *, on: bool) -> None:
        """Turn it on or off; who was told already is not told again."""
        if on != self.on:
            self.on = on
            log.warning("scale-downs are switched %s", "on" if on else "off")
            for listener in self._listeners.values():
                listener(on)


class Watch:
    """Looks at a configuration that may change."""

    def __init__(
        self,
        switch: Switch,
        read: Callable[[], TrimtabConfiguration],
        clock: Clock,
        complain: Callable[[str], None] = log.warning,
    ) -> None:
        self._switch = switch
        self._read = read
        self._clock = clock
        self._complain = complain
        self._problem = ""

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self._clock.sleep(LOOK_EVERY)
            self.look()

    def look(self) -> None:
        """Turn the switch as the configuration says."""
        try:
            configuration = self._read()
        except InvalidError as error:
            if str(error) != self._problem:
                self._complain(f"the configuration has changed and is not taken: {error}")
            self._problem = str(error)
        else:
            self._problem = ""
            self._switch.turn(on=configuration.scale_down.enabled)
