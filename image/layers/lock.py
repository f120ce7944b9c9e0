"""debian.lock: which Debian packages the image is made of, and from when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from layers.places import IMAGE

FILE = IMAGE / "debian.lock"
FORMAT = "%Y%m%dT%H%M%SZ"
"""That of snapshot.debian.org."""


@dataclass(frozen=True)
class Deb:
    """One package file: ``path`` below the archive ``debian`` or ``debian-security``."""

    arch: str
    archive: str
    path: str
    sha256: str


@dataclass(frozen=True)
class Lock:
    """All of debian.lock. ``mirrors`` are tried in order, with archive, date and path put in."""

    date: str
    mirrors: tuple[str, ...]
    debs: tuple[Deb, ...]

    @property
    def timestamp(self) -> int:
        """``date`` in seconds since 1970: the time of every file in the image."""
        return int(datetime.strptime(self.date, FORMAT).replace(tzinfo=timezone.utc).timestamp())

    def urls(self, deb: Deb) -> list[str]:
        """Where the package can be had; the last one is for when the first has moved on to a newer version."""
        return [mirror.format(archive=deb.archive, date=self.date, path=deb.path) for mirror in self.mirrors]


def read(file: Path = FILE) -> Lock:
    """The lock as it stands."""
    rows = [line.split() for line in file.read_text().splitlines() if line and not line.startswith("#")]
    (date,) = (row[1] for row in rows if row[0] == "date")
    mirrors = tuple(row[1] for row in rows if row[0] == "mirror")
    return Lock(date, mirrors, tuple(Deb(*row) for row in rows if row[0] not in ("date", "mirror")))
