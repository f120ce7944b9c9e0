"""A real Kubernetes control plane on 127.0.0.1 for one test run: etcd, API server, scheduler, controllers."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import ssl
from contextlib import ExitStack, closing
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from kubernetes import client, config

from tests.controlplane import audit, build
from tests.controlplane.credentials import Authority, ClientFiles, write_kubeconfig
from tests.controlplane.processes import Daemon, free_port

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

TOKEN_NODE = "token-node"
"""The node whose credential is a static bearer token, see ``ControlPlane.token_kubeconfig``."""

_TOKEN = "a-token-for-tests-only"
# No kubelet heartbeat is needed for a day: a node made by hand stays Ready, whatever its Lease says.
_NODE_GRACE = ("--node-monitor-grace-period=24h", "--node-startup-grace-period=24h")


class ControlPlane:
    """The running control plane as a context manager; all its files are in ``folder``, and the logs stay there.

    Authorization is Node,RBAC with NodeRestriction. The ServiceAccount admission is off, so that a bare pod can be
    created in a new namespace at once and gets no token volume.
    """

    def __init__(self, folder: Path) -> None:
        """``folder`` must not exist or be empty.

        Raises:
            build.BuildError: the binaries are not there.
        """
        binaries = build.found()
        if not binaries:
            raise build.BuildError(f"no {', '.join(build.missing())} in {build.folder()}")
        self.folder = folder
        self.port = free_port()
        self.server = f"https://127.0.0.1:{self.port}"
        self._binaries = binaries
        self._authority = Authority(folder / "pki")
        self.ca_file = self._authority.ca_file
        self._log = audit.AuditLog(folder / "audit.log")
        self._clients = ExitStack()
        self._nodes: dict[tuple[str, str], ClientFiles] = {}
        self.admin_kubeconfig = self._kubeconfig("admin", "admin", "system:masters")
        self._etcd, etcd_url = self._make_etcd()
        self._apiserver = self._make_apiserver(etcd_url)
        self._controllers = self._make_controllers()
        self._scheduler = self._make_scheduler()
        self.api = self.core(self.admin_kubeconfig)

    def __enter__(self) -> Self:
        try:
            self._etcd.start()
            self.start_apiserver()
            self._scheduler.start()
            self._controllers.start()
            self._controllers.wait_ready(self._controllers_work)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._clients.close()
        for daemon in reversed(self.daemons):
            daemon.stop(signal.SIGKILL)
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    @property
    def daemons(self) -> tuple[Daemon, ...]:
        """All four processes, each with its log."""
        return self._etcd, self._apiserver, self._controllers, self._scheduler

    def start_apiserver(self) -> None:
        """Start the API server, always on the same port, and wait until it is ready."""
        self._apiserver.start()
        self._apiserver.wait_ready(self._is_ready)

    def stop_apiserver(self, sig: signal.Signals = signal.SIGTERM) -> None:
        """Stop the API server; SIGKILL cuts every connection at once, as a power failure does."""
        self._apiserver.stop(sig)
        self._log.server_ended()

    def restart_controllers(self) -> None:
        """Start scheduler and controllers anew: after a long outage they take minutes to notice that it is over."""
        for daemon in (self._scheduler, self._controllers):
            daemon.stop(signal.SIGKILL)
            daemon.start()

    def binary(self, name: str) -> Path:
        """Path of one of the built programs, such as the kubelet."""
        return self._binaries / name

    def core(self, kubeconfig: Path) -> Any:
        """A ``CoreV1Api`` of the official client, an observer that shares nothing with the agent's own one.

        Typed Any: its models declare every field optional, metadata and status too.
        """
        api_client = config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
        self._clients.callback(api_client.rest_client.pool_manager.clear)
        return client.CoreV1Api(api_client)

    def node_kubeconfig(self, node: str, holder: str = "agent") -> Path:
        """A kubeconfig for ``system:node:<node>``, with a certificate of its own for each holder (agent, kubelet)."""
        if (node, holder) not in self._nodes:
            self.renew_node_certificate(node, holder)
        return self._write_kubeconfig(f"{node}-{holder}", self._nodes[node, holder])

    def renew_node_certificate(self, node: str, holder: str = "agent", *, not_after: datetime | None = None) -> str:
        """Write a new certificate and key over the old ones, as K3s does; returns its credential id."""
        files = self._authority.client(f"{node}-{holder}", f"system:node:{node}", "system:nodes", not_after=not_after)
        self._nodes[node, holder] = files
        return files.credential_id

    def credential_id(self, node: str, holder: str = "agent") -> str:
        """What ``Request.credential`` shows for the certificate that this node's kubeconfig names now."""
        return self._nodes[node, holder].credential_id

    def token_kubeconfig(self) -> Path:
        """A kubeconfig with a bearer token instead of a certificate, for the node ``TOKEN_NODE``."""
        return self._write_kubeconfig(TOKEN_NODE, _TOKEN)

    def audit(
        self,
        *,
        user: str | None = None,
        credential: str | None = None,
        verb: str | Collection[str] | None = None,
        resource: str | None = None,
        since: datetime | None = None,
    ) -> list[audit.Request]:
        """The requests that match all that is given, in order; whatever was answered before this call is among them.

        ``verb`` is one or several, such as ``audit.WRITES``; ``resource`` has its subresource, as in ``nodes/status``.
        """
        found = self._log.read()
        return audit.select(found, user=user, credential=credential, verb=verb, resource=resource, since=since)

    def _is_ready(self) -> bool:
        context = ssl.create_default_context(cafile=str(self.ca_file))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=1)
        with closing(connection):
            try:
                connection.request("GET", "/readyz")
                return connection.getresponse().status == HTTPStatus.OK
            except OSError:  # refused, reset or out of time: not ready yet
                return False

    def _controllers_work(self) -> bool:
        accounts = self.api.list_namespaced_service_account("default").items
        return any(account.metadata.name == "default" for account in accounts)

    def _kubeconfig(self, name: str, user: str, group: str) -> Path:
        return self._write_kubeconfig(name, self._authority.client(name, user, group))

    def _write_kubeconfig(self, name: str, user: ClientFiles | str) -> Path:
        return write_kubeconfig(self.folder / f"{name}.kubeconfig", self.server, self.ca_file, user)

    def _daemon(self, name: str, *flags: str) -> Daemon:
        return Daemon(name, [self.binary(name), *flags], self.folder / f"{name}.log")

    def _make_etcd(self) -> tuple[Daemon, str]:
        clients, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        etcd = self._daemon(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        return etcd, clients

    def _make_apiserver(self, etcd_url: str) -> Daemon:
        serving = self._authority.server("apiserver", "127.0.0.1", "localhost")
        # Its key signs service account tokens too; nothing in a test depends on the two being apart.
        account_key = serving.key
        to_kubelets = self._authority.client("apiserver-kubelets", "apiserver", "system:masters")
        policy, tokens = self.folder / "audit-policy.json", self.folder / "tokens.csv"
        policy.write_text(json.dumps(audit.POLICY))
        tokens.write_text(f'{_TOKEN},system:node:{TOKEN_NODE},uid-{TOKEN_NODE},"system:nodes"\n')
        return self._daemon(
            "kube-apiserver",
            f"--etcd-servers={etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--tls-cert-file={serving.cert}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={self.ca_file}",
            f"--token-auth-file={tokens}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-client-certificate={to_kubelets.cert}",
            f"--kubelet-client-key={to_kubelets.key}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--disable-admission-plugins=ServiceAccount",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={account_key}",
            f"--service-account-signing-key-file={account_key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            "--allow-privileged=true",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self.folder / 'audit.log'}",
            "--audit-log-mode=blocking",
            "--audit-log-maxsize=10000",
            # On SIGTERM, end open watches too: without these two they hold the server for a minute.
            "--shutdown-send-retry-after=true",
            "--shutdown-watch-termination-grace-period=1s",
        )

    def _make_controllers(self) -> Daemon:
        name = "kube-controller-manager"
        kubeconfig = self._kubeconfig(name, f"system:{name}", "components")
        return self._daemon(
            name,
            *_kubeconfig_flags(kubeconfig),
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self._authority.folder / 'apiserver.key'}",
            *_NODE_GRACE,
            # The default of 20 a second makes the start of all controllers take five seconds.
            "--kube-api-qps=1000",
            "--kube-api-burst=1000",
        )

    def _make_scheduler(self) -> Daemon:
        name = "kube-scheduler"
        return self._daemon(name, *_kubeconfig_flags(self._kubeconfig(name, f"system:{name}", "components")))


def _kubeconfig_flags(kubeconfig: Path) -> list[str]:
    flags = [f"--{use}kubeconfig={kubeconfig}" for use in ("", "authentication-", "authorization-")]
    return [*flags, "--leader-elect=false", "--secure-port=0"]
