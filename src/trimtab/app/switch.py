"""The switch `scaleDown.enabled`, which is read again while the process runs.

Everything else in the configuration is read at the start. This field can be changed at any time, so that scale-downs
can be turned off in an incident without waiting for processes to restart. Off means that no request is held, and that
written costs are reverted.

A file that cannot be read or is invalid changes nothing; the reason is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.errors import InvalidError
from trimtab.kube.clocks import Clock

CHECK_INTERVAL = 2.0
"""Seconds between reads of the file."""

Listener = Callable[[bool], None]

log = logging.getLogger(__name__)


class Switch:
    """On or off, with listeners."""

    def __init__(self, *, on: bool) -> None:
        self.on = on
        self._listeners: dict[str, Listener] = {}

    def subscribe(self, name: str, listener: Listener) -> None:
        """Call a listener on each change. A listener of the same name is replaced."""
        self._listeners[name] = listener

    def unsubscribe(self, name: str) -> None:
        """Do not call this listener any longer."""
        self._listeners.pop(name, None)

    def turn(self, *, on: bool) -> None:
        """Turn it on or off; listeners are called only if that is a change."""
        if on != self.on:
            self.on = on
            log.warning("scale-downs are switched %s", "on" if on else "off")
            for listener in self._listeners.values():
                listener(on)


class ConfigurationWatch:
    """Reads the configuration periodically, and turns the switch as it says."""

    def __init__(
        self,
        switch: Switch,
        read: Callable[[], TrimtabConfiguration],
        clock: Clock,
        warn: Callable[[str], None] = log.warning,
    ) -> None:
        self._switch = switch
        self._read = read
        self._clock = clock
        self._warn = warn
        self._problem = ""

    async def run(self) -> None:
        """Read the configuration periodically, until cancelled."""
        while True:
            await self._clock.sleep(CHECK_INTERVAL)
            self.check()

    def check(self) -> None:
        """Read the configuration once, and turn the switch as it says."""
        try:
            configuration = self._read()
        except InvalidError as error:
            if str(error) != self._problem:
                self._warn(f"the changed configuration is invalid and is ignored: {error}")
            self._problem = str(error)
        else:
            self._problem = ""
            self._switch.turn(on=configuration.scale_down.enabled)
