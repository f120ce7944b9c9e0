"""Every reader of this package, asked in turn. Nothing here may run in the event loop, nor beside a decision."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from edgeagent.facts.diagnosis import HostLook
from edgeagent.host import containerd
from edgeagent.host.closer import cdi, csvlists, devices, holders, kernel, runtimes
from edgeagent.host.files import there

if TYPE_CHECKING:
    from edgeagent.facts import HostFacts
    from edgeagent.host.files import Files


def look(files: Files, host: HostFacts, at: float, *, among: Collection[int] | None = None) -> HostLook:
    """What more the board says; ``host`` is the last sample of it, ``at`` the monotonic second of now.

    ``among``: pids of the processes to look at, in place of all.
    """
    kubelet = host.kubelet
    path = containerd.place(files, kubelet.data_dir, kubelet.external_runtime)
    # Docker's own file is what counts where K3s runs its pods by Docker.
    used = runtimes.docker(files) if kubelet.external_runtime == "docker" else containerd.config(files, path)
    return HostLook(
        at=at,
        containerd=used,
        elsewhere=tuple(runtimes.elsewhere(files, used.path)),
        templates=tuple(runtimes.templates(files, kubelet.data_dir)),
        k3s=kubelet.k3s,
        external=kubelet.external_runtime,
        toolkit=tuple(
            f"{folder}/{runtimes.BINARY}"
            for folder in containerd.FOLDERS
            if there(files, f"{folder}/{runtimes.BINARY}")
        ),
        toolkit_mode=runtimes.toolkit_mode(files),
        cdi=tuple(cdi.specs(files)),
        csv=csvlists.lists(files) if csvlists.wanted(files) else None,
        cgroups=kernel.cgroups(files),
        swaps=kernel.swaps(files),
        holders=holders.holders(files, among),
        device_nodes=devices.nodes(files),
        devices_listed=devices.listed(files),
        nodes=tuple(devices.owned(files)),
        device_params=devices.params(files),
        plugin_sockets=devices.plugin_sockets(files),
        cpu_seconds=kernel.cpu_seconds(files, host.pods),
        uptime=kernel.uptime(files),
    )
