"""Lines that several remedies have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgeagent.facts import GPU_MEMORY

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import Collected
    from edgeagent.facts import PodFacts


def service(seen: Collected) -> str:
    """The systemd unit that runs containerd for pods here."""
    if seen.host.external == "docker":
        return "docker"
    if not seen.host.k3s or seen.host.external:
        return "containerd"
    return "k3s" if seen.facts.host.kubelet.server else "k3s-agent"


def restart(seen: Collected) -> str:
    """The command that makes it read its configuration again."""
    return f"sudo systemctl restart {service(seen)}"


def configure(seen: Collected) -> str:
    """How the NVIDIA runtime comes into the configuration that counts here."""
    if service(seen) in ("docker", "containerd"):
        install = "" if seen.host.toolkit else "sudo apt-get install -y nvidia-container-toolkit\n"
        return f"{install}sudo nvidia-ctk runtime configure --runtime={service(seen)}\n{restart(seen)}"
    for template in seen.host.templates:
        if not template.base and not template.nvidia:
            return (
                f"{template.path} takes the place of what K3s would write. Put this line first in it, or remove it:\n"
                f'{{{{ template "base" . }}}}\nThen: {restart(seen)}'
            )
    looks = "K3s looks for the runtime when it starts, and then writes its configuration anew"
    if not seen.host.toolkit:
        return (
            f"Install NVIDIA's container toolkit and restart K3s. {looks}:\n"
            f"sudo apt-get install -y nvidia-container-toolkit\n{restart(seen)}"
        )
    return f"Restart K3s. {looks}; what is edited there by hand is lost:\n{restart(seen)}"


def runtime_class(name: str, handler: str) -> str:
    """The command that makes a RuntimeClass."""
    return (
        "kubectl apply -f - <<'EOF'\n"
        "apiVersion: node.k8s.io/v1\n"
        "kind: RuntimeClass\n"
        f"metadata: {{name: {name}}}\n"
        f"handler: {handler}\n"
        "EOF"
    )


def gpu_class(seen: Collected) -> str | None:
    """The RuntimeClass that gives a pod the GPU here; None where the default runtime does."""
    used = seen.host.containerd
    if used.default in used.nvidia:
        return None
    leading = (one.name for one in seen.cluster.runtime_classes.items or () if one.handler in used.nvidia)
    return next(leading, "nvidia")


def by_memory(seen: Collected, pod: PodFacts, amount: str) -> str:
    """Lines of a manifest by which the pod asks for GPU memory, and gets the GPU without a device plugin."""
    named = gpu_class(seen)
    container = next((one.name for one in pod.containers if one.kind == "regular"), "main")
    return (
        (f"runtimeClassName: {named}\n" if named else "") + "containers:\n"
        f"  - name: {container}\n"
        "    env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]\n"
        f"    resources: {{limits: {{{GPU_MEMORY}: {amount}}}}}"
    )
