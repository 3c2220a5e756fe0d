"""A made-up run with everything a timeline shows, for tests and for looking at."""

from __future__ import annotations

from sakura.events import Event

NUM_STEPS, NUM_BLOCKS = 8, 6


def fake_run() -> list[Event]:
    """Step 0 is computed, later blocks injected at rising levels; a stall and a failed fetch."""
    events = [
        Event(
            0.0,
            "run_start",
            {
                "policy": "sakura",
                "floor_db": 40.0,
                "task": "face-swap",
                "num_steps": NUM_STEPS,
                "num_blocks": NUM_BLOCKS,
                "mask_ratio": 0.19,
            },
        )
    ]
    events += _network() + _blocks()
    end_s = max(event.t_s for event in events)
    events.append(Event(end_s + 0.002, "run_end", {"latency_s": end_s + 0.002}))
    return sorted(events, key=lambda event: event.t_s)


def _network() -> list[Event]:
    events = []
    for fetch in range(6):
        start_s = 0.001 + 0.012 * fetch
        data = {"fetch": fetch, "start": fetch * 60000, "stop": (fetch + 1) * 60000}
        events.append(Event(start_s, "fetch_start", data))
        for piece in range(3):
            t_s = start_s + 0.006 * (piece + 1)
            events.append(Event(t_s, "fetch_bytes", {"fetch": fetch, "num_bytes": 20000}))
            events.append(Event(t_s, "throughput", {"bps": 2.0e7 + 1e6 * (piece - fetch)}))
        ok = fetch != 4
        done = {"fetch": fetch, "num_bytes": 60000, "ok": ok, "reason": "complete"}
        events.append(Event(start_s + 0.02, "fetch_end", done))
        level = min(3, fetch // 2)
        for block in range(NUM_BLOCKS):
            began_s = start_s + 0.008 + 0.002 * block
            layer = {"block": block, "component": 0, "level": level, "start_s": began_s}
            events.append(Event(began_s + 0.0015, "decode", layer))
        events.append(Event(start_s + 0.02, "buffer", {"buffer_s": 0.01 * fetch}))
    return events


def _blocks() -> list[Event]:
    events: list[Event] = []
    now_s = 0.002
    for step in range(NUM_STEPS):
        began_s = now_s
        if step == 3:
            stall = {"step": step, "block": 0, "start_s": now_s}
            now_s += 0.008
            events.append(Event(now_s, "stall", stall))
        for block in range(NUM_BLOCKS):
            computed = step == 0 or (step == 1 and block < 3)
            start_s, now_s = now_s, now_s + (0.006 if computed else 0.002)
            level = None if computed else min(3, step // 2)
            mode = "compute" if computed else "inject"
            data = {"step": step, "block": block, "mode": mode, "level": level, "start_s": start_s}
            events.append(Event(now_s, "block", data))
        events.append(Event(now_s, "step", {"step": step, "start_s": began_s}))
    return events
