"""How many requests a second a client allows itself."""

from __future__ import annotations

from trimtab.kube.clocks import SECOND, Clock


class TokenBucket:
    """A bucket of `burst` tokens that gains `rate` of them a second. Waiting is in the order of arrival."""

    def __init__(self, rate: float, burst: int, clock: Clock) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError("a bucket needs a rate above zero and room for one token")
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
        """How many tokens there are."""
        self._fill()
        return max(0, int(self._tokens))

    def spend(self, count: int) -> None:
        """Take so many tokens, even if they have yet to come."""
        self._fill()
        self._tokens -= count

    async def wait(self) -> None:
        """Take the next token, even if it has yet to come: whoever comes later waits longer."""
        self._fill()
        self._tokens -= 1
        if self._tokens < 0:
            await self._clock.sleep(-self._tokens / self._rate)

    def _fill(self) -> None:
        now = self._clock.monotonic()
        gained = (now - self._filled_at) / SECOND * self._rate
        self._tokens = min(float(self._burst), self._tokens + gained)
        self._filled_at = now
