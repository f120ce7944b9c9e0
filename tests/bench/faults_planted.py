"""Faults to plant: for each promise some small edits of the source that break it."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """One edit: the only place of ``old`` in ``file``, below the package, becomes ``new``."""

    promise: str
    what: str
    file: str
    old: str
    new: str


BREACHES, VICTIMS, PRESSURE, DECIDE = "plan/breaches.py", "plan/victims.py", "plan/pressure.py", "plan/decide.py"
OUTCOMES, KEEPING, CAPACITY, NODE = "plan/outcomes.py", "plan/keeping.py", "plan/capacity.py", "plan/node.py"
USAGE, SIZING, HARDWARE, BUDGETS = "memory/usage.py", "plan/sizing.py", "plan/hardware.py", "memory/budgets.py"
REQUESTS, OWNERS, WISH = "memory/requests.py", "plan/owners.py", "plan/wish.py"

OVER = "over = usage > budget + tolerance"
SHARED = "the sum of GPU and host memory counts what is certain, once"
GRACE = "held for the grace, in consecutive fresh samples"
START = "host memory alone does not count while a container starts"
DANGER = "pressure: two readings below the floor, or soon there"
NEED = "no more than the shortfall is asked for"
CANDIDATES = "pods within their budget go only where configured, last, and never for the host"
SORTED = "a total, deterministic order"
NEVER = "some pods never go"
FRESH = "only fresh readings and views evict"
UNKNOWN = "unknown is not 0, and never grounds"
LEAVING = "what leaves by itself is nobody's breach"
SINGLE = "one at a time, until its processes are gone; then ten seconds"
BACKOFF = "1, 2, 4 … 30 minutes for one owner"
HOURLY = "so many in an hour, and no more"
CALL = "the call: by uid, with a grace"
ANSWER = "what the API server refuses is left alone"
OBSERVE = "observe does everything but act"
RESTART = "state outlives the agent, not the boot"
COMMITTED = "capacity is never below what admitted pods hold"
STEADY = "capacity falls at once, rises after 5 s, and stays while readings fail"
SENT = "nothing is sent when nothing differs"
ONCE = "the same sample counts once"

FAULTS: tuple[Fault, ...] = (
    Fault(
        OVER,
        "no tolerance",
        BREACHES,
        "used > budget.gpu + tolerance(budget.gpu, policy.tolerance)",
        "used > budget.gpu",
    ),
    Fault(OVER, "no half per cent", BREACHES, "max(16 * MIB, -(-budget // 200))", "16 * MIB"),
    Fault(OVER, "no least tolerance", BREACHES, "max(16 * MIB, -(-budget // 200))", "-(-budget // 200)"),
    Fault(
        OVER,
        "a configured tolerance is ignored",
        BREACHES,
        "return setting if setting is not None else max",
        "return max",
    ),
    Fault(OVER, "an annotated budget is not one", BUDGETS, "own = pod.annotations.get(LIMIT_ANNOTATION)", "own = None"),
    Fault(
        OVER,
        "a missing suffix is a budget",
        BUDGETS,
        "    if bare is not None:\n        problems",
        "    if bare == -1:\n        problems",
    ),
    Fault(
        SHARED,
        "what stands in both counts twice",
        BREACHES,
        "used + use.host - twice - budget.total",
        "used + use.host - budget.total",
    ),
    Fault(
        SHARED,
        "an upper bound is grounds",
        BREACHES,
        "if budget.total is None or use.host is None or not use.host_exact or twice is None:\n        return 0",
        "if budget.total is None or use.host is None or twice is None:\n        return 0",
    ),
    Fault(
        SHARED,
        "one container with a limit is enough",
        REQUESTS,
        "bool(running) and all(MEMORY in",
        "bool(running) and any(MEMORY in",
    ),
    Fault(
        SHARED,
        "a whole-board figure is read as the host part",
        REQUESTS,
        "return memory - gpu if memory >= gpu + WHOLE_BOARD_MARGIN else memory",
        "return memory",
    ),
    Fault(
        SHARED,
        "the smaller excess counts",
        BREACHES,
        '_Over("gpu", max(gpu_excess, shared_excess)',
        '_Over("gpu", gpu_excess',
    ),
    Fault(
        SHARED,
        "free memory is forgotten in the overlap",
        BREACHES,
        "max(0, gpu_total + host - (meminfo.total - cache))",
        "max(0, gpu_total + host - meminfo.total)",
    ),
    Fault(GRACE, "half the grace", BREACHES, "window.seconds >= grace", "window.seconds >= grace / 2"),
    Fault(GRACE, "twice the grace", BREACHES, "window.seconds >= grace", "window.seconds >= 2 * grace"),
    Fault(
        GRACE,
        "the time before the first sample counts",
        BREACHES,
        "return Window(0.0, 1, at, first_at=at)",
        "return Window(at, 2, at, first_at=at)",
    ),
    Fault(
        GRACE,
        "time across a failed reading counts",
        BREACHES,
        "return replace(before, consecutive=False)",
        "return before",
    ),
    Fault(
        GRACE,
        "a failed reading counts as over",
        DECIDE,
        'elif view.state == "unknown":\n            window = breaches.pause(',
        'elif view.state == "unknown":\n            window = breaches.advance(',
    ),
    Fault(
        GRACE,
        "a failed reading ends the breach",
        DECIDE,
        'elif view.state == "unknown":\n            window = breaches.pause(before, at, max_age)',
        'elif view.state == "unknown":\n            window = None',
    ),
    Fault(
        GRACE, "a missing host figure ends the breach", DECIDE, "elif view.blind and not view.breach:", "elif False:"
    ),
    Fault(
        GRACE,
        "a sample below does not end the breach",
        DECIDE,
        "        window = None\n        if before is not None",
        "        window = before\n        if before is not None",
    ),
    Fault(
        GRACE,
        "time across a gap counts",
        BREACHES,
        "if before is None or at - before.last_at > max_age:\n        return Window",
        "if before is None:\n        return Window",
    ),
    Fault(
        GRACE,
        "a pod that recovered keeps its grace",
        OUTCOMES,
        "return replace(state, windows=_without(state.windows, result.uid)), ()",
        "return state, ()",
    ),
    Fault(
        GRACE,
        "grace while bytes are needed",
        VICTIMS,
        "    if not situation.urgent:\n        window",
        "    if True:\n        window",
    ),
    Fault(
        START,
        "the breach begins while the container starts",
        DECIDE,
        "(view.breach and view.start_left <= 0)",
        "view.breach",
    ),
    Fault(
        START,
        "no such exception under pressure",
        VICTIMS,
        'if view.breach == "shared" and view.start_left > 0:',
        'if view.breach == "shared" and view.start_left > 1 << 30:',
    ),
    Fault(
        START,
        "a start in the future is believed",
        DECIDE,
        "PLAUSIBLE_WALL < told <= facts.wall",
        "PLAUSIBLE_WALL < told",
    ),
    Fault(
        START,
        "the first container counts, not the last",
        DECIDE,
        "policy.start_grace - min(ages)",
        "policy.start_grace - max(ages)",
    ),
    Fault(
        DANGER,
        "free CMA pages count as usable",
        PRESSURE,
        "meminfo.available - (meminfo.cma_free if tegra else 0)",
        "meminfo.available",
    ),
    Fault(DANGER, "one reading is enough", PRESSURE, "READINGS = 2", "READINGS = 1"),
    Fault(
        DANGER,
        "the fall is not drawn out",
        PRESSURE,
        "soon = ahead(now_usable, drop, settings.horizon)",
        "soon = float(now_usable)",
    ),
    Fault(DANGER, "a fall of a minute ago counts", PRESSURE, "DROP_SECONDS = 5.0", "DROP_SECONDS = 60.0"),
    Fault(DANGER, "one step between two close readings is a fall", PRESSURE, "SURE_PAIR = 0.4", "SURE_PAIR = 0.05"),
    Fault(
        DANGER,
        "a large step is none",
        PRESSURE,
        "if fell * LARGE_PART >= spare:",
        "if fell * LARGE_PART >= spare << 30:",
    ),
    Fault(DANGER, "a fall is not measured from its top", PRESSURE, "elif fell <= 0:", "elif fell < -(1 << 60):"),
    Fault(
        DANGER,
        "the mean fall counts, not the fastest",
        PRESSURE,
        "fastest = max(fastest, fell / (at - earlier))",
        "fastest = fell / (at - earlier)",
    ),
    Fault(DANGER, "it ends at the floor", PRESSURE, "value > low + max(256 * MIB, low // 4)", "value > low"),
    Fault(DANGER, "it ends after six seconds", PRESSURE, "CALM_SECONDS = 60.0", "CALM_SECONDS = 6.0"),
    Fault(
        DANGER,
        "a gap is two readings in a row",
        PRESSURE,
        "if last is not None and at - last > max_age:",
        "if last is not None and at - last > 1e9:",
    ),
    Fault(
        DANGER,
        "a fall alone sets the condition",
        PRESSURE,
        "(below >= READINGS or after.by_floor)",
        "(falling >= READINGS or after.by_floor)",
    ),
    Fault(
        DANGER,
        "another MemTotal is believed at once",
        HARDWARE,
        "abs(value.total - known.total) * 100 <= known.total",
        "value.total > 0",
    ),
    Fault(NEED, "no margin above the floor", PRESSURE, "MARGIN = 128 * MIB", "MARGIN = 0"),
    Fault(
        NEED,
        "what is leaving is not taken off",
        DECIDE,
        "shortfall=max(0, danger.need - leaving)",
        "shortfall=max(0, danger.need)",
    ),
    Fault(
        NEED,
        "victims go on while the shortfall is covered",
        VICTIMS,
        "if shortfall <= 0 else None",
        "if shortfall < -(1 << 60) else None",
    ),
    Fault(
        NEED,
        "a victim of this decision gives nothing back",
        VICTIMS,
        "left = shortfall - sum(one.held_bytes for one in chosen)",
        "left = shortfall",
    ),
    Fault(
        NEED,
        "a victim of this decision gives everything back",
        VICTIMS,
        "left = shortfall - sum(one.held_bytes for one in chosen)",
        "left = shortfall if not chosen else 0",
    ),
    Fault(
        CANDIDATES,
        "unbudgeted pods go unasked",
        VICTIMS,
        'view.state == "unbudgeted" and config.policy.unbudgeted == "evict"',
        'view.state == "unbudgeted"',
    ),
    Fault(
        CANDIDATES,
        "unbudgeted pods go in vain",
        VICTIMS,
        "if view.proven_bytes >= situation.shortfall:",
        "if view.proven_bytes >= 0:",
    ),
    Fault(
        CANDIDATES,
        "pods above their booking go unasked",
        VICTIMS,
        'view.state == "ok" and config.pressure.within_budget == "above-request"',
        'view.state == "ok"',
    ),
    Fault(
        CANDIDATES,
        "pods below their booking go too",
        VICTIMS,
        "            if excess > 0:\n                above",
        "            if excess > -(1 << 50):\n                above",
    ),
    Fault(
        CANDIDATES,
        "an upper bound counts as used",
        BREACHES,
        "return self.held_bytes if self.use.host_exact else self.held_bytes - (self.use.host or 0)",
        "return self.held_bytes",
    ),
    Fault(
        CANDIDATES,
        "they go though a breaching pod is spared",
        VICTIMS,
        "situation.host_over is False and not held:",
        "situation.host_over is False:",
    ),
    Fault(
        CANDIDATES,
        "they go though the host is over",
        VICTIMS,
        "situation.host_over is False and not held:",
        "situation.host_over is not None and not held:",
    ),
    Fault(
        CANDIDATES,
        "they go though the host's use is unknown",
        VICTIMS,
        "situation.host_over is False and not held:",
        "not situation.host_over and not held:",
    ),
    Fault(
        CANDIDATES,
        "they go without need",
        VICTIMS,
        "if situation.urgent and situation.host_over",
        "if situation.danger.active and situation.host_over",
    ),
    Fault(
        SORTED, "priority comes second", VICTIMS, "view.pod.priority, -view.excess", "-view.excess, view.pod.priority"
    ),
    Fault(
        SORTED,
        "the smallest excess first",
        VICTIMS,
        "view.pod.priority, -view.excess",
        "view.pod.priority, view.excess",
    ),
    Fault(
        SORTED,
        "who covers the shortfall is not preferred",
        VICTIMS,
        "(bool(shortfall) and view.excess < shortfall, ",
        "(False, ",
    ),
    Fault(SORTED, "the oldest first", VICTIMS, "-view.excess, -started,", "-view.excess, started,"),
    Fault(NEVER, "static pods", VICTIMS, "if pod.mirror:", "if False:"),
    Fault(NEVER, "system-critical pods", VICTIMS, "SYSTEM_CRITICAL = 2_000_000_000", "SYSTEM_CRITICAL = 2_000_000_001"),
    Fault(
        NEVER, "the agent itself", VICTIMS, "if own_pod is not None and pod.uid == own_pod:", "if own_pod == pod.name:"
    ),
    Fault(NEVER, "a protected namespace", VICTIMS, "pod.namespace in policy.protect or", ""),
    Fault(NEVER, "a protected pod", VICTIMS, " or pod.key in policy.protect", ""),
    Fault(NEVER, "an MPS daemon", VICTIMS, 'clients\'" if mps else ""', 'clients\'" if False else ""'),
    Fault(
        NEVER,
        "a DaemonSet's pod",
        VICTIMS,
        'return pod.owner is not None and pod.owner[0] == "DaemonSet"',
        "return pod.owner is None and False",
    ),
    Fault(
        NEVER,
        "a pod that is terminating",
        BREACHES,
        "    if pod.terminating:\n        return replace(view",
        "    if False:\n        return replace(view",
    ),
    Fault(
        NEVER,
        "a pod whose eviction was accepted",
        DECIDE,
        "replace(pod, terminating=True) if pod.uid in state.victims else pod",
        "pod",
    ),
    Fault(FRESH, "an old reading evicts", VICTIMS, "now - facts.host.attributed_at}", "0.0}"),
    Fault(FRESH, "an old view evicts", VICTIMS, "now - facts.cluster.fresh_at\n", "0.0\n"),
    Fault(
        UNKNOWN,
        "unknown use is judged as within the budget",
        BREACHES,
        "if any(use.gpu.get(key.resource) is None for key in keys):",
        "if not keys:",
    ),
    Fault(UNKNOWN, "an unreadable table is empty", USAGE, "None if blind or shared or", "None if shared or"),
    Fault(
        UNKNOWN,
        "a client of an MPS server uses nothing",
        USAGE,
        "shared = rowless and resource in self.served",
        "shared = False",
    ),
    Fault(
        UNKNOWN,
        "more bytes than there are count",
        USAGE,
        "if total > limit:",
        "if total > limit << 30:",
    ),
    Fault(
        UNKNOWN,
        "an impossible pid counts",
        USAGE,
        "not 0 <= row.pid <= PID_MAX for row in table.rows",
        "row.pid > PID_MAX for row in table.rows",
    ),
    Fault(
        UNKNOWN,
        "no table and device nodes held is 0",
        USAGE,
        "if host.gpu_node_holders.value == 0:",
        "if host.gpu_node_holders.value is not None:",
    ),
    Fault(
        UNKNOWN,
        "no table and nobody can tell is 0",
        USAGE,
        "if host.gpu_node_holders.value == 0:",
        "if not host.gpu_node_holders.value:",
    ),
    Fault(
        UNKNOWN,
        "a failed reading proves that processes ended",
        VICTIMS,
        "unproven = not seen.trusted and victim.released_at is None",
        "unproven = False",
    ),
    Fault(
        LEAVING,
        "a former container's process is the pod's",
        USAGE,
        "if pod is None or not pod.live or not _current(pod, container_id):",
        "if pod is None or not pod.live:",
    ),
    Fault(
        LEAVING,
        "processes of pods that are gone stay",
        USAGE,
        "self.leaving[resource] += row.bytes or 0",
        "self.leaving[resource] += 0",
    ),
    Fault(
        LEAVING,
        "terminating pods stay",
        USAGE,
        "if pod.live and pod.terminating]",
        "if pod.live and pod.terminating and not pod.uid]",
    ),
    Fault(
        LEAVING,
        "a process that cannot be placed is the system's",
        USAGE,
        "process is None or process.kernel or not process.cgroup_readable:",
        "process is None or process.kernel:",
    ),
    Fault(
        SINGLE,
        "two in one decision",
        VICTIMS,
        '    if chosen:\n        return Obstacle("one-at-a-time"',
        '    if len(chosen) > 1:\n        return Obstacle("one-at-a-time"',
    ),
    Fault(
        SINGLE,
        "the next one while the first still holds memory",
        VICTIMS,
        "    if now < last:",
        "    if now < 0.0:",
    ),
    Fault(SINGLE, "stuck after half a minute", VICTIMS, "STUCK_SECONDS = 300.0", "STUCK_SECONDS = 30.0"),
    Fault(
        SINGLE,
        "the grace is not waited for",
        VICTIMS,
        "return victim.at + victim.grace + STUCK_SECONDS",
        "return victim.at + STUCK_SECONDS",
    ),
    Fault(
        NEED,
        "a stuck victim is counted on for ever",
        VICTIMS,
        "max(0, used.leaving_shared - sum(",
        "max(0, used.leaving_shared - 0 * sum(",
    ),
    Fault(NEED, "a victim of long ago spares everybody", VICTIMS, "max(since, now - STUCK_SECONDS)", "since"),
    Fault(
        CANDIDATES,
        "a pod whose use cannot be read makes the host pay",
        PRESSURE,
        "of_pods = total(hosted)",
        "of_pods = sum(one or 0 for one in hosted)",
    ),
    Fault(
        SINGLE,
        "who was going at the start is not waited for",
        VICTIMS,
        "gone = [*state.victims.values(), *(state.going or {}).values()]",
        "gone = [*state.victims.values()]",
    ),
    Fault(
        SINGLE,
        "who is going without holding anything is waited for",
        VICTIMS,
        "if pod.terminating and pod.live and pod.uid not in state.victims and used.pods[pod.uid].processes",
        "if pod.terminating and pod.live and pod.uid not in state.victims",
    ),
    Fault(SINGLE, "a pod that is deleted later is waited for", VICTIMS, "if state.going is not None or not", "if not"),
    Fault(
        SINGLE,
        "nobody is ever stuck",
        VICTIMS,
        "return victim.at + victim.grace + STUCK_SECONDS",
        "return victim.at + victim.grace + 1e9",
    ),
    Fault(SINGLE, "the board settles for a second", VICTIMS, "HOLD_DOWN_SECONDS = 10.0", "HOLD_DOWN_SECONDS = 1.0"),
    Fault(
        SINGLE,
        "no settling after a stuck one",
        VICTIMS,
        "*(stuck + HOLD_DOWN_SECONDS for stuck in holding)",
        "*holding",
    ),
    Fault(
        SINGLE,
        "gone with its object",
        VICTIMS,
        "bool(seen.alive.intersection(victim.processes)) if victim.processes else victim.uid in present",
        "victim.uid in present",
    ),
    Fault(BACKOFF, "always a minute", VICTIMS, "before.minutes * 2", "before.minutes"),
    Fault(BACKOFF, "up to four minutes", VICTIMS, "LONGEST_BACKOFF_MINUTES = 30", "LONGEST_BACKOFF_MINUTES = 4"),
    Fault(BACKOFF, "forgotten after five minutes", VICTIMS, "FORGET_SECONDS = 1800.0", "FORGET_SECONDS = 300.0"),
    Fault(BACKOFF, "never forgotten", VICTIMS, "FORGET_SECONDS = 1800.0", "FORGET_SECONDS = 1e9"),
    Fault(
        BACKOFF,
        "by ReplicaSet, not by Deployment",
        VICTIMS,
        'if kind == "ReplicaSet" and "-" in name:',
        'if kind == "replicaset" and "-" in name:',
    ),
    Fault(
        BACKOFF,
        "a breach does not prolong it",
        VICTIMS,
        "replace(item, breached_at=now) if key in breaching else item",
        "item",
    ),
    Fault(
        BACKOFF,
        "it bars a breach under pressure",
        VICTIMS,
        'if not (urgent and view.breach in ("gpu", "shared")):',
        "if True:",
    ),
    Fault(
        BACKOFF,
        "pressure lifts it for everybody",
        VICTIMS,
        'if not (urgent and view.breach in ("gpu", "shared")):',
        "if not urgent:",
    ),
    Fault(
        HOURLY,
        "one more",
        VICTIMS,
        "len(recent) + chosen >= policy.evictions_per_hour",
        "len(recent) + chosen > policy.evictions_per_hour",
    ),
    Fault(
        HOURLY,
        "those of this decision do not count",
        VICTIMS,
        "len(recent) + chosen >= policy",
        "len(recent) >= policy",
    ),
    Fault(HOURLY, "a minute is an hour", VICTIMS, "HOUR = 3600.0", "HOUR = 60.0"),
    Fault(HOURLY, "evictions are not counted", OUTCOMES, "evicted_at=(*recent, now)", "evicted_at=recent"),
    Fault(
        CALL,
        "a grace of 0",
        DECIDE,
        "max(1, int(min(view.pod.grace_seconds, longest)))",
        "int(min(view.pod.grace_seconds, longest))",
    ),
    Fault(
        CALL, "the pod's own grace", DECIDE, "int(min(view.pod.grace_seconds, longest))", "int(view.pod.grace_seconds)"
    ),
    Fault(
        CALL,
        "a long grace under pressure",
        DECIDE,
        "policy.pressure_grace if danger.active else policy.max_grace",
        "policy.max_grace",
    ),
    Fault(
        CALL,
        "by name",
        DECIDE,
        "        uid=view.pod.uid,\n        breach",
        "        uid=view.pod.name,\n        breach",
    ),
    Fault(
        ANSWER,
        "a refusal is forgotten",
        VICTIMS,
        'return Obstacle("blocked", end - now, why) if end > now else None',
        "return None",
    ),
    Fault(
        ANSWER,
        "a refusal for good is probed every minute",
        OUTCOMES,
        "SLOW_RETRY_SECONDS = 600.0",
        "SLOW_RETRY_SECONDS = 60.0",
    ),
    Fault(
        ANSWER,
        "Retry-After is ignored",
        OUTCOMES,
        "wait = result.retry_after if result.retry_after is not None else usual",
        "wait = usual",
    ),
    Fault(
        ANSWER,
        "the next pod is asked for where the agent may not evict",
        OUTCOMES,
        'if result.outcome == "unauthorized":',
        'if result.outcome == "nothing":',
    ),
    Fault(
        ANSWER,
        "one refusal bars the pods of all namespaces",
        VICTIMS,
        'state.barred_until.get(view.pod.namespace, (now, ""))',
        "*state.barred_until.values()",
    ),
    Fault(
        ANSWER,
        "an accepted eviction is not remembered",
        OUTCOMES,
        "victims={**state.victims, eviction.uid: victim}",
        "victims=state.victims",
    ),
    Fault(
        OBSERVE, "by configuration", DECIDE, 'if facts.config.mode == "observe":', 'if facts.config.mode == "watch":'
    ),
    Fault(
        OBSERVE,
        "by annotation",
        DECIDE,
        'found.annotations.get(node.MODE) == "observe":',
        'found.annotations.get(node.MODE) == "watch":',
    ),
    Fault(OBSERVE, "beside another owner", OWNERS, '("gpu", "on"): "HAMi",', ""),
    Fault(
        OBSERVE,
        "capacity beside another owner",
        SIZING,
        "values = capacity.plan(before, keys, fresh, admitted, now, admitted_only=admitted_only)",
        "values = capacity.plan(before, keys, fresh, admitted, now, admitted_only=False)",
    ),
    Fault(
        RESTART, "times of another boot hold", KEEPING, 'document["boot_id"] == origin.boot_id:', 'document["boot_id"]:'
    ),
    Fault(
        RESTART,
        "the hourly count is lost",
        KEEPING,
        'evicted_at=tuple(float(at) for at in document["evicted_at"])',
        "evicted_at=()",
    ),
    Fault(
        RESTART,
        "settling is lost",
        KEEPING,
        'hold_down_until=float(document["hold_down_until"])',
        "hold_down_until=0.0",
    ),
    Fault(
        RESTART,
        "victims are lost",
        KEEPING,
        'victims={victim.uid: victim for victim in map(_victim, document["victims"])}',
        "victims={}",
    ),
    Fault(
        RESTART,
        "back-offs are lost",
        KEEPING,
        'backoff={_owner(one["owner"]): _backoff(one) for one in document["backoff"]}',
        "backoff={}",
    ),
    Fault(
        RESTART,
        "released or not is lost",
        KEEPING,
        'released_at=None if one["released_at"] is None else float(one["released_at"])',
        "released_at=None",
    ),
    Fault(RESTART, "half a document counts", KEEPING, "except (AttributeError, KeyError,", "except (AttributeError,"),
    Fault(
        COMMITTED,
        "below, when little is left",
        CAPACITY,
        "max(0, quantity.floor_mib(pool.computed), held)",
        "max(0, quantity.floor_mib(pool.computed))",
    ),
    Fault(
        COMMITTED,
        "below, while the pool is unknown",
        CAPACITY,
        "return Published(max(before.value, held), before.known_at)",
        "return Published(before.value, before.known_at)",
    ),
    Fault(
        COMMITTED,
        "below, while it rises",
        CAPACITY,
        "return Published(max(before.value, held), now, wanted, since)",
        "return Published(before.value, now, wanted, since)",
    ),
    Fault(
        COMMITTED,
        "terminating pods hold nothing",
        "memory/pools.py",
        "for pod, budget in live if pod.admitted),",
        "for pod, budget in live if pod.admitted and not pod.terminating),",
    ),
    Fault(
        COMMITTED,
        "only running pods hold",
        "facts/cluster.py",
        'return self.live and (self.phase == "Running" or self.start_time is not None)',
        'return self.live and self.phase == "Running" and not self.terminating',
    ),
    Fault(STEADY, "it rises at once", CAPACITY, "RISE_SECONDS = 5.0", "RISE_SECONDS = 0.0"),
    Fault(
        STEADY,
        "it rises however it changes",
        CAPACITY,
        "since = before.rising_since if before.rising == wanted else now",
        "since = before.rising_since if before.rising else now",
    ),
    Fault(
        STEADY, "a minute of doubt takes the room", CAPACITY, "LAST_GOOD_SECONDS = 600.0", "LAST_GOOD_SECONDS = 60.0"
    ),
    Fault(
        STEADY,
        "an unknown pool offers its last value for ever",
        CAPACITY,
        "LAST_GOOD_SECONDS = 600.0",
        "LAST_GOOD_SECONDS = 1e9",
    ),
    Fault(STEADY, "an old view changes it", SIZING, "    if not view_current(facts, now):\n        return state\n", ""),
    Fault(
        STEADY,
        "what the node carried is forgotten at a start",
        SIZING,
        "(amount := _on_node(node_of(facts), key.resource) or lastgood",
        "(amount := lastgood",
    ),
    Fault(
        STEADY,
        "what the file says is forgotten at a start",
        SIZING,
        " or lastgood.value(state.good, key, facts.host))",
        ")",
    ),
    Fault(
        SENT, "capacity is sent each time", NODE, "if not quantity.equal(node.capacity.get(key), value):", "if True:"
    ),
    Fault(
        SENT,
        "labels are sent each time",
        NODE,
        "for key, value in sorted(labels.items()) if node.labels.get(key) != value",
        "for key, value in sorted(labels.items())",
    ),
    Fault(
        SENT, "the annotation is sent each time", NODE, "if node.annotations.get(OWNED_KEYS) != annotation:", "if True:"
    ),
    Fault(
        SENT,
        "a condition is sent each time",
        NODE,
        "        != (condition.status, condition.reason)\n",
        "        != (condition.status, condition.message)\n",
    ),
    Fault(
        SENT,
        "a reset capacity stays reset",
        NODE,
        "if not quantity.equal(node.capacity.get(key), value):",
        "if key not in node.capacity:",
    ),
    Fault(
        SENT,
        "an empty allocatable stays empty",
        NODE,
        'elif _empty(node.allocatable.get(key)) and not quantity.equal(value, "0"):',
        "elif False:",
    ),
    Fault(SENT, "from an old view", WISH, "view_current(facts, now)", "True"),
    Fault(
        ONCE,
        "of who holds what",
        DECIDE,
        "if before is not None and at <= before.last_at:",
        "if before is not None and at < before.last_at:",
    ),
    Fault(ONCE, "of the memory", PRESSURE, "if last is not None and at <= last:", "if last is not None and at < last:"),
    Fault(ONCE, "of a doubtful MemTotal", HARDWARE, "elif reading.at > doubt.at:", "elif reading.at >= doubt.at:"),
)
