"""For everybody: by keyboard, by ear, with little sight, on a phone and on a wall."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from edgeagent.serve.shown import Shown

from . import scenes
from .conftest import Opener, Server
from .test_hostile import hostile
from .test_views import beside

CHECKS = Path(__file__).with_name("checks.js").read_text(encoding="utf-8")
SCENES = {
    "breach": scenes.breach,
    "pressure": scenes.pressure,
    "stale": scenes.stale,
    "standalone": scenes.standalone,
    "mixed": scenes.mixed,
    "beside": beside,
}


def ready(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_be_visible()


@pytest.mark.parametrize("name", SCENES)
def test_names_roles_structure_and_contrast(served: Server, opened: Opener, name: str) -> None:
    page = opened(served(SCENES[name]()).url, scheme="light")
    ready(page)
    page.locator("details").evaluate_all("(all) => all.forEach((one) => { one.open = true; })")

    light = page.evaluate(CHECKS)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(CHECKS)

    assert (light, dark) == ([], [])


def test_the_checks_find_what_is_wrong(served: Server, opened: Opener) -> None:
    page = opened(served(scenes.healthy()).url)
    ready(page)

    page.evaluate(
        """() => {
          byId("theme").textContent = "";
          byId("about").style.color = "rgb(150, 150, 150)";
          document.querySelector("#pools-title").outerHTML = "<h4>Memory</h4>";
          byId("board").append(make("h1", {}, "another"), make("img"));
        }"""
    )

    # #969696 on #f1f4f7: (0.900 + 0.05) / (0.305 + 0.05) = 2.68, by the formula of WCAG 2.
    found = "\n".join(page.evaluate(CHECKS))
    wanted = ["button.quiet has no name", "a contrast of 2.68", "heading of level 1", "2 of h1", "img. has no text"]
    assert [words for words in wanted if words not in found] == []


@pytest.mark.parametrize("scene", ["mixed", "beside", "hostile"])
def test_no_width_needs_scrolling_to_the_side(served: Server, opened: Opener, scene: str) -> None:
    state: Shown = hostile() if scene == "hostile" else SCENES[scene]()
    page = opened(served(state).url, width=320, height=700)
    ready(page)

    # 320 is a phone, or 1280 at 400 %; 720 is a laptop's 1440 at 200 %.
    for width in (320, 360, 390, 720, 1023, 1440, 2560, 3840):
        page.set_viewport_size({"width": width, "height": 700})
        beyond = page.evaluate(
            """(width) => [...document.querySelectorAll("body *")]
              .filter((one) => one.checkVisibility() && !one.closest(".scroll, .skip, .aloud, .name[data-pod], svg"))
              .filter((one) => one.getBoundingClientRect().right > width + 1)
              .map((one) => `${one.tagName}.${one.className}`)""",
            width,
        )
        assert (width, beyond) == (width, [])
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_larger_letters_break_nothing(served: Server, opened: Opener) -> None:
    page = opened(served(beside()).url, width=1280, height=900)
    ready(page)

    page.evaluate("document.documentElement.style.fontSize = '200%'")

    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_the_way_by_keyboard(served: Server, opened: Opener) -> None:
    page = opened(served(beside()).url, reduced_motion="reduce")
    ready(page)
    stops: list[str] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            """() => {
              const one = document.activeElement;
              const name = one.getAttribute("aria-label") ?? one.textContent;
              return [name, parseFloat(getComputedStyle(one).outlineWidth)];
            }"""
        )
        if stops and name == stops[0]:
            break
        stops.append(name)
        assert outline >= 2, f"where the focus is has to be seen: {name}"

    assert stops[0] == "Skip to what the board is doing"
    assert stops[1] == "Theme: auto"
    order = [next(i for i, name in enumerate(stops) if word in name) for word in ("system", "As a table", "Copy what")]
    assert order == sorted(order)
    assert "Metrics" in stops

    page.get_by_role("link", name="Skip to what the board is doing").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.get_by_text("As a table").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("table")).to_be_visible()


def test_the_focus_stays_while_figures_change(served: Server, opened: Opener) -> None:
    endpoint = served(scenes.healthy())
    page = opened(endpoint.url)
    button = page.get_by_role("button", name="vision/detector")
    button.focus()

    endpoint.show(scenes.breach())

    expect(page.get_by_role("heading", level=1)).to_contain_text("over its budget")
    expect(button).to_be_focused()


def test_states_are_read_out_and_figures_are_not(served: Server, opened: Opener) -> None:
    endpoint = served(scenes.healthy())
    page = opened(endpoint.url)
    status = page.get_by_role("status")
    expect(status).to_have_text(f"{scenes.NODE} is healthy")
    page.evaluate(
        """() => {
          window.spoken = [];
          new MutationObserver(() => spoken.push(byId("aloud").textContent)).observe(byId("aloud"), {childList: true});
        }"""
    )

    endpoint.show(scenes.shown(scenes.planned(scenes.orin(held=scenes.with_use(llm=1800 * 1024**2)), 2)))
    expect(page.locator("li.pod").first).to_contain_text("1.76 GiB")
    endpoint.show(scenes.breach())

    over = f"{scenes.NODE}: 1 pod is over its budget shop/llm-chat-7c9f4d6b8-x2lqp is over its budget."
    expect(status).to_have_text(over)
    assert page.evaluate("spoken") == [over]


def test_light_and_dark_by_system_and_by_hand(served: Server, opened: Opener) -> None:
    page = opened(served(scenes.healthy()).url, scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)

    page.emulate_media(color_scheme="light")
    light = page.evaluate(background)
    page.get_by_role("button", name="Theme: auto").click()
    by_hand = page.evaluate(background)
    page.reload()

    assert light != dark == by_hand == page.evaluate(background), "the choice stays"
    page.get_by_role("button", name="Theme: dark").click()
    assert page.evaluate(background) == light


def test_nothing_moves_for_those_who_want_no_motion(served: Server, opened: Opener) -> None:
    page = opened(served(scenes.healthy()).url, reduced_motion="reduce")
    ready(page)

    durations = page.evaluate(
        "() => [...document.querySelectorAll('*')].map((one) => getComputedStyle(one).transitionDuration)"
    )

    assert set(durations) == {"0s"}


def test_what_is_told_by_colour_is_told_by_words_too(served: Server, opened: Opener) -> None:
    page = opened(served(scenes.pressure()).url)
    ready(page)

    for chip in page.locator("li.pod .chip").all_inner_texts():
        assert chip in {"✓ within budget", "○ no budget"}
    # Pods with a colour have a letter each, in the bar and beside their name.
    letters = page.locator("li.pod .swatch").all_inner_texts()
    assert sorted(letters) == ["A", "B", "C", "D", "E"]
    assert {text[0] for text in page.locator(".part[data-kind=pod-gpu]").all_inner_texts() if text} <= set(letters)
