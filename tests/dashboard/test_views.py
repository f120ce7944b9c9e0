"""What the page shows of a board, in a real browser, from the real endpoint."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from playwright.sync_api import Locator, Page, expect

from edgeagent.plan.types import Finding, GpuPath
from edgeagent.serve.shown import ClusterHealth, ConfigHealth, Shown
from tests.unit.factories import MIB, Held, pod

from . import scenes
from .conftest import Opener, Server


def verdict(page: Page) -> Locator:
    return page.get_by_role("heading", level=1)


def row(page: Page, name: str) -> Locator:
    return page.locator("li.pod").filter(has_text=name)


def shares(page: Page) -> dict[str, float]:
    """Parts of the first bar, in hundredths of its width, by kind."""
    found: dict[str, float] = {}
    for kind, width in page.evaluate(
        """() => {
          const bar = document.querySelector(".bar");
          const whole = bar.getBoundingClientRect().width;
          return [...bar.children].map((part) => [part.dataset.kind, 100 * part.getBoundingClientRect().width / whole]);
        }"""
    ):
        found[kind] = found.get(kind, 0.0) + width
    return found


def test_a_healthy_board_at_a_glance(served: Server, opened: Opener) -> None:
    endpoint = served(scenes.healthy())
    page = opened(endpoint.url)

    expect(verdict(page)).to_have_text(f"{scenes.NODE} is healthy")
    expect(page.locator("#next")).to_have_text("Nothing is due: no pod is over its budget.")
    expect(page.locator("#link")).to_contain_text("live")
    # 7619 MiB − 900 of the system − 17 of Xorg − 3509 of GPU memory − 1070 of host memory = 2123 MiB available,
    # of which 96 are CMA pages: 2027 MiB = 1.98 GiB usable.
    expect(page.locator("#pressure-body .big")).to_have_text("1.98 GiB usable")
    # The floor is the larger of 128 MiB and half of the headroom, which is 256 MiB.
    expect(page.locator("#pressure-body")).to_contain_text("floor of 128 MiB")
    # Of the 2027 MiB usable, the headroom keeps 256 and K3s its 512; of the 768 for the system 917 − 160 (CMA pages
    # in use) = 757 are used, 11 are left: 2027 − 256 − 512 − 11 = 1248 MiB = 1.22 GiB.
    expect(page.locator(".pool .big")).to_have_text("1.22 GiB free")


def test_the_bar_is_as_wide_as_what_it_tells(served: Server, opened: Opener) -> None:
    endpoint = served(scenes.healthy())
    page = opened(endpoint.url, reduced_motion="reduce")
    expect(page.locator(".part").first).to_be_visible()

    found = shares(page)

    # Figures as in the test before, of 7619 MiB.
    assert found["pod-gpu"] == pytest.approx(100 * 3509 / 7619, abs=0.5)
    assert found["pod-host"] == pytest.approx(100 * 1070 / 7619, abs=0.5)
    assert found["host"] == pytest.approx(100 * 900 / 7619, abs=0.5)
    assert found["free"] == pytest.approx(100 * 1248 / 7619, abs=0.5)
    assert found["reserve"] == pytest.approx(100 * (96 + 11 + 512 + 256) / 7619, abs=0.5)


def test_the_table_behind_the_bar_has_each_reserve(served: Server, opened: Opener) -> None:
    endpoint = served(scenes.healthy())
    page = opened(endpoint.url)
    page.get_by_text("As a table").click()

    table = page.get_by_role("table")
    rows = {cells[0]: cells[1:] for cells in (one.all_inner_texts() for one in _rows(table))}

    assert rows["shop/llm-chat-7c9f4d6b8-x2lqp"][:3] == ["1.68 GiB", "412 MiB", "2.08 GiB"]
    assert {name: cells[2] for name, cells in rows.items() if name.startswith("kept back")} == {
        "kept back: os": "11 MiB",
        "kept back: k3s": "512 MiB",
        "kept back: cma": "96 MiB",
        "kept back: headroom": "256 MiB",
    }


def _rows(table: Locator) -> list[Locator]:
    return [one.locator("th, td") for one in table.locator("tbody tr").all()]


def test_a_breach_appears_with_what_comes_next(served: Server, opened: Opener) -> None:
    endpoint = served(scenes.healthy())
    page = opened(endpoint.url)
    pod = row(page, "llm-chat")
    expect(pod.locator(".chip")).to_have_text("✓ within budget")

    endpoint.show(scenes.breach())

    expect(pod.locator(".chip")).to_have_text("▲ over budget")
    expect(verdict(page)).to_have_text(f"{scenes.NODE}: 1 pod is over its budget")
    # Over for 6 of 15 s.
    expect(page.locator("#next")).to_have_text(
        re.compile(r"Next: shop/llm-chat-\S+ is evicted in [89] s, unless it falls below its budget\.")
    )
    expect(pod.locator(".measure-label")).to_have_text("2.30 GiB GPU · budget 2.00 GiB, 310 MiB over")
    expect(page.locator("#decisions")).to_contain_text("MemoryBudgetExceeded")
    expect(page.locator("li.pod").first).to_contain_text("llm-chat")
    expect(page.get_by_role("status")).to_contain_text("shop/llm-chat-7c9f4d6b8-x2lqp is over its budget.")
    assert page.title() == f"▲ {scenes.NODE} · edgeagent"


def test_the_seconds_until_an_eviction_are_counted_down_between_readings(served: Server, opened: Opener) -> None:
    endpoint = served(scenes.breach())
    page = opened(endpoint.url)

    # 9 s are left, and this agent reads nothing anew.
    expect(page.locator("#next")).to_contain_text("evicted in 7 s")


def test_observing_is_said_with_its_reason(served: Server, opened: Opener) -> None:
    whole = scenes.breach()
    assert whole.plan is not None
    plan = replace(
        whole.plan,
        observe="mode: observe is configured",
        held=tuple(replace(one, code="observe", seconds_left=None, why="observing") for one in whole.plan.held),
    )
    endpoint = served(replace(whole, plan=plan))
    page = opened(endpoint.url)

    expect(page.locator("#about")).to_contain_text("observes only: mode: observe is configured")
    expect(row(page, "llm-chat")).to_contain_text("Would be evicted; the agent only observes.")


def test_pressure_is_said_and_what_can_be_done(served: Server, opened: Opener) -> None:
    endpoint = served(scenes.pressure())
    page = opened(endpoint.url)

    expect(verdict(page)).to_have_text(f"{scenes.NODE} is nearly out of memory")
    expect(page.locator("#next")).to_contain_text("Nobody is over a budget, so nobody is evicted.")
    expect(page.locator("#pressure-body")).to_contain_text("124 MiB usable")
    expect(page.locator("#pressure-body")).to_contain_text("Under pressure")
    expect(row(page, "notebook-0").locator(".chip")).to_have_text("○ no budget")


def figures(page: Page) -> set[str]:
    """Amounts that can be read now."""
    return set(re.findall(r"[\d.]+ [MG]iB", page.locator("body").inner_text()))


def test_a_stale_reading_is_flagged_and_no_old_figure_stays(served: Server, opened: Opener) -> None:
    endpoint = served(scenes.healthy())
    page = opened(endpoint.url)
    expect(row(page, "llm-chat").locator(".measure-label")).to_contain_text("1.68 GiB")

    endpoint.show(scenes.stale(12))

    expect(row(page, "llm-chat").locator(".measure-label")).to_have_text(
        re.compile(r"unknown, last read 1[234] s ago GPU · budget 2\.00 GiB")
    )
    expect(verdict(page)).to_have_text(f"{scenes.NODE}: who holds what is not known")
    expect(page.locator("#notices")).to_contain_text("it was last read 12 s ago: nvmap: permission denied")
    expect(page.locator(".pool .big")).to_have_text("Who holds what is not known")
    expect(page.locator(".part")).to_have_count(0)
    left = figures(page)

    # GPU memory of pods, what is free, and sums with them.
    assert not left & {"1.68 GiB", "790 MiB", "344 MiB", "655 MiB", "1.22 GiB", "2.08 GiB", "1021 MiB", "492 MiB"}
    assert {"412 MiB", "1.98 GiB"} <= left, "host memory and what is usable were read"


def test_when_the_board_is_not_read_any_more_every_figure_goes(served: Server, opened: Opener) -> None:
    endpoint = served(scenes.healthy())
    page = opened(endpoint.url)
    expect(row(page, "llm-chat")).to_be_visible()

    endpoint.later(34)

    expect(verdict(page)).to_have_text(re.compile(rf"{scenes.NODE}: not known since 3[456] s"))
    expect(page.locator("#notices")).to_contain_text("The board was not read lately")
    expect(page.locator("li.pod")).to_have_count(0)
    assert figures(page) == set()


def test_before_the_first_reading(served: Server, opened: Opener) -> None:
    endpoint = served(None)
    page = opened(endpoint.url, expected="503")

    expect(verdict(page)).to_have_text("This board has not been read yet")
    expect(page.locator("#notices")).to_contain_text("the board was not read completely yet")


def test_a_board_without_a_cluster(served: Server, opened: Opener) -> None:
    endpoint = served(scenes.standalone())
    page = opened(endpoint.url)

    expect(verdict(page)).to_have_text("This board is healthy")
    expect(page.locator("#pods-none")).to_contain_text("No cluster")
    expect(page.locator(".legend")).to_contain_text("system, GPU")


def test_pods_that_were_not_listed_yet_are_not_none(served: Server, opened: Opener) -> None:
    state = scenes.standalone()
    waiting = ClusterHealth(node=scenes.NODE, complete=False, fresh_at=scenes.NOW, succeeded_at=scenes.NOW)
    page = opened(served(replace(state, cluster=waiting)).url)

    expect(page.locator("#pods-none")).to_contain_text("The pods of this node are not known")


def test_a_configuration_that_was_refused_is_told_with_the_reason(served: Server, opened: Opener) -> None:
    refused = ConfigHealth(digest="5f2d1c9a", refused=("config.yaml: mode: wrong",))
    page = opened(served(replace(scenes.standalone(), config=refused)).url)

    expect(page.locator("#notices")).to_contain_text("the last good ones are in force: config.yaml: mode: wrong")


def test_a_cluster_that_does_not_answer(served: Server, opened: Opener) -> None:
    endpoint = served(scenes.unreachable())
    page = opened(endpoint.url)

    expect(page.locator("#notices")).to_have_text(
        "The API server does not answer: the last good answer came 120 s ago: connection refused"
    )
    expect(verdict(page)).to_have_text(f"{scenes.NODE} is not ready")


def test_a_machine_without_a_gpu(served: Server, opened: Opener) -> None:
    endpoint = served(scenes.without_gpu())
    page = opened(endpoint.url)

    expect(page.locator("#pools")).to_contain_text("No GPU was found")
    expect(page.locator(".bar")).to_have_count(0)


def test_a_mixed_board_has_two_bars(served: Server, opened: Opener) -> None:
    endpoint = served(scenes.mixed())
    page = opened(endpoint.url)

    pools = page.locator(".pool")
    expect(pools).to_have_count(2)
    # 20475 MiB of the card − 355 of the driver − 9300 − 400 in use = 10420 MiB.
    expect(pools.nth(0)).to_contain_text("gpu-memory, of the cards")
    expect(pools.nth(0).locator(".big")).to_have_text("10.18 GiB free")
    expect(pools.nth(1)).to_contain_text("igpu-memory, shared by CPU and GPU")
    expect(row(page, "finetune-2").locator(".measure-label")).to_contain_text("9.08 GiB GPU · budget 12.00 GiB")
    expect(row(page, "llm-chat").locator(".measure-label")).to_contain_text("1.68 GiB GPU · budget 2.00 GiB")


def beside() -> Shown:
    """What is shown beside the sample."""
    finding = Finding(
        id="host-over-reserve",
        severity="error",
        certainty="suspected",
        subject=f"node {scenes.NODE}",
        summary="Processes outside pods hold more than is reserved for them.",
        evidence=("gnome-shell holds 910 MiB",),
        remedy="systemctl set-default multi-user.target\nreboot",
    )
    whole = scenes.healthy()
    assert whole.plan is not None
    reason = "Evicted: GPU memory 900 MiB exceeds the budget of 512 MiB."
    history = scenes.with_history(whole, lambda age: scenes.orin(held=scenes.with_use(llm=int((1000 + age) * MIB))), 60)
    return replace(
        history,
        plan=replace(whole.plan, findings=(finding,)),
        incidents=scenes.Incident(300, "ocr-batch", reason).lines(),
        vitals=scenes.VITALS,
        neighbours={scenes.LLM.uid: scenes.neighbour(scenes.LLM, cpu_throttled_ratio=0.11, io_stall_ratio=0.004)},
    )


def test_findings_decisions_vitals_neighbours_and_budgets_are_there(served: Server, opened: Opener) -> None:
    endpoint = served(beside())
    page = opened(endpoint.url)

    finding = page.locator(".finding")
    expect(finding).to_contain_text("error, suspected")
    expect(finding.locator("pre")).to_have_text("systemctl set-default multi-user.target\nreboot")
    finding.get_by_text("What was looked at").click()
    expect(finding.get_by_text("gnome-shell holds 910 MiB")).to_be_visible()
    expect(page.locator("#decisions")).to_contain_text("Evicted lab/ocr-batch 5 min ago")
    expect(page.locator("#decisions")).to_contain_text("Then: the API server accepted the eviction.")
    for text in ("MAXN_SUPER", "58 °C, gpu-thermal", "42 %", "Orin (nvgpu), ✓ ok"):
        expect(page.locator("#vitals")).to_contain_text(text)
    expect(row(page, "llm-chat")).to_contain_text("CPU throttled 11 %")
    expect(row(page, "llm-chat")).to_contain_text("stalled by disk 0.4 %")
    expect(page.locator("#budgets")).to_contain_text("edgeagent.dev/gpu-memory:")
    expect(page.locator("#footer-agent")).to_contain_text("configuration 5f2d1c9ab07e")


def vital(page: Page, name: str) -> Locator:
    return page.locator("#vitals-list > div").filter(has=page.get_by_text(name, exact=True)).locator("dd")


def test_whether_pods_can_use_the_gpu_is_there_with_the_reason(served: Server, opened: Opener) -> None:
    whole = scenes.healthy()
    assert whole.plan is not None
    endpoint = served(whole)
    page = opened(endpoint.url)
    expect(vital(page, "AI pods")).to_have_text(f"✓ can use the GPU. {whole.plan.gpu_path.why}")

    path = GpuPath(proven=False, why="config.toml names no NVIDIA runtime.")
    endpoint.show(replace(whole, plan=replace(whole.plan, gpu_path=path)))
    expect(vital(page, "AI pods")).to_have_text("▲ cannot use the GPU. config.toml names no NVIDIA runtime.")
    expect(vital(page, "AI pods")).to_have_attribute("data-level", "warning")

    endpoint.show(replace(whole, plan=replace(whole.plan, gpu_path=GpuPath(None, "config.toml is not readable."))))
    expect(vital(page, "AI pods")).to_have_text("? not proven. config.toml is not readable.")

    # An old sample tells nothing of it.
    endpoint.later(34)
    expect(vital(page, "AI pods")).to_have_count(0)


def test_the_lines_of_the_last_quarter_of_an_hour(served: Server, opened: Opener) -> None:
    endpoint = served(beside())
    page = opened(endpoint.url)
    line = row(page, "llm-chat").get_by_role("img", name=re.compile("GPU memory in the last 5 min"))

    # 60 points, from 295 s ago until now: 1000 + 295 MiB to 1000 MiB.
    expect(line).to_have_attribute("aria-label", re.compile("between 1000 MiB and 1.26 GiB"))
    path = line.locator(".line").get_attribute("d")

    assert path is not None
    xs = [float(x) for x in re.findall(r"[ML]([\d.]+) ", path)]
    # As much as is known takes the whole width, 300 units.
    assert xs[0] == pytest.approx(0, abs=3)
    assert xs[-1] == pytest.approx(300, abs=3)
    expect(page.locator("#pressure .axis")).to_have_text("5 min agonow")


def test_a_gap_in_the_history_interrupts_the_line(served: Server, opened: Opener) -> None:
    whole = beside()
    gap = tuple(one for index, one in enumerate(whole.trail) if not 20 <= index < 30)
    endpoint = served(replace(whole, trail=gap))
    page = opened(endpoint.url)
    line = row(page, "llm-chat").locator(".spark .line")
    expect(line).to_have_attribute("d", re.compile("L"))

    assert str(line.get_attribute("d")).count("M") == 2


def test_a_remedy_can_be_copied(served: Server, opened: Opener) -> None:
    endpoint = served(beside())
    page = opened(endpoint.url, permissions=["clipboard-read", "clipboard-write"])

    page.get_by_role("button", name="Copy what to do").click()

    expect(page.get_by_role("button", name="Copy what to do")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "systemctl set-default multi-user.target\nreboot"


def test_pods_without_gpu_memory_wait_behind_a_button(served: Server, opened: Opener) -> None:
    endpoint = served(scenes.healthy())
    page = opened(endpoint.url)
    expect(page.locator("li.pod")).to_have_count(4)

    page.get_by_role("button", name="Show 2 pods without GPU memory").click()

    expect(page.locator("li.pod")).to_have_count(6)


def test_a_part_of_the_bar_is_found_from_its_name(served: Server, opened: Opener) -> None:
    endpoint = served(scenes.healthy())
    page = opened(endpoint.url)
    button = page.get_by_role("button", name="vision/detector")

    button.click()

    expect(button).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".part:not([data-faded])")).to_have_count(2)


def test_a_full_node_does_not_slow_it_down(served: Server, opened: Opener) -> None:
    crowd = tuple(pod(f"worker-{number:03}", 16 * MIB, None, namespace="batch") for number in range(110))
    held = {one.name: Held(gpu=(10 + index % 5) * MIB) for index, one in enumerate(crowd)}
    endpoint = served(scenes.shown(scenes.planned(scenes.orin(crowd, held), 2)))
    page = opened(endpoint.url)
    expect(page.locator("li.pod")).to_have_count(110)

    spent = page.evaluate("() => { const begun = performance.now(); render(); return performance.now() - begun; }")

    # A second is what there is until the next one; a hundredth of that on a quick machine.
    assert spent < 500


def test_the_endpoint_tells_what_the_page_reads(served: Server, opened: Opener) -> None:
    """A key that the page needs and the endpoint does not have would read as unknown for ever."""
    endpoint = served(beside())
    page = opened(endpoint.url)
    expect(verdict(page)).to_be_visible()
    state = json.loads(page.evaluate("async () => (await fetch('/api/v1/state')).text()"))

    needed = set(re.findall(r"\bstate\.(\w+)", _script())) - {"old"}
    assert needed <= set(state), needed - set(state)


def _script() -> str:
    from edgeagent.serve import dashboard  # noqa: PLC0415

    found = dashboard.page("/dashboard.js")
    assert found is not None
    return found[1].decode()
