"""Measures and shows the whole system: demo tasks, device profiles, fidelity, the demo itself."""
