"""Certificates and kubeconfig files, with the keys in files of their own so that tests can rotate them."""

from __future__ import annotations

import hashlib
import json
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trustme

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path


@dataclass(frozen=True)
class ClientFiles:
    """A client certificate on disk: PEM files ``cert`` and ``key``."""

    cert: Path
    key: Path

    @property
    def credential_id(self) -> str:
        """What the API server's audit log calls the certificate that is in the file now."""
        der = ssl.PEM_cert_to_DER_cert(self.cert.read_text())
        return f"X509SHA256={hashlib.sha256(der).hexdigest()}"


class Authority:
    """The cluster's certificate authority; every file it writes is below ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._ca = trustme.CA()
        self.folder = folder
        self.ca_file = folder / "ca.crt"
        folder.mkdir(parents=True)
        self._ca.cert_pem.write_to_path(str(self.ca_file))

    def client(self, name: str, user: str, group: str, *, not_after: datetime | None = None) -> ClientFiles:
        """Write a certificate for CN ``user``, O ``group``; the same ``name`` again rewrites its two files in place."""
        # Without a host name trustme leaves an empty critical extension, which Go refuses.
        leaf = self._ca.issue_cert("client.test", common_name=user, organization_name=group, not_after=not_after)
        return self._write(name, leaf)

    def server(self, name: str, *hosts: str) -> ClientFiles:
        """Write a certificate for a server reached by these names or addresses."""
        return self._write(name, self._ca.issue_cert(*hosts))

    def _write(self, name: str, leaf: trustme.LeafCert) -> ClientFiles:
        files = ClientFiles(cert=self.folder / f"{name}.crt", key=self.folder / f"{name}.key")
        files.key.touch(mode=0o600)
        leaf.private_key_pem.write_to_path(str(files.key))
        leaf.cert_chain_pems[0].write_to_path(str(files.cert))
        return files


def write_kubeconfig(path: Path, server: str, ca_file: Path, user: ClientFiles | str) -> Path:
    """Write a kubeconfig (JSON is YAML) for client certificate files, or a bearer token when ``user`` is a string."""
    if isinstance(user, str):
        who = {"token": user}
    else:
        who = {"client-certificate": str(user.cert), "client-key": str(user.key)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": str(ca_file)}}],
        "users": [{"name": "test", "user": who}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1))
    return path
