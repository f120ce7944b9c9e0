from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent import quantity


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1073741824", 1_073_741_824),
        ("2Gi", 2 * 2**30),
        ("512Mi", 512 * 2**20),
        ("1G", 10**9),  # decimal: not 2**30
        ("512M", 512 * 10**6),
        ("0.5Gi", 2**29),
        ("1.5Gi", 3 * 2**29),
        (".5Ki", 512),
        ("7802368Ki", 7_802_368 * 1024),
        ("1e4", 10_000),
        ("1E3", 1_000),  # an exponent …
        ("1E", 10**18),  # … and the suffix exa
        ("1Ei", 2**60),
        ("128974848000m", 128_974_848),
        ("1500m", 2),  # a fraction of a byte is rounded up
        ("1n", 1),
        ("0", 0),
        ("-1", -1),
        ("+5", 5),
        (17, 17),
        (1.5, 2),
    ],
)
def test_parse(text: str | float, amount: int) -> None:
    assert quantity.parse(text) == amount


@pytest.mark.parametrize(
    "text", ["", " ", "2 Gi", "2gi", "2GI", "8K", "Gi", "1.2.3", "0x10", "2Gi\n", "٣", "NaN", "6%", "1e", "--1"]
)
def test_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity.parse(text)


@pytest.mark.parametrize(
    ("text", "of", "amount"),
    [
        ("6%", 1000, 60),
        ("6%", 1001, 61),  # 60.06 is rounded up
        ("2.5%", 1000, 25),
        ("0%", 1000, 0),
        ("100%", 7, 7),
        # 6 % of 7 802 368 KiB = 7 989 624 832 B: 479 377 489.92, rounded up
        ("6%", 7_802_368 * 1024, 479_377_490),
    ],
)
def test_percent_is_rounded_up(text: str, of: int, amount: int) -> None:
    assert quantity.percent(text, of) == amount


@pytest.mark.parametrize("text", ["101%", "-1%", "%", "6", "6 %", "1e1%"])
def test_no_percentage(text: str) -> None:
    with pytest.raises(ValueError, match="is not a percentage"):
        quantity.percent(text, 1000)


def test_size_takes_both() -> None:
    assert quantity.size("10%", 200) == 20
    assert quantity.size("10Ki", 200) == 10_240


def test_published_as_whole_mib() -> None:
    # 6083 MiB and 1023 KiB: the part below a MiB is dropped
    amount = 6083 * 2**20 + 1023 * 1024
    assert quantity.floor_mib(amount) == 6083 * 2**20
    assert quantity.ceil_mib(amount) == 6084 * 2**20
    assert quantity.ceil_mib(6083 * 2**20) == 6083 * 2**20
    assert quantity.mib(6083 * 2**20) == "6083Mi"


def test_for_people() -> None:
    assert quantity.human(None) == "unknown"
    assert quantity.human(0) == "0 MiB"
    assert quantity.human(512 * 2**20) == "512 MiB"
    # 2.05 × 2^30 = 2 201 170 739.2
    assert quantity.human(2_201_170_739) == "2.05 GiB"


@given(st.integers(min_value=0, max_value=2**62))
def test_mib_is_within_one_mib(amount: int) -> None:
    low, high = quantity.floor_mib(amount), quantity.ceil_mib(amount)
    assert low <= amount <= high
    assert high - low in (0, 2**20)
    assert quantity.parse(quantity.mib(low)) == low


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("6144Mi", "6Gi", True),  # 6144 / 1024
        ("1000", "1k", True),
        ("5827Mi", "5826Mi", False),
        ("0", None, False),
        (None, None, True),
        ("much", "much", True),
        ("much", "1", False),
    ],
)
def test_quantities_are_compared_as_numbers(one: str | None, other: str | None, same: bool) -> None:  # noqa: FBT001
    assert quantity.equal(one, other) is same
    assert quantity.equal(other, one) is same
