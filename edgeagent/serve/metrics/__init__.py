"""The state in the Prometheus text format.

Names keep Prometheus' conventions: base units, ``_total`` for counters, times as Unix seconds.
"""

from edgeagent.serve.metrics.page import text

__all__ = ["CONTENT_TYPE", "text"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
