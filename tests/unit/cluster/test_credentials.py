"""Which credentials are found, in which order, what is refused and what is read again."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
import trustme

from edgeagent.cluster import kubeconfig
from edgeagent.cluster.credentials import Credentials
from edgeagent.errors import NoCredentialsError

AUTHORITY = trustme.CA()
CA_PEM = AUTHORITY.cert_pem.bytes()


def write(path: Path, *, cluster: Any = None, user: Any = None, **more: Any) -> Path:
    document = {
        "current-context": "edge",
        "contexts": [{"name": "edge", "context": {"cluster": "edge", "user": "agent"}}],
        "clusters": [{"name": "edge", "cluster": {"server": "http://127.0.0.1:6444", **(cluster or {})}}],
        "users": [{"name": "agent", "user": user or {}}],
        **more,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def service_account(folder: Path, token: str = "sa-token") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_bytes(CA_PEM)
    return folder


IN_POD = {"KUBERNETES_SERVICE_HOST": "10.43.0.1", "KUBERNETES_SERVICE_PORT": "443"}


# --- order


async def test_explicit_path_wins_over_all(tmp_path: Path) -> None:
    given = write(tmp_path / "given", user={"token": "given"})
    other = write(tmp_path / "other", user={"token": "other"})
    environ = {"KUBECONFIG": str(other), **IN_POD}
    credentials = Credentials(given, environ=environ, service_account=service_account(tmp_path / "sa"))
    assert credentials.identity == ""
    access = await credentials.access()
    assert (access.token, access.identity) == ("given", str(given))
    assert credentials.identity == str(given)


async def test_explicit_path_that_is_missing_is_not_replaced_by_something_else(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path / "late", environ=IN_POD, service_account=service_account(tmp_path / "sa"))
    with pytest.raises(NoCredentialsError, match="late"):
        await credentials.access()
    write(tmp_path / "late", user={"token": "late"})
    assert (await credentials.access()).token == "late"


async def test_service_account_comes_before_k3s(tmp_path: Path) -> None:
    write(tmp_path / "k3s.kubeconfig", user={"token": "kubelet"})
    folder = service_account(tmp_path / "sa", "sa-token\n")
    credentials = Credentials(environ=IN_POD, service_account=folder, k3s=Path("/k3s.kubeconfig"), root=tmp_path)
    access = await credentials.access()
    assert (access.server, access.token, access.identity) == ("https://10.43.0.1:443", "sa-token", "service account")
    assert access.tls is not None


async def test_service_account_behind_an_ipv6_address(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    access = await Credentials(environ=environ, service_account=service_account(tmp_path)).access()
    assert access.server == "https://[fd00::1]:6443"


async def test_pod_without_a_token_goes_on_to_k3s(tmp_path: Path) -> None:
    write(tmp_path / "k3s.kubeconfig", user={"token": "kubelet"})
    credentials = Credentials(
        environ=IN_POD, service_account=tmp_path / "nothing", k3s=Path("/k3s.kubeconfig"), root=tmp_path
    )
    assert (await credentials.access()).token == "kubelet"


async def test_nothing_now_and_k3s_later(tmp_path: Path) -> None:
    credentials = Credentials(
        environ={}, service_account=tmp_path / "sa", k3s=Path("/data/agent/kubelet.kubeconfig"), root=tmp_path
    )
    with pytest.raises(NoCredentialsError):
        await credentials.access()
    # K3s writes absolute paths, which lie below the host's root like the file itself.
    (tmp_path / "data" / "agent").mkdir(parents=True)
    (tmp_path / "data" / "agent" / "token").write_text("kubelet")
    path = write(tmp_path / "data/agent/kubelet.kubeconfig", user={"tokenFile": "/data/agent/token"})
    access = await credentials.access()
    assert (access.token, access.identity) == ("kubelet", str(path))


async def test_a_named_kubeconfig_of_the_host_names_its_files_as_the_host_does(tmp_path: Path) -> None:
    """As a pod sees it: the file is given below the host's root, and one elsewhere means its paths as they are."""
    root = tmp_path / "host"
    (root / "data").mkdir(parents=True)
    (root / "data/token").write_text("kubelet")
    inside = write(root / "kubeconfig", user={"tokenFile": "/data/token"})
    assert (await Credentials(inside, root=root).access()).token == "kubelet"
    outside = write(tmp_path / "kubeconfig", user={"tokenFile": str(root / "data/token")})
    assert (await Credentials(outside, root=root).access()).token == "kubelet"


async def test_kubeconfig_variable_lists_files_of_which_the_first_counts(tmp_path: Path) -> None:
    first = write(tmp_path / "first", user={"token": "first"}, clusters=[])
    second = write(tmp_path / "second", user={"token": "second"}, cluster={"server": "http://127.0.0.1:1/base/"})
    environ = {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"}
    access = await Credentials(environ=environ).access()
    assert (access.server, access.token) == ("http://127.0.0.1:1/base", "first")
    assert access.identity == f"{first}:{second}"


# --- what a kubeconfig says


def test_inline_data_wins_over_files_and_never_reaches_the_disk(tmp_path: Path) -> None:
    certificate = AUTHORITY.issue_cert("agent")
    pem = certificate.cert_chain_pems[0].bytes()
    path = write(
        tmp_path / "config",
        cluster={
            "server": "https://127.0.0.1:6444",
            "certificate-authority": "missing.crt",
            "certificate-authority-data": base64.b64encode(CA_PEM).decode(),
            "tls-server-name": "kubernetes.default",
            "proxy-url": "http://127.0.0.1:3128",
        },
        user={
            "client-certificate": "missing.crt",
            "client-certificate-data": base64.b64encode(pem).decode(),
            "client-key-data": base64.b64encode(certificate.private_key_pem.bytes()).decode(),
        },
    )
    access = kubeconfig.load([path])
    assert access.tls is not None
    assert len(access.tls.get_ca_certs()) == 1
    assert (access.server_name, access.proxy) == ("kubernetes.default", "http://127.0.0.1:3128")
    assert access.files == (path,)
    assert list(tmp_path.iterdir()) == [path]


def test_relative_paths_start_at_the_kubeconfig(tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    path = write(
        folder / "config",
        cluster={"server": "https://127.0.0.1:6444", "certificate-authority": "ca.crt"},
        user={"tokenFile": "../token"},
    )
    (folder / "ca.crt").write_bytes(CA_PEM)
    (tmp_path / "token").write_text("t")
    access = kubeconfig.load([path])
    assert access.token == "t"
    assert access.files == (path, folder / "ca.crt", folder / "../token")


def test_token_file_wins_over_a_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("file")
    assert kubeconfig.load([write(tmp_path / "c", user={"token": "inline", "tokenFile": "token"})]).token == "file"


def test_context_without_a_user_is_anonymous(tmp_path: Path) -> None:
    path = write(tmp_path / "c", contexts=[{"name": "edge", "context": {"cluster": "edge"}}])
    assert kubeconfig.load([path]).token is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"user": {"exec": {"command": "aws"}}}, "'exec', which needs a program"),
        ({"user": {"auth-provider": {"name": "oidc"}}}, "'auth-provider', which needs"),
        ({"user": {"token": "two words"}}, "does not hold a bearer token"),
        ({"user": {"token": "line\nbreak"}}, "does not hold a bearer token"),
        ({"user": {"tokenFile": "missing"}}, "missing"),
        ({"user": {"client-certificate-data": "!"}, "cluster": {"server": "https://x"}}, "is not base64"),
        (
            {"user": {"client-certificate-data": "AAAA"}, "cluster": {"server": "https://x"}},
            "cannot be used",
        ),
        ({"cluster": {"server": "https://x", "certificate-authority": "missing"}}, "cannot be used"),
        ({"cluster": {"server": "https://x", "certificate-authority-data": "AAAA"}}, "cannot be used"),
        ({"cluster": {"server": "127.0.0.1:6443"}}, "not an http or https URL"),
        ({"current-context": ""}, "does not say which context"),
        ({"current-context": "other"}, "no context 'other'"),
        ({"contexts": [{"name": "edge", "context": {"cluster": "gone"}}]}, "no cluster 'gone'"),
        ({"contexts": [{"name": "edge", "context": {}}]}, "does not say which cluster"),
        ({"users": ["agent"]}, "an entry of 'users'"),
        ({"users": []}, "no user 'agent'"),
        ({"contexts": 5}, "cannot be used"),
        ({"cluster": {"server": "https://[::1"}}, "cannot be used"),
        ({"cluster": {"server": "https://x", "certificate-authority": "a\0b"}}, "cannot be used"),
    ],
)
def test_kubeconfig_that_cannot_be_used_says_why(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "config", **change)
    with pytest.raises(NoCredentialsError, match=message):
        kubeconfig.load([path])


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "{", "\x00", "clusters: [1", "a: 2026-13-45", "[" * 5000])
def test_file_that_is_no_kubeconfig(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(NoCredentialsError, match="config"):
        kubeconfig.load([tmp_path / "config"])


# --- read again


async def test_unchanged_files_are_not_read_again(tmp_path: Path) -> None:
    credentials = Credentials(write(tmp_path / "c", user={"token": "A"}), environ={})
    await credentials.access()
    settled = await credentials.access()
    assert await credentials.access() is settled
    assert await credentials.reread() is not settled


async def test_file_replaced_within_the_same_second_and_of_the_same_size(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("A")
    credentials = Credentials(write(tmp_path / "c", user={"tokenFile": "token"}), environ={})
    await credentials.access()
    await credentials.access()
    when = token.stat()
    (tmp_path / "new").write_text("B")
    os.utime(tmp_path / "new", ns=(when.st_atime_ns, when.st_mtime_ns))
    (tmp_path / "new").rename(token)  # only the inode tells
    assert (await credentials.access()).token == "B"


async def test_empty_token_file_keeps_the_last_token(tmp_path: Path) -> None:
    folder = service_account(tmp_path, "A")
    credentials = Credentials(environ=IN_POD, service_account=folder)
    await credentials.access()
    (folder / "token").write_text("")
    assert (await credentials.access()).token == "A"
    assert (await credentials.reread()).token == "A"
    (folder / "token").write_text("B")
    assert (await credentials.access()).token == "B"


async def test_token_file_empty_from_the_start(tmp_path: Path) -> None:
    credentials = Credentials(environ=IN_POD, service_account=service_account(tmp_path, ""))
    with pytest.raises(NoCredentialsError, match="is empty"):
        await credentials.access()


async def test_half_written_files_leave_the_last_access_in_use(tmp_path: Path) -> None:
    path = write(tmp_path / "c", user={"token": "A"})
    credentials = Credentials(path, environ={})
    await credentials.access()
    whole = path.read_text()
    path.write_text(whole[: len(whole) // 2])
    assert (await credentials.access()).token == "A"
    assert str(path) in credentials.problem
    path.unlink()
    assert (await credentials.access()).token == "A"
    path.write_text(whole.replace('"A"', '"B"'))
    assert (await credentials.access()).token == "B"
    assert credentials.problem == ""


async def test_renewed_authority_makes_a_new_context(tmp_path: Path) -> None:
    folder = service_account(tmp_path)
    credentials = Credentials(environ=IN_POD, service_account=folder)
    await credentials.access()
    before = await credentials.access()
    (folder / "ca.crt").write_bytes(trustme.CA().cert_pem.bytes())
    after = await credentials.access()
    assert before.tls is not None
    assert after.tls is not None
    assert before.tls.get_ca_certs() != after.tls.get_ca_certs()


def test_a_path_that_cannot_even_be_looked_at_is_one_more_that_cannot_be_used(tmp_path: Path) -> None:
    # As with a folder that may not be entered, asking whether it is there fails: the name is too long for any file.
    with pytest.raises(NoCredentialsError, match="cannot be used"):
        kubeconfig.load([tmp_path / ("k" * 300)])
