"""All rules: every module of ``edgeagent.diagnose.rules`` has one, or several, in ``RULES``."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from edgeagent.diagnose import rules

if TYPE_CHECKING:
    from edgeagent.diagnose.rule import Rule


def _found() -> tuple[Rule, ...]:
    names = sorted(module.name for module in pkgutil.iter_modules(rules.__path__))
    modules = [importlib.import_module(f"{rules.__name__}.{name}") for name in names]
    return tuple(sorted((rule for module in modules for rule in module.RULES), key=lambda rule: rule.id))


RULES = _found()
"""By id."""
