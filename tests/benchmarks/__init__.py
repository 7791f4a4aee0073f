"""How long the commands take, as ratios to the start of an empty interpreter: `python -m tests.benchmarks`."""
