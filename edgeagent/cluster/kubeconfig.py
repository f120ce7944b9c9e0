"""Kubeconfig files: current context, client certificates, tokens. Blocking; plug-ins are refused with a reason."""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from edgeagent.cluster.access import Access, Tls, check_token, read_token
from edgeagent.errors import NoCredentialsError

_LISTS = {"clusters": "cluster", "contexts": "context", "users": "user"}
_PLUGINS = ("exec", "auth-provider")


@dataclass(frozen=True, slots=True)
class _Entry:
    """A named entry and the file it stands in, which its relative paths start from."""

    values: Mapping[str, Any]
    file: Path
    root: Path

    def path(self, key: str) -> Path | None:
        text = self.values.get(key)
        if not text:
            return None
        given = Path(str(text))
        return self.root / given.relative_to("/") if given.is_absolute() else self.file.parent / given

    def data(self, key: str) -> Path | bytes | None:
        """Inline data wins over the file of the same name, as kubectl has it."""
        inline = self.values.get(f"{key}-data")
        if not inline:
            return self.path(key)
        try:
            return base64.b64decode(str(inline), validate=True)
        except binascii.Error as error:
            raise NoCredentialsError(f"{self.file}: {key}-data is not base64") from error


def load(paths: Sequence[Path], last: Access | None = None, root: Path = Path("/")) -> Access:
    """The access that the current context of ``paths`` describes; of equal names the first file's counts.

    ``last`` is what was read before: its token stays while a token file is empty. Absolute
    paths inside the files are taken below ``root``.

    Raises:
        NoCredentialsError: no such file, not a kubeconfig, or credentials of a kind an agent cannot use.
    """
    present = [path for path in paths if there(path)]
    if not present:
        raise NoCredentialsError(f"there is no kubeconfig at {', '.join(map(str, paths))}")
    identity = ":".join(map(str, present))
    try:
        return _access(present, last, root, identity)
    # The last three: YAML of any shape, half-written perhaps, such as a number where a list belongs.
    except (OSError, ssl.SSLError, yaml.YAMLError, RecursionError, TypeError, ValueError) as error:
        raise NoCredentialsError(f"{identity} cannot be used: {error}") from error


def there(path: Path) -> bool:
    """Whether it is a file, or something below a folder that may not be looked into: reading it then says why not."""
    try:
        return path.is_file()
    except OSError:
        return True


def _access(paths: Sequence[Path], last: Access | None, root: Path, identity: str) -> Access:
    named, current = _merged(paths, root)
    context = _entry(named, "contexts", current, identity)
    cluster = _entry(named, "clusters", str(context.values.get("cluster") or ""), identity)
    user_name = context.values.get("user")
    user = _entry(named, "users", str(user_name), identity) if user_name else _Entry({}, cluster.file, root)
    _refuse_plugins(user, str(user_name))
    server = str(cluster.values.get("server") or "").rstrip("/")
    if urlsplit(server).scheme not in ("http", "https"):
        raise NoCredentialsError(f"{cluster.file}: the server {server!r} is not an http or https URL")
    token_file = user.path("tokenFile")
    tls = Tls(
        ca=cluster.data("certificate-authority"),
        certificate=user.data("client-certificate"),
        key=user.data("client-key"),
        insecure=bool(cluster.values.get("insecure-skip-tls-verify")),
    )
    return Access(
        server=server,
        identity=identity,
        token=_token(user, token_file, last.token if last else None),
        tls=tls.context() if server.startswith("https:") else None,
        server_name=_text(cluster, "tls-server-name"),
        proxy=_text(cluster, "proxy-url"),
        files=(*paths, *tls.files, *([token_file] if token_file else [])),
    )


def _text(entry: _Entry, key: str) -> str | None:
    given = entry.values.get(key)
    return str(given) if given else None


def _token(user: _Entry, token_file: Path | None, last: str | None) -> str | None:
    if token_file:
        return read_token(token_file, last)
    given = user.values.get("token")
    return check_token(str(given), f"token in {user.file}") if given else None


def _refuse_plugins(user: _Entry, name: str) -> None:
    for plugin in _PLUGINS:
        if user.values.get(plugin):
            raise NoCredentialsError(
                f"{user.file}: user {name!r} signs in through {plugin!r}, which needs a program and a person; "
                "give the agent a token, a token file or a client certificate"
            )


def _merged(paths: Sequence[Path], root: Path) -> tuple[dict[str, dict[str, _Entry]], str]:
    named: dict[str, dict[str, _Entry]] = {key: {} for key in _LISTS}
    current = ""
    for path in paths:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(document, Mapping):
            raise NoCredentialsError(f"{path} is not a kubeconfig")
        current = current or str(document.get("current-context") or "")
        for plural, singular in _LISTS.items():
            for item in document.get(plural) or ():
                values = item.get(singular) if isinstance(item, Mapping) else None
                if not isinstance(values, Mapping):
                    raise NoCredentialsError(f"{path}: an entry of {plural!r} is not a named {singular}")
                named[plural].setdefault(str(item.get("name")), _Entry(values, path, root))
    return named, current


def _entry(named: Mapping[str, Mapping[str, _Entry]], plural: str, name: str, identity: str) -> _Entry:
    if not name:
        raise NoCredentialsError(f"{identity} does not say which {_LISTS[plural]} to use")
    if name not in named[plural]:
        raise NoCredentialsError(f"{identity}: there is no {_LISTS[plural]} {name!r}")
    return named[plural][name]
