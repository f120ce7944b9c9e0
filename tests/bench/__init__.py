"""Figures, not verdicts: ``python -m tests.bench`` prints what the agent costs and how fast it reacts."""
