"""A node agent that makes GPU memory on edge boards visible, schedulable and safe."""

from __future__ import annotations

__version__ = "0.1.0"
