"""Two CDI specifications define the same devices."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING

from edgeagent.diagnose import cdi
from edgeagent.diagnose.rule import Rule

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import Collected
    from edgeagent.facts import Finding
    from edgeagent.facts.diagnosis import CdiSpec

_SHOWN = 5
_USUAL = "nvidia.yaml"
"""As NVIDIA's own instructions call it: of two, the one to keep."""


def look(seen: Collected) -> Iterator[Finding]:
    """Kinds of NVIDIA's. What is in one folder drops each other; between folders one goes before."""
    if not seen.has_gpu:
        return
    specs = [spec for spec in seen.host.cdi if cdi.is_read(spec) and cdi.is_nvidia(spec.kind)]
    for spec in specs:
        if cdi.repeated(spec):
            yield _refused(seen, spec)
    together: dict[tuple[CdiSpec, ...], list[str]] = {}
    shadowed: dict[tuple[CdiSpec, CdiSpec], list[str]] = {}
    for name, found in cdi.defined(specs).items():
        by_folder = {place: tuple(one for one in found if cdi.folder(one) == place) for place in map(cdi.folder, found)}
        for those in by_folder.values():
            if len(those) > 1:
                together.setdefault(those, []).append(name)
        if len(found) > 1 and len(by_folder) == len(found):
            first = by_folder[cdi.STATIC][0] if cdi.STATIC in by_folder else found[0]
            shadowed.setdefault((first, found[-1]), []).append(name)
    for those, names in together.items():
        yield _dropped(seen, those, names)
    for (below, above), names in shadowed.items():
        yield _shadowed(seen, below, above, names)


def _told(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")


def _rows(specs: tuple[CdiSpec, ...]) -> tuple[str, ...]:
    return tuple(f"{spec.path}: kind {spec.kind}, devices {_told(list(spec.devices))}" for spec in specs)


def _dropped(seen: Collected, specs: tuple[CdiSpec, ...], names: list[str]) -> Finding:
    kept = next((spec for spec in specs if spec.path.endswith(f"/{_USUAL}")), specs[0])
    moves = "\n".join(f"sudo mv {quote(spec.path)} {quote(f'{spec.path}.off')}" for spec in specs if spec is not kept)
    return RULE.finding(
        seen.node_subject,
        f"{' and '.join(spec.path for spec in specs)} both define {_told(names)}: runtimes drop these devices from all "
        "of them, and containers that ask for one do not start.",
        evidence=_rows(specs),
        remedy=f"Keep one of them, as {kept.path}. A file that ends in .off is not read:\n{moves}\nnvidia-ctk cdi list",
    )


def _refused(seen: Collected, spec: CdiSpec) -> Finding:
    names = list(cdi.repeated(spec))
    return RULE.finding(
        seen.node_subject,
        f"{spec.path} defines {_told(names)} more than once, so runtimes refuse all of it.",
        evidence=_rows((spec,)),
        remedy=f"Write it anew:\nsudo nvidia-ctk cdi generate --output={quote(spec.path)}\nnvidia-ctk cdi list",
    )


def _shadowed(seen: Collected, below: CdiSpec, above: CdiSpec, names: list[str]) -> Finding:
    return RULE.finding(
        seen.node_subject,
        f"{above.path} takes the place of {below.path} for {_told(names)}: a change of the latter has no effect.",
        evidence=_rows((below, above)),
        remedy="Nothing has to be done while the first is right. To have one only:\n"
        f"sudo mv {quote(below.path)} {quote(f'{below.path}.off')}",
        severity="info",
        certainty="suspected",
    )


RULE = Rule(
    id="cdi-duplicate-kind",
    title="Two CDI specifications define the same devices",
    severity="error",
    looks_at="kind and device names of the files `*.json` and `*.yaml` in `/etc/cdi` and `/var/run/cdi`, of kinds of "
    "NVIDIA's. Two files with one kind and different names are right. Of the same names in both folders those in "
    "`/var/run/cdi` count, which is a note",
    matters="What two files of one folder define is dropped, from both. A file that was written in both syntaxes is "
    "enough. Then every container that asks for the device fails with *unresolvable CDI devices*.",
    remedy="Keep one of the files; move the other one away, or give it another ending.",
    look=look,
    condition=True,
)
RULES = (RULE,)
