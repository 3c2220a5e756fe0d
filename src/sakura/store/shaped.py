"""A link of known bandwidth between a client and an origin, for demos, benchmarks and tests.

The shaping runs in a process of its own, so that a busy client cannot bend the link it is measured
on.
"""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from sakura.errors import InputError
from sakura.store.child import ChildHost, ChildProcess
from sakura.store.link import LinkModel
from sakura.store.trace import Trace


class ShapedLink(ChildHost):
    """Context manager: between enter and exit, `url` reaches `target_url` through the link.

    Args:
        target_url: http URL of the origin, or of one object on it.
        trace: rate over time, payload only. Scale it (`Trace.scaled`) for a faster or shorter run.
        rtt_s: round trip time; half of it delays each direction.
        loop: repeat the trace; otherwise its last rate holds on.
        model: the whole link, in place of trace, rtt_s and loop (queue, slow start).
    """

    def __init__(
        self,
        target_url: str,
        trace: Trace | None = None,
        *,
        rtt_s: float = 0.04,
        loop: bool = True,
        model: LinkModel | None = None,
    ) -> None:
        if (trace is None) == (model is None):
            raise InputError("a link needs either a trace or a model")
        self._target = urlsplit(target_url)
        if self._target.scheme != "http" or not self._target.hostname:
            raise InputError("only plain http can be shaped", where=target_url)
        self.model = model or LinkModel(trace or Trace.constant(1.0), rtt_s, loop)
        if not self.model.rtt_s >= 0:
            raise InputError(f"rtt_s is {self.model.rtt_s}, expected 0 or more")
        super().__init__()

    @property
    def url(self) -> str:
        """What the client asks for instead of `target_url`."""
        netloc = f"127.0.0.1:{self._running.ready['port']}"
        return urlunsplit(self._target._replace(netloc=netloc))

    def restart(self) -> float:
        """Begin the trace anew, so that each run sees the same link; returns `time.monotonic`.

        Connections stay open but start slow again. A fair run opens connections of its own after
        this.
        """
        return float(self._running.ask({"do": "restart"})["start_s"])

    def stats(self) -> dict[str, float]:
        """Counters since the last restart, but num_connections since the beginning.

        delivered_bytes, wasted_bytes (their client had left), busy_s, elapsed_s, start_s.
        """
        return self._running.ask({"do": "stats"})

    def _start(self) -> ChildProcess:
        model, trace = self.model, self.model.trace
        return ChildProcess(
            "sakura.store.shape_process",
            {
                "host": self._target.hostname,
                "port": self._target.port or 80,
                "times_s": trace.times_s,
                "rates_bps": trace.rates_bps,
                "name": trace.name,
                "duration_s": trace.duration_s,
                "rtt_s": model.rtt_s,
                "loop": model.loop,
                "queue_s": model.queue_s,
                "initial_window": model.initial_window,
            },
        )
