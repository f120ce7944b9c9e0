"""``python -m edgeagent``: the same program as the ``edgeagent`` command."""

from __future__ import annotations

import sys

from edgeagent.cli import main

if __name__ == "__main__":
    sys.exit(main())
