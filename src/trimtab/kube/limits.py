"""The client-side rate limit."""

from __future__ import annotations

from trimtab.kube.clocks import SECOND, Clock


class TokenBucket:
    """A token bucket: `burst` tokens, refilled at `rate` a second. Waiters are served in order."""

    def __init__(self, rate: float, burst: int, clock: Clock) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError("a token bucket needs a rate above 0 and a burst of at least 1")
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._filled_at = clock.monotonic()

    def take(self) -> bool:
        """Take a token if there is one."""
        self._fill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    @property
    def left(self) -> int:
        """The number of tokens available."""
        self._fill()
        return max(0, int(self._tokens))

    def spend(self, count: int) -> None:
        """Take so many tokens, in advance if necessary."""
        self._fill()
        self._tokens -= count

    async def wait(self) -> None:
        """Wait for a token. It is taken in advance, so that later callers wait longer."""
        self._fill()
        self._tokens -= 1
        if self._tokens < 0:
            await self._clock.sleep(-self._tokens / self._rate)

    def _fill(self) -> None:
        now = self._clock.monotonic()
        gained = (now - self._filled_at) / SECOND * self._rate
        self._tokens = min(float(self._burst), self._tokens + gained)
        self._filled_at = now
