"""Credentials, found and used as kubectl does, by the official client."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kubernetes import client, config

from edgeagent.errors import InputError
from edgeagent.fleet.api import Api
from edgeagent.fleet.words import one_line

_USUAL = Path("~/.kube/config")


def connect(kubeconfig: Path | None, context: str | None, environment: Mapping[str, str]) -> Api:
    """An API server to ask: of the kubeconfig, else of the pod that this runs in.

    Raises:
        InputError: there are no usable credentials.
    """
    settings = client.Configuration()
    files = _files(kubeconfig, environment)
    if files is None and (context is not None or "KUBERNETES_SERVICE_HOST" not in environment):
        raise InputError(f"no kubeconfig: give one with --kubeconfig or $KUBECONFIG, or write {_USUAL}")
    with _failures() as failures:
        try:
            _load(settings, files, context)
        except Exception as error:  # the client tells a malformed file by whatever it trips over
            raise InputError(f"{files or 'the service account'}: {one_line(error)}") from error
    if failures:
        raise InputError(f"{files}: the login failed: {'; '.join(failures)}")
    # A connection that the server has closed meanwhile is opened anew once; nothing that writes is sent twice.
    settings.retries = 1
    return Api(client.ApiClient(settings))


def _load(settings: client.Configuration, files: str | None, context: str | None) -> None:
    if files is None:
        config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
    else:
        config.load_kube_config(config_file=files, context=context, client_configuration=settings)  # type: ignore[no-untyped-call]


def _files(kubeconfig: Path | None, environment: Mapping[str, str]) -> str | None:
    """Names of files as $KUBECONFIG has them; None: there is none.

    Raises:
        InputError: one that was asked for is not there.
    """
    if kubeconfig is not None:
        if not kubeconfig.is_file():
            raise InputError(f"{kubeconfig}: is no file")
        return str(kubeconfig)
    named = environment.get("KUBECONFIG")
    if named:
        if not any(Path(name).expanduser().is_file() for name in named.split(os.pathsep) if name):
            raise InputError(f"$KUBECONFIG: {named}: is no file")
        return named
    usual = _USUAL.expanduser()
    return str(usual) if usual.is_file() else None


@contextmanager
def _failures() -> Iterator[list[str]]:
    """What the client logs while it loads: of a login program that failed it says so there alone, and goes on."""
    found: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(one_line(record.getMessage()))

    handler = Kept(logging.ERROR)
    logging.getLogger().addHandler(handler)
    try:
        yield found
    finally:
        logging.getLogger().removeHandler(handler)
