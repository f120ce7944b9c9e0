"""What is told of something wrong: a finding, as it crosses from those who look to those who show and act."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]
Certainty = Literal["certain", "suspected", "cannot-tell"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something wrong, with what was looked at and what to do."""

    id: str
    severity: Severity
    certainty: Certainty
    subject: str
    """``pod ns/name``, ``node name``, ``pool key`` …"""
    summary: str
    evidence: tuple[str, ...] = ()
    remedy: str = ""
    event: str = ""
    """Reason of the event that tells of it, at the pod or node that it is about; empty: none does."""
    uid: str = ""
    """Of the pod that it is about."""
    condition: str = ""
    """Reason that ``GPURuntimeMisconfigured`` gets by it; empty: it says nothing of the runtime."""
    right: str = ""
    """The right that is missing, where that alone keeps from an answer; empty: it is not for want of one."""
