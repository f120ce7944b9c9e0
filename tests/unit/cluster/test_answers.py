"""What an error answer says goes everywhere, so it is short and text wherever it comes from."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edgeagent.cluster.answers import LONGEST_MESSAGE, answer_error, status_error


def status(**fields: Any) -> bytes:
    return json.dumps({"kind": "Status", **fields}).encode()


@pytest.mark.parametrize(
    "body",
    [status(message="é" * 200_000), "é".encode() * 200_000, b"\xff" * 200_000],
    ids=["status", "text", "no text"],
)
def test_words_without_end_are_cut_and_say_so(body: bytes) -> None:
    message = answer_error(403, {}, body).message
    assert (len(message), message[-1]) == (LONGEST_MESSAGE, "…")


def test_words_of_a_usual_length_are_left_alone() -> None:
    assert answer_error(403, {}, status(message="é" * LONGEST_MESSAGE)).message == "é" * LONGEST_MESSAGE
    assert answer_error(502, {}, b"bad gateway").message == "bad gateway"


def test_a_reason_and_causes_are_cut_too() -> None:
    long = "x" * 200_000
    error = status_error({"reason": long, "details": {"causes": [{"reason": long}, {"reason": "DisruptionBudget"}]}})
    assert len(error.reason) == len(error.causes[0]) == LONGEST_MESSAGE
    assert error.causes[1] == "DisruptionBudget"


def test_half_of_a_surrogate_pair_is_no_text_and_can_be_sent_nowhere() -> None:
    assert answer_error(403, {}, b'{"kind": "Status", "message": "a\\ud800b"}').message == "a?b"


def test_the_refusal_of_an_authorizer_is_known_for_the_longest_names_there_are() -> None:
    """A pod of 253 characters, and a service account of 63 and 253."""
    user = f"system:serviceaccount:{'n' * 63}:{'a' * 253}"
    said = f'pods "{"p" * 253}" is forbidden: User "{user}" cannot create resource "pods/eviction" in API group ""'
    assert 'cannot create resource "pods/eviction"' in answer_error(403, {}, status(message=said)).message
