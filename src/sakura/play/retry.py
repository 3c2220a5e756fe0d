"""How many failures in a row are put up with. Pure: whoever acts also keeps the time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sakura.units import KIB


@dataclass(frozen=True, slots=True)
class Retry:
    """When a fetch is asked for again.

    Args:
        delays_s: pause after each failure in a row of a fetch; the last one for all further ones.
            A fetch that breaks more often than that while nothing comes by any fetch has failed.
        silence_s: without a byte for so long, reconnect; doubled each time, reset by a byte.
        num_silences: after so many in a row the fetch has failed.
    """

    delays_s: tuple[float, ...] = (0.05, 0.2, 0.8)
    silence_s: float = 0.6
    num_silences: int = 5


@dataclass(frozen=True, slots=True)
class Budget:
    """A number of failures that progress renews, so that a lossy link is not given up on.

    Args:
        most: failures in a row that are survived.
        progress_bytes: what must arrive after a failure for it to be forgotten; more than a few
            bytes, so that a peer which drips cannot keep a fetch going for ever.
        num_failures: so far.
        num_bytes: arrived since the last failure.
    """

    most: int
    progress_bytes: int = KIB
    num_failures: int = 0
    num_bytes: int = 0

    def arrived(self, num_bytes: int) -> Budget:
        """After bytes came."""
        total = self.num_bytes + num_bytes
        if total >= self.progress_bytes:
            return replace(self, num_failures=0, num_bytes=0)
        return replace(self, num_bytes=total)

    def failed(self) -> Budget:
        """After one more failure."""
        return replace(self, num_failures=self.num_failures + 1, num_bytes=0)

    @property
    def is_spent(self) -> bool:
        """Whether there were more failures than are survived."""
        return self.num_failures > self.most
