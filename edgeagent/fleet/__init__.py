"""All nodes of a cluster as the API server has them, for the operator's machine.

``rows``, ``pods``, ``signs``, ``page`` and ``document`` are pure; ``api`` alone knows the official client.
"""

from __future__ import annotations
