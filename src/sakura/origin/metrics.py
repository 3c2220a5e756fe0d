"""Counters of one origin, in the Prometheus text format."""

from __future__ import annotations

from collections import Counter


class Metrics:
    """Touched by the event loop only, so there is no lock."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self.num_in_flight = 0
        self.body_bytes = 0

    def count(self, method: str, status: int) -> None:
        """Count one answered request. Unknown methods share one label, so that nobody can grow the
        table.
        """
        known = method if method in ("GET", "HEAD", "OPTIONS") else "other"
        self._requests[known, status] += 1

    def render(self) -> str:
        """The whole exposition."""
        lines = ["# TYPE sakura_origin_requests_total counter"]
        for (method, status), number in sorted(self._requests.items()):
            labels = f'method="{method}",status="{status}"'
            lines.append(f"sakura_origin_requests_total{{{labels}}} {number}")
        lines += [
            "# TYPE sakura_origin_body_bytes_total counter",
            f"sakura_origin_body_bytes_total {self.body_bytes}",
            "# TYPE sakura_origin_requests_in_flight gauge",
            f"sakura_origin_requests_in_flight {self.num_in_flight}",
        ]
        return "\n".join(lines) + "\n"
