"""Redis as the one truth: its keys (keys.py), its transitions (scripts/), and the typed way to them (store.py)."""
