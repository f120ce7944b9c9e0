"""Where the agent's identity comes from, read again whenever its files change.

In order: an explicit kubeconfig (argument or ``KUBECONFIG``), the service account of a pod,
the kubelet's kubeconfig that the K3s agent keeps. K3s renews certificates in place and the
kubelet swaps token files through a link, so nothing read is kept for the life of the process.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgeagent.cluster import kubeconfig
from edgeagent.cluster.access import Access, Tls, read_token
from edgeagent.errors import NoCredentialsError, NothingFoundError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
KUBELET_KUBECONFIG = "agent/kubelet.kubeconfig"
"""The kubelet's own credential, below K3s' data directory."""
_Stamp = tuple[tuple[int, int, int, int] | None, ...]


class Credentials:
    """The agent's access to the API server.

    Args:
        explicit: kubeconfig path given by the operator; overrules ``KUBECONFIG``. With either,
            nothing else is tried.
        environ: the process environment.
        service_account: folder of the projected token and CA.
        k3s: kubeconfig of the K3s agent's kubelet.
        root: host root below which ``k3s`` lies, and the absolute paths inside any kubeconfig that is below it.
    """

    def __init__(
        self,
        explicit: Path | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
        service_account: Path = SERVICE_ACCOUNT,
        k3s: Path | None = Path("/var/lib/rancher/k3s", KUBELET_KUBECONFIG),
        root: Path = Path("/"),
    ) -> None:
        self.problem = ""
        """Why the files, as they are now, could not be read; what was read before stays in use."""
        listed = environ.get("KUBECONFIG", "").split(":")
        self._explicit = [explicit] if explicit else [Path(part) for part in listed if part]
        self._environ = environ
        self._service_account = service_account
        self._k3s = root / k3s.relative_to("/") if k3s else None
        self._root = root
        self._access: Access | None = None
        self._stamp: _Stamp = ()
        self._lock = asyncio.Lock()

    @property
    def identity(self) -> str:
        """Path of the kubeconfig or ``service account``; empty until one was found."""
        return self._access.identity if self._access else ""

    async def access(self) -> Access:
        """The access as the files now are.

        Raises:
            NothingFoundError: none are there. A later call may succeed.
            NoCredentialsError: what was given or found cannot be used. A later call may succeed.
        """
        return await self._read(again=False)

    async def reread(self) -> Access:
        """The access, read anew even if no file seems to have changed: after a 401.

        Raises:
            NoCredentialsError: as ``access``.
        """
        return await self._read(again=True)

    async def _read(self, *, again: bool) -> Access:
        async with self._lock:
            return await asyncio.to_thread(self._refresh, again=again)

    def _refresh(self, *, again: bool) -> Access:
        if self._access is not None and not again and _stamp(self._access.files) == self._stamp:
            return self._access
        known = self._access.files if self._access else ()
        # Stamped before reading, so that a change in between is seen at the next call. The first
        # reading has no list of files to stamp, and is made once more.
        before = _stamp(known)
        try:
            access = self._load()
        except NoCredentialsError as error:
            if self._access is None:
                raise
            # Half-written or swapped away at this moment: the old stamp stays, so the next call reads again.
            self.problem = str(error)
            return self._access
        self.problem = ""
        self._access, self._stamp = access, before
        return access

    def _load(self) -> Access:
        if self._explicit:
            # A file of the host's, seen from a pod, names its certificates as the host does.
            below = all(path.is_relative_to(self._root) for path in self._explicit)
            return kubeconfig.load(self._explicit, self._access, self._root if below else Path("/"))
        if self._environ.get("KUBERNETES_SERVICE_HOST") and (self._service_account / "token").exists():
            return self._in_cluster()
        if self._k3s is not None and kubeconfig.there(self._k3s):
            return kubeconfig.load([self._k3s], self._access, self._root)
        raise NothingFoundError("no kubeconfig, no service account and no K3s agent were found")

    def _in_cluster(self) -> Access:
        host = self._environ["KUBERNETES_SERVICE_HOST"]
        port = self._environ.get("KUBERNETES_SERVICE_PORT", "443")
        token_file, ca_file = self._service_account / "token", self._service_account / "ca.crt"
        try:
            return Access(
                server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
                identity="service account",
                token=read_token(token_file, self._access.token if self._access else None),
                tls=Tls(ca=ca_file).context(),
                files=(token_file, ca_file),
            )
        except (OSError, UnicodeDecodeError, ssl.SSLError) as error:
            raise NoCredentialsError(f"{self._service_account} cannot be used: {error}") from error


def _stamp(files: Sequence[Path]) -> _Stamp:
    """What changes when a file is rewritten in place, replaced, or reached through another link."""
    return tuple(_stamp_of(file) for file in files)


def _stamp_of(file: Path) -> tuple[int, int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
