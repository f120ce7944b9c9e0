"""containerd's configuration is of a version that this program does not know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent.diagnose.rule import Rule

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import Collected
    from edgeagent.facts import Finding

KNOWN = ("", "1", "2", "3")


def look(seen: Collected) -> Iterator[Finding]:
    """What other rules read from such a file is a best effort."""
    used = seen.host.containerd
    if seen.has_gpu and not used.problem and used.version not in KNOWN:
        yield RULE.finding(
            seen.node_subject,
            f"{used.path} is of version {used.version}, which is not known here; it was read as versions 1 to 3 are.",
            evidence=(f"{used.path}: version {used.version}",),
        )


RULE = Rule(
    id="runtime-version-unknown",
    title="containerd's configuration is newer than edgeagent",
    severity="info",
    looks_at="`version` of the configuration that containerd reads",
    matters="Tables of runtimes may have other names there, so what is said of runtimes may be wrong.",
    remedy="Upgrade edgeagent.",
    look=look,
    certain=False,
    event="",
)
RULES = (RULE,)
