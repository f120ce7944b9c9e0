"""Names that others choose are text: they inject nothing, turn nothing around, and break no layout."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from edgeagent.plan.types import Event, Finding
from edgeagent.serve.shown import Shown
from tests.unit.factories import MIB, Held, pod

from . import scenes
from .conftest import Opener, Server

MARKUP = "<img src=x onerror=\"window.hacked='img'\"><script>window.hacked='script'</script>'\"`${hacked}&lt;"
LINK = "javascript:window.hacked='link'//"
TURNED = "safe\u202egnp.exe\u2066\u200b"
LONG = "a-" * 126 + "z"
EMOJI = "👩‍👩‍👧‍👦🚀" * 8
ZALGO = "z" + "\u0335\u0322\u0353" * 40 + "\x00\x1b[31m\u0085"
NAMES = (MARKUP, LINK, TURNED, LONG, EMOJI, ZALGO)


def hostile() -> Shown:
    """Every text that somebody else chooses is one of NAMES."""
    pods = tuple(pod(name, 512 * MIB, None, namespace=NAMES[index - 1], uid=name) for index, name in enumerate(NAMES))
    held = {name: Held(gpu=(200 if name != MARKUP else 900) * MIB, host=50 * MIB) for name in NAMES}
    whole = scenes.shown(scenes.planned(scenes.orin(pods, held), 6, 4, 2))
    assert whole.plan is not None
    findings = tuple(
        Finding(
            id=f"odd-{index}",
            severity="warning",
            certainty="suspected",
            subject=name,
            summary=f"{name} holds too much",
            evidence=(name,),
            remedy=name,
        )
        for index, name in enumerate(NAMES)
    )
    board = replace(
        whole.plan.board,
        product=MARKUP,
        warnings=NAMES,
        devices=tuple(replace(one, name=LONG) for one in whole.plan.board.devices),
    )
    cluster = scenes.healthy().cluster
    assert cluster is not None
    return replace(
        whole,
        plan=replace(whole.plan, findings=findings, board=board, observe=MARKUP),
        cluster=replace(cluster, node=MARKUP),
        events=tuple(
            Event(reason=name, kind="Pod", namespace=name, name=name, uid=name, note=name, at=scenes.NOW)
            for name in NAMES
        ),
        incidents=scenes.Incident(60, MARKUP, LONG).lines(),
        vitals=replace(scenes.VITALS, power_mode=MARKUP, temperatures=((LONG, 50.0),), throttle_reasons=NAMES),
        neighbours={one.uid: replace(scenes.neighbour(one), latency_why=MARKUP) for one in pods},
    )


def elements(page: Page) -> dict[str, int]:
    """How many elements of each kind there are that the page itself hardly ever makes."""
    found: dict[str, int] = page.evaluate(
        "() => Object.fromEntries(['script', 'img', 'iframe', 'style', 'link', 'object', 'a'].map("
        "(name) => [name, document.querySelectorAll(name).length]))"
    )
    return found


@pytest.mark.parametrize(("width", "height"), [(360, 740), (1440, 900)])
def test_hostile_names_are_text(served: Server, opened: Opener, width: int, height: int) -> None:
    page = opened(served(hostile()).url, width=width, height=height)
    expect(page.locator("li.pod")).to_have_count(len(NAMES))
    for name in ("odd-0", "odd-5"):
        expect(page.locator(".finding").filter(has_text=name)).to_be_visible()

    assert page.evaluate("window.hacked") is None
    # Style sheet and icon, the script, the logo, the way past the head and three links at the foot.
    assert elements(page) == {"script": 1, "img": 1, "iframe": 0, "style": 0, "link": 2, "object": 0, "a": 4}
    assert page.locator("li.pod .name").filter(has_text="onerror").inner_text() == MARKUP
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def number(sign: int) -> str:
    return f"\u2039U+{sign:04X}\u203a"


def test_what_is_not_seen_is_shown_by_its_number(served: Server, opened: Opener) -> None:
    page = opened(served(hostile()).url)

    expect(page.locator("li.pod .name").filter(has_text="safe")).to_have_text(
        f"safe{number(0x202E)}gnp.exe{number(0x2066)}{number(0x200B)}"
    )
    expect(page.locator("li.pod .name").filter(has_text="[31m")).to_contain_text(
        f"{number(0)}{number(0x1B)}[31m{number(0x85)}"
    )
    assert "\u202e" not in page.locator("body").inner_text()


def test_a_name_takes_no_more_room_than_two_lines(served: Server, opened: Opener) -> None:
    page = opened(served(hostile()).url, width=360, height=740)
    expect(page.locator("li.pod")).to_have_count(len(NAMES))

    heights: list[Any] = page.locator("li.pod h3").evaluate_all("(all) => all.map((one) => one.offsetHeight)")

    # Two lines of 16 pixels at 1.45, and the swatch.
    assert max(heights) <= 2 * 16 * 1.45 + 4
