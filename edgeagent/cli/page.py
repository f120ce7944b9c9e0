"""How standard output can show a page."""

from __future__ import annotations

import locale
import os
import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgeagent.plan.report import Style


def page_style() -> Style:
    """As wide as the terminal, within reason; plain where the locale has no other signs."""
    from edgeagent.plan.report import style

    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size((style.USUAL, 24)).columns if terminal else style.USUAL
    return style.Style(
        width=min(max(width, style.NARROWEST), style.WIDEST),
        colour=terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
        plain=not all(
            _can_show(style.SIGNS, name) for name in (sys.stdout.encoding, locale.nl_langinfo(locale.CODESET))
        ),
    )


def _can_show(signs: str, encoding: str) -> bool:
    """Python itself writes UTF-8 in the locale C, whatever the terminal makes of it: so both are asked."""
    try:
        signs.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
