// The dashboard: asks the agent for its state, follows it, and shows it. Nothing is computed here that the agent
// decides. Whatever comes from the board is untrusted text: it is put into the page as text and never as markup.
"use strict";

// --- figures and words ---------------------------------------------------------------------

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;
const WINDOW = 900; // seconds of history
const STEP = 5; // seconds from one point of history to the next
const SLOTS = 8; // pods with a letter and a colour of their own
const SILENT = 20000; // milliseconds without a byte after which a stream is given up; the agent says something each 15 s
const DEFAULT_MAX_AGE = 10;

function human(bytes) {
  if (bytes === null || bytes === undefined) return "unknown";
  return Math.abs(bytes) >= GIB ? `${(bytes / GIB).toFixed(2)} GiB` : `${(bytes / MIB).toFixed(0)} MiB`;
}

function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 100) return `${whole} s`;
  if (whole < 6000) return `${Math.round(whole / 60)} min`;
  return whole < 172800 ? `${Math.round(whole / 3600)} h` : `${Math.round(whole / 86400)} days`;
}

function percent(ratio) {
  const value = ratio * 100;
  return `${value > 0 && value < 10 ? value.toFixed(1) : value.toFixed(0)} %`;
}

function many(count, one, more = `${one}s`) {
  return `${count} ${count === 1 ? one : more}`;
}

// Characters that are not seen but turn the text around them, or hide in it, are shown by their number.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

function plain(text) {
  return String(text ?? "").replace(UNSEEN, (sign) => `‹U+${sign.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);
}

const KINDS = {
  jetson: "Jetson, CPU and GPU share the memory",
  unified: "CPU and GPU share the memory",
  discrete: "cards with memory of their own",
  mixed: "a shared memory, and cards with their own",
  wsl: "GPU of a Windows host",
  none: "no GPU",
  unknown: "kind of board not known yet",
};

const STATES = {
  ok: { word: "within budget", sign: "✓" },
  breach: { word: "over budget", sign: "▲" },
  unbudgeted: { word: "no budget", sign: "○" },
  unknown: { word: "unknown", sign: "?" },
  protected: { word: "protected", sign: "◆" },
  terminating: { word: "leaving", sign: "↓" },
};
const ORDER = ["breach", "unbudgeted", "protected", "unknown", "ok", "terminating"];

// What comes next for a pod that would be evicted but for one thing. {t}: the time that is left.
const HELD = {
  protected: ["Is never evicted.", ""],
  daemonset: ["Is reported only: it belongs to a DaemonSet.", ""],
  stale: ["Waits for a fresh reading.", ""],
  "start-grace": ["Still loads its model: it has {t}.", "Still loads its model."],
  grace: ["Is evicted in {t}, unless it falls below its budget.", "Is evicted unless it falls below its budget."],
  observe: ["Would be evicted; the agent only observes.", ""],
  "one-at-a-time": ["Another pod goes first.", ""],
  releasing: ["Waits until memory that is on its way back has come.", ""],
  "hold-down": ["Waits {t} for the board to settle after an eviction.", "Waits for the board to settle after an eviction."],
  backoff: ["Its owner put back a pod that was over: waits {t}.", "Its owner put back a pod that was over: waits."],
  "hourly-cap": ["No more evictions in this hour: waits {t}.", "No more evictions in this hour."],
  blocked: ["The API server refused its eviction: next try in {t}.", "The API server refused its eviction."],
};

const INCIDENTS = {
  eviction: "Evicted",
  kill: "Killed",
  "would-evict": "Would have evicted",
  nobody: "Nobody could be killed",
};

const SEVERITIES = { error: "✖", warning: "▲", info: "i" };
const CERTAINTIES = { certain: "certain", suspected: "suspected", "cannot-tell": "cannot be told for sure" };

// Where the values of a feed come from, as readings are named.
const SOURCES = {
  memory: ["meminfo"],
  gpu: ["attribution", "nvmap", "nvml"],
  host: ["cgroups", "attribution"],
  devices: ["nvml"],
};

// --- the page as elements ------------------------------------------------------------------

const byId = (id) => document.getElementById(id);

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") element.className = value;
    else if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function draw(tag, attributes = {}) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

// Only what has changed is written: a selection stays, and no screen reader is woken up.
function say(element, text) {
  const shown = plain(text);
  if (element.textContent !== shown) element.textContent = shown;
}

function mark(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

function size(element, share) {
  const width = `${(share * 100).toFixed(3)}%`;
  if (element.style.width !== width) element.style.width = width;
}

function put(element, share) {
  const place = `${(share * 100).toFixed(3)}%`;
  if (element.style.left !== place) element.style.left = place;
}

const kept = new WeakMap();

// Makes the children of `parent` those of `items`, by key; what stays is only updated.
function sync(parent, items, key, create, update) {
  const old = kept.get(parent) ?? new Map();
  const fresh = new Map();
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    if (fresh.has(name)) continue;
    const row = old.get(name) ?? create(item);
    old.delete(name);
    fresh.set(name, row);
    if (row.root === place) place = place.nextElementSibling;
    else parent.insertBefore(row.root, place);
    update(row, item);
  }
  for (const row of old.values()) row.root.remove();
  kept.set(parent, fresh);
}

function copier(what) {
  const button = make("button", { type: "button", class: "quiet copy", "aria-label": `Copy ${what}` }, "Copy");
  button.addEventListener("click", async () => {
    const source = button.parentElement.querySelector("pre");
    const done = await copy(source);
    say(button, done ? "Copied" : "Selected");
    announce(done ? "Copied." : "Selected, copy it with the keyboard.");
    setTimeout(() => say(button, "Copy"), 2000);
  });
  return button;
}

async function copy(source) {
  try {
    await navigator.clipboard.writeText(source.textContent);
    return true;
  } catch {
    // Without TLS the clipboard is there on localhost only: leave it selected.
    getSelection().selectAllChildren(source);
    return false;
  }
}

function announce(text) {
  say(byId("aloud"), text);
}

// --- what is known, and how old it is ------------------------------------------------------

const known = { state: null, listed: false, perf: 0, wall: 0, config: null, points: [] };
const link = { state: "wait", since: Date.now(), why: "", retry: 0 };

function elapsed() {
  // A laptop that slept stops the one clock, somebody who sets the time moves the other.
  return Math.max(performance.now() - known.perf, Date.now() - known.wall) / 1000;
}

function maxAge() {
  const given = known.config?.values?.sampling?.max_age;
  const found = typeof given === "number" ? given : /^([\d.]+)(ms|s|min|h)?$/.exec(String(given ?? ""));
  if (typeof found === "number") return found;
  return found ? Number(found[1]) * { ms: 0.001, s: 1, min: 60, h: 3600 }[found[2] ?? "s"] : DEFAULT_MAX_AGE;
}

function accept(told) {
  // Pods that are not known are null; that there are none is something else.
  const state = { ...told, pods: told.pods ?? [] };
  Object.assign(known, { state, listed: told.pods !== null, perf: performance.now(), wall: Date.now() });
  remember(state);
  render();
}

function sampleAge(state) {
  return state.sample_age_seconds === null ? null : state.sample_age_seconds + elapsed();
}

// The state without what was measured: an old figure is none.
function forgotten(state) {
  const pods = state.pods.map((pod) => ({
    ...pod,
    gpu_bytes: null,
    host_bytes: null,
    state: pod.state === "terminating" ? pod.state : "unknown",
    reason: "",
    pools: pod.pools.map((pool) => ({ ...pool, gpu_bytes: null })),
    containers: pod.containers.map((one) => ({ ...one, gpu_bytes: null, host_bytes: null })),
  }));
  return {
    ...state,
    old: true,
    stale: Object.keys(SOURCES),
    devices: state.devices.map((device) => ({ ...device, health: "unknown" })),
    host: state.host && Object.fromEntries(Object.keys(state.host).map((name) => [name, null])),
    pools: state.pools.map((pool) => ({ ...pool, total_bytes: null, reserves: [], overcommitted: null })),
    bars: state.bars.map((bar) => ({ ...bar, total_bytes: null, segments: null })),
    pods,
    plan: { evictions: [], kills: [], held: [], events: [] },
    ai_capable: null,
    findings: [],
    neighbours: [],
    vitals: null,
  };
}

// "unknown", and since when.
function missing(state, feed) {
  if (state.old) return `unknown, last read ${span(sampleAge(state))} ago`;
  if (!state.stale.includes(feed)) return "unknown";
  const reading = reading_of(state, feed);
  if (!reading) return "unknown";
  if (reading.age_seconds === null) return "unknown, never read";
  return `unknown, last read ${span(reading.age_seconds + elapsed())} ago`;
}

function reading_of(state, feed) {
  const found = SOURCES[feed].map((name) => state.readings[name]).filter(Boolean);
  return found.find((reading) => reading.stale) ?? found[0];
}

function amount(bytes, state, feed) {
  return bytes === null || bytes === undefined ? missing(state, feed) : human(bytes);
}

// --- history ---------------------------------------------------------------------------------

function point(time, usable, pods) {
  return { time, usable, pods };
}

function remember(state) {
  const now = Date.now() / 1000;
  const last = known.points.at(-1);
  if (last && now - last.time < STEP - 0.5) return;
  const pods = new Map(
    state.pods.map((pod) => [pod.uid, { host: pod.host_bytes, gpu: new Map(pod.pools.map((one) => [one.resource, one.gpu_bytes])) }]),
  );
  known.points.push(point(now, state.host?.usable_bytes ?? null, pods));
  known.points = known.points.filter((one) => one.time > now - WINDOW);
}

function recall(history) {
  const now = Date.now() / 1000;
  const only = history.pools.length === 1 ? history.pools[0].resource : null;
  known.points = history.ages_seconds.map((age, index) => {
    const pods = new Map();
    for (const pod of history.pods) {
      const lines = pod.pools?.length ? pod.pools : [{ resource: only, gpu_bytes: pod.gpu_bytes }];
      const gpu = new Map(lines.map((one) => [one.resource, one.gpu_bytes[index]]));
      pods.set(pod.uid, { host: pod.host_bytes[index], gpu });
    }
    return point(now - age, history.usable_bytes[index], pods);
  });
  known.points.reverse();
}

// --- lines -----------------------------------------------------------------------------------

const WIDE = 300;
const HIGH = 48;

function chart(kind) {
  const root = draw("svg", { class: `chart ${kind}`, viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img" });
  const area = draw("path", { class: "area" });
  const limit = draw("path", { class: "limit" });
  const beside = draw("path", { class: "beside" });
  const line = draw("path", { class: "line" });
  root.append(area, limit, beside, line);
  return { root, area, limit, beside, line };
}

// Seconds that the lines show: all that is known, a minute at least.
function reach() {
  const first = known.points[0]?.time ?? Infinity;
  return Math.min(WINDOW, Math.max(60, Date.now() / 1000 - first));
}

// A path through the values that are known; where one is not, the line is interrupted.
function trace(values, top) {
  const now = Date.now() / 1000;
  const width = reach();
  let path = "";
  let fill = "";
  let begun = null;
  let last = null;
  for (const { time, value } of values) {
    if (value === null || value === undefined || (last && time - last.time > 2.5 * STEP)) {
      if (begun !== null) fill += `L${last.x} ${HIGH}L${begun} ${HIGH}Z`;
      begun = last = null;
      if (value === null || value === undefined) continue;
    }
    const x = (WIDE * (1 - (now - time) / width)).toFixed(1);
    const y = (HIGH - 1 - (HIGH - 3) * Math.min(1, value / top)).toFixed(1);
    path += `${begun === null ? "M" : "L"}${x} ${y}`;
    fill += `${begun === null ? "M" : "L"}${x} ${y}`;
    begun ??= x;
    last = { time, x };
  }
  if (begun !== null) {
    path += `l0.01 0`;
    fill += `L${last.x} ${HIGH}L${begun} ${HIGH}Z`;
  }
  return { path, fill };
}

function plot(one, { values, beside = [], limit = null, name }) {
  const numbers = values.map((at) => at.value).filter((value) => value !== null && value !== undefined);
  const others = beside.map((at) => at.value).filter((value) => value !== null && value !== undefined);
  const top = Math.max(1, limit === null ? 0 : limit * 1.15, ...numbers, ...others);
  const main = trace(values, top);
  mark(one.line, "d", main.path || "M0 0");
  mark(one.area, "d", main.fill || "M0 0");
  mark(one.beside, "d", trace(beside, top).path || "M0 0");
  const height = limit === null || numbers.length < 2 ? null : (HIGH - 1 - (HIGH - 3) * (limit / top)).toFixed(1);
  mark(one.limit, "d", height === null ? "M0 0" : `M0 ${height}L${WIDE} ${height}`);
  const when = `${name} in the last ${span(reach())}`;
  const range = numbers.length
    ? `${when}: between ${human(Math.min(...numbers))} and ${human(Math.max(...numbers))}`
    : `${when}: not known`;
  mark(one.root, "aria-label", range);
  mark(one.root, "data-empty", numbers.length < 2 ? "" : null);
}

// --- the verdict -------------------------------------------------------------------------------

function podName(pod) {
  return `${pod.namespace}/${pod.name}`;
}

function verdict(state) {
  const who = state.node ?? "This board";
  if (state.old || !state.board) {
    const age = sampleAge(state);
    return {
      level: "unknown",
      words: age === null ? `${who} has not been read yet` : `${who}: not known since ${span(age)}`,
    };
  }
  const over = state.pods.filter((pod) => pod.state === "breach");
  if (state.host?.pressure) return { level: "error", words: `${who} is nearly out of memory` };
  if (over.length) {
    return { level: "error", words: `${who}: ${many(over.length, "pod is over its budget", "pods are over their budgets")}` };
  }
  if (blind(state)) return { level: "warning", words: `${who}: who holds what is not known` };
  if (state.ready.status !== "ok") return { level: "warning", words: `${who} is not ready` };
  const errors = state.findings.filter((finding) => finding.severity === "error");
  if (errors.length) return { level: "warning", words: `${who}: ${many(errors.length, "problem")} to look at` };
  return { level: "ok", words: `${who} is healthy` };
}

// Whether nobody can say who is over a budget.
function blind(state) {
  return state.stale.includes("gpu") || state.stale.includes("host");
}

function left(held) {
  return held.seconds_left === null ? null : Math.max(0, held.seconds_left - elapsed());
}

function heldWords(held) {
  const [timed, untimed] = HELD[held.code] ?? [`Held: ${held.code}.`, ""];
  const seconds = left(held);
  return seconds === null ? untimed || timed : timed.replace("{t}", span(Math.ceil(seconds)));
}

// What the agent will do next, in sentences; the first is the most urgent.
function upcoming(state) {
  if (state.old || !state.board) return ["Nothing is decided by old readings."];
  const names = new Map(state.pods.map((pod) => [pod.uid, podName(pod)]));
  const found = [];
  for (const kill of state.plan.kills) {
    found.push(`Next: the GPU processes of ${names.get(kill.uid) ?? "a pod"} are killed now, to keep the board alive.`);
  }
  for (const one of state.plan.evictions) found.push(`Next: ${podName(one)} is evicted now, with ${span(one.grace_seconds)} to end by itself.`);
  const held = [...state.plan.held].sort((one, two) => (left(one) ?? Infinity) - (left(two) ?? Infinity));
  for (const one of held.slice(0, 3)) {
    const words = heldWords(one);
    found.push(`Next: ${names.get(one.uid) ?? "a pod"} ${words[0].toLowerCase()}${words.slice(1)}`);
  }
  if (held.length > 3) found.push(`${many(held.length - 3, "further pod is held", "further pods are held")}.`);
  if (found.length) return found;
  if (blind(state)) return ["Nobody is evicted by old readings: the agent waits for a fresh one."];
  if (state.host?.pressure) return ["Nobody is over a budget, so nobody is evicted. End a pod, or give pods budgets."];
  const loose = state.pods.filter((pod) => pod.state === "unbudgeted");
  if (loose.length) return [`Nothing is due. ${many(loose.length, "pod holds", "pods hold")} GPU memory without a budget.`];
  if (state.board.kind === "none") return ["There is no GPU here, so there is nothing to publish or to protect."];
  return [state.pods.length ? "Nothing is due: no pod is over its budget." : "Nothing is due."];
}

function about(state) {
  const board = state.board;
  const parts = [];
  if (board) {
    parts.push(board.product ?? KINDS[board.kind]);
    if (board.product) parts.push(KINDS[board.kind]);
    if (board.jetpack) parts.push(`JetPack ${board.jetpack}`);
    else if (board.l4t) parts.push(`L4T ${board.l4t}`);
  }
  if (state.mode === "observe") parts.push(`observes only: ${state.observe_because}`);
  else if (state.mode) parts.push("enforces budgets");
  if (standalone(state)) parts.push("no cluster");
  return parts.join(" · ");
}

function standalone(state) {
  return state.cluster === null;
}

// The names of what makes an agent unready, in words.
const REASONS = {
  "reading-stale:attribution": "Who holds GPU memory is not known",
  "reading-stale:meminfo": "How much memory is left is not known",
  "reading-stale:nvml": "The GPUs do not tell their health",
  "nvml-stalled": "The GPU driver hangs",
  "credentials-unusable": "The credentials for the API server cannot be used",
  "cluster-unreachable": "The API server does not answer",
  "view-stale": "The view of the cluster is old",
  "view-incomplete": "The pods of this node are not known yet",
  "node-name": "Which node this is is not known",
  "not-published": "The node does not carry the agent's values",
  "first-reading": "The board was not read yet",
  "sample-stale": "The board was not read lately",
};

// What is wrong with this view itself: what is not ready, what is stale.
function notices(state) {
  const found = state.ready.reasons.map((reason) => ({
    key: reason.name,
    level: "warning",
    name: REASONS[reason.name] ?? reason.name,
    words: reason.message,
  }));
  if (state.old) found.unshift({ key: "old", level: "error", ...oldWords(state) });
  for (const warning of state.board?.warnings ?? []) found.push({ key: `w:${warning}`, level: "info", name: "Board", words: warning });
  if (state.config && !state.config.last_reload_ok) {
    const why = state.config.problems.join("; ");
    const words = `the files were changed to something that cannot be used; the last good ones are in force: ${why}`;
    found.push({ key: "reload", level: "warning", name: "Configuration", words });
  }
  return found;
}

function oldWords(state) {
  const lost = link.state === "lost" ? "the connection to the agent is lost" : "the agent has not read the board since";
  return { name: "Every figure is unknown", words: `the last reading is ${span(sampleAge(state))} old, and ${lost}` };
}

function renderHead(state) {
  const { level, words } = verdict(state);
  mark(document.documentElement, "data-level", level);
  say(byId("verdict"), words);
  const sentences = upcoming(state);
  sync(
    byId("next"),
    sentences.map((text, index) => ({ text, index })),
    (one) => one.index,
    () => ({ root: make("span") }),
    (row, one) => say(row.root, one.text),
  );
  say(byId("about"), about(state));
  say(byId("node"), state.node ?? "");
  document.title = `${level === "ok" ? "" : "▲ "}${plain(state.node ?? "board")} · edgeagent`;
  sync(
    byId("notices"),
    notices(state),
    (one) => one.key,
    () => {
      const name = make("b");
      const text = make("span");
      const root = make("li", { class: "notice" }, make("span", { class: "sign", "aria-hidden": "true" }), name, " ", text);
      return { root, name, text };
    },
    (row, one) => {
      mark(row.root, "data-level", one.level);
      say(row.name, `${one.name}:`);
      say(row.text, one.words);
    },
  );
  aloud(state, words);
}

let told = "";

// Changes of state are read out, figures are not.
function aloud(state, words) {
  const over = state.pods.filter((pod) => pod.state === "breach").map(podName);
  const text = [state.old ? "Every figure is unknown, the last reading is too old." : words, ...over.map((name) => `${name} is over its budget.`)].join(" ");
  if (text !== told) announce(text);
  told = text;
}

// --- the pools ----------------------------------------------------------------------------------

const slots = new Map(); // uid -> number of its letter and colour, for as long as the pod is there

function assign(state) {
  const there = new Set(state.pods.map((pod) => pod.uid));
  for (const uid of slots.keys()) if (!there.has(uid)) slots.delete(uid);
  const taken = new Set(slots.values());
  const held = (pod) => pod.pools.reduce((sum, one) => sum + (one.gpu_bytes ?? 0), 0) + (pod.host_bytes ?? 0) / 1e6;
  const waiting = state.pods.filter((pod) => !slots.has(pod.uid) && held(pod) > 0).sort((one, two) => held(two) - held(one));
  for (let slot = 0; slot < SLOTS && waiting.length; slot += 1) {
    if (!taken.has(slot)) slots.set(waiting.shift().uid, slot);
  }
}

function letter(uid) {
  return slots.has(uid) ? String.fromCharCode(65 + slots.get(uid)) : "";
}

const PARTS = {
  host: { name: "system", note: "the operating system and everything that is no pod's" },
  "system-gpu": { name: "system, GPU", note: "GPU memory of processes outside pods" },
  unattributed: { name: "unattributed", note: "GPU memory that no process can be named for" },
  leaving: { name: "leaving", note: "comes back by itself" },
  free: { name: "free for pods", note: "until a reserve is touched" },
  reserve: { name: "kept back", note: "of reserves, what nobody has touched" },
};

// Pods in the order of their letters, the largest first when it was first seen; everything else stays in its place.
function ordered(bar) {
  const rank = { host: -2, "system-gpu": -1, unattributed: 90, leaving: 91, free: 92, reserve: 93 };
  const place = (part) => rank[part.kind] ?? slots.get(part.uid) ?? SLOTS;
  return [...(bar.segments ?? [])].sort((one, two) => place(one) - place(two));
}

// The parts of the bar: what is kept back is one, whatever it is kept for.
function joined(bar) {
  const parts = ordered(bar);
  const kept_back = parts.filter((part) => part.kind === "reserve");
  const bytes = kept_back.reduce((sum, part) => sum + part.bytes, 0);
  const others = parts.filter((part) => part.kind !== "reserve");
  return bytes ? [...others, { kind: "reserve", name: "", uid: "", bytes }] : others;
}

// The parts of a legend: a pod's GPU and host memory belong together, and so do the reserves.
function groups(bar) {
  const found = new Map();
  for (const part of ordered(bar)) {
    const pod = part.kind === "pod-gpu" || part.kind === "pod-host";
    const own = pod && slots.has(part.uid);
    const key = own ? `pod ${part.uid}` : pod ? "others" : part.kind;
    const group = found.get(key) ?? { key, kind: pod ? (own ? "pod" : "others") : part.kind, uid: part.uid, name: part.name, gpu: 0, host: 0, bytes: 0 };
    group.bytes += part.bytes;
    if (part.kind === "pod-gpu") group.gpu += part.bytes;
    if (part.kind === "pod-host") group.host += part.bytes;
    found.set(key, group);
  }
  return [...found.values()];
}

function short(resource) {
  return resource.replace("edgeagent.dev/", "");
}

function poolTitle(pool) {
  return pool.kind === "unified" ? "shared by CPU and GPU" : "of the cards";
}

function renderPools(state) {
  const pools = state.bars.map((bar) => ({ bar, pool: state.pools.find((one) => one.resource === bar.resource) }));
  sync(byId("pools"), pools.length ? pools : [null], (one) => one?.bar.resource ?? "none", poolRow, (row, one) => {
    if (one) renderPool(row, one.bar, one.pool, state);
    else say(row.root, noPool(state));
  });
}

function noPool(state) {
  if (!state.board) return "Not known yet.";
  if (state.board.kind === "none") return "No GPU was found, so there is no pool. Pods that ask for one are not scheduled here.";
  return "There is no pool: see the findings and what is not ready.";
}

function poolRow(one) {
  if (!one) return { root: make("p", { class: "dim" }) };
  const title = make("h3");
  const figure = make("p", { class: "big" });
  const about = make("p", { class: "dim" });
  const bar = make("div", { class: "bar", role: "img" });
  const legend = make("ul", { class: "legend" });
  const body = make("tbody");
  const head = make("tr", {}, ...["Part", "GPU", "Host", "Together", "Share"].map((text) => make("th", { scope: "col" }, text)));
  const caption = make("caption");
  const table = make("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "The memory as a table" }, make("table", {}, caption, make("thead", {}, head), body));
  const details = make("details", {}, make("summary", {}, "As a table"), table);
  const scale = make("div", { class: "scale", "aria-hidden": "true" }, make("span", {}, "0"), make("span"));
  const root = make("div", { class: "pool" }, make("div", { class: "pool-head" }, title, figure, about), bar, scale, legend, details);
  return { root, title, figure, about, bar, scale: scale.lastChild, legend, body, caption, chosen: null };
}

function renderPool(row, bar, pool, state) {
  say(row.title, `${short(bar.resource)}, ${poolTitle(bar)}`);
  const free = bar.segments?.find((part) => part.kind === "free")?.bytes ?? null;
  say(row.figure, free === null ? "Who holds what is not known" : `${human(free)} free`);
  mark(row.figure, "data-unknown", free === null ? "" : null);
  say(row.about, poolAbout(bar, pool, state));
  const parts = groups(bar);
  renderBar(row, bar, state);
  sync(row.legend, parts, (one) => one.key, (one) => legendRow(row, one), (item, one) => renderLegend(item, one, row));
  say(row.caption, `${bar.resource}: ${human(bar.total_bytes)}`);
  const reserves = ordered(bar).filter((part) => part.kind === "reserve");
  const lines = reserves.map((part) => ({ ...part, key: `reserve ${part.name}`, label: `kept back: ${part.name}` }));
  const listed = [...parts.filter((one) => one.kind !== "reserve"), ...lines];
  sync(row.body, listed, (one) => one.key, tableRow, (item, one) => renderTable(item, one, bar.total_bytes));
}

function poolAbout(bar, pool, state) {
  const parts = [];
  if (bar.segments === null) parts.push(missing(state, state.stale.includes("gpu") ? "gpu" : "devices"));
  else parts.push(`of ${human(bar.total_bytes)}`);
  if (pool?.advertised_bytes !== null && pool?.advertised_bytes !== undefined) {
    parts.push(`the scheduler may give away ${human(pool.advertised_bytes)}, pods have asked for ${human(pool.gpu_committed_bytes)} of it`);
  }
  if (pool?.overcommitted) parts.push("▲ overcommitted: pods have booked more than there is");
  return parts.join(" · ");
}

function renderBar(row, bar, state) {
  const whole = bar.total_bytes;
  const width = row.bar.clientWidth;
  mark(row.bar, "data-unknown", bar.segments === null ? "" : null);
  sync(
    row.bar,
    joined(bar),
    (part) => `${part.kind} ${part.name} ${part.uid}`,
    () => {
      const text = make("span");
      return { root: make("div", { class: "part" }, text), text };
    },
    (item, part) => {
      const key = part.kind.startsWith("pod-") ? (slots.has(part.uid) ? `pod ${part.uid}` : "others") : part.kind;
      mark(item.root, "data-kind", part.kind);
      mark(item.root, "data-slot", part.kind.startsWith("pod-") ? (slots.get(part.uid) ?? "more") : null);
      mark(item.root, "data-faded", row.chosen !== null && row.chosen !== key ? "" : null);
      size(item.root, part.bytes / whole);
      const room = (width * part.bytes) / whole;
      const sign = part.kind.startsWith("pod-") ? letter(part.uid) : "";
      const words = partWords(part, sign).find((text) => room > 8.5 * text.length + 12);
      say(item.text, words ?? "");
    },
  );
  say(row.scale, human(whole));
  mark(row.bar, "aria-label", barWords(bar, state));
}

// What may stand on a part of the bar, the longest first.
function partWords(part, sign) {
  if (part.kind === "pod-gpu") return [`${sign} ${human(part.bytes)}`.trim(), sign];
  if (part.kind === "pod-host") return [`${sign} host`.trim(), sign];
  if (part.kind === "free") return [`${human(part.bytes)} free`, "free"];
  const { name } = PARTS[part.kind];
  return [`${name} ${human(part.bytes)}`, name];
}

function barWords(bar, state) {
  if (!bar.segments) return `Who holds what of this memory is ${missing(state, "gpu")}`;
  const parts = groups(bar).map((one) => `${groupName(one)} ${human(one.bytes)}`);
  return `${human(bar.total_bytes)} of memory: ${parts.map(plain).join(", ")}`;
}

function groupName(one) {
  if (one.kind === "pod") return one.name;
  if (one.kind === "others") return "other pods";
  return PARTS[one.kind].name;
}

function swatch() {
  return make("span", { class: "swatch", "aria-hidden": "true" });
}

function paint(element, one) {
  mark(element, "data-kind", one.kind === "pod" || one.kind === "others" ? "pod-gpu" : one.kind);
  mark(element, "data-slot", one.kind === "pod" ? (slots.get(one.uid) ?? "more") : one.kind === "others" ? "more" : null);
  say(element, one.kind === "pod" ? letter(one.uid) : "");
}

function legendRow(row, one) {
  const sign = swatch();
  const name = make("bdi", { class: "name" });
  const figure = make("span", { class: "figure" });
  const button = make("button", { type: "button", "aria-pressed": "false" }, sign, name, figure);
  button.addEventListener("click", () => {
    row.chosen = row.chosen === one.key ? null : one.key;
    render();
  });
  return { root: make("li", {}, button), button, sign, name, figure };
}

function renderLegend(item, one, row) {
  paint(item.sign, one);
  say(item.name, groupName(one));
  const parts = [one.gpu && human(one.gpu), one.host && `${human(one.host)} host`].filter(Boolean);
  say(item.figure, one.kind === "pod" ? parts.join(" + ") : human(one.bytes));
  mark(item.name, "data-pod", one.kind === "pod" ? "" : null);
  mark(item.button, "aria-pressed", row.chosen === one.key);
  mark(item.button, "title", plain(PARTS[one.kind]?.note ?? one.name));
}

function tableRow() {
  const cells = [make("th", { scope: "row" }, make("bdi")), ...Array.from({ length: 4 }, () => make("td"))];
  return { root: make("tr", {}, ...cells), cells };
}

function renderTable(item, one, whole) {
  const pod = one.kind === "pod" || one.kind === "others";
  const words = [one.label ?? groupName(one), pod ? human(one.gpu) : "", pod ? human(one.host) : "", human(one.bytes), percent(one.bytes / whole)];
  say(item.cells[0].firstChild, words[0]);
  item.cells.slice(1).forEach((cell, index) => say(cell, words[index + 1]));
}

// --- the pods -----------------------------------------------------------------------------------

let allPods = false;

function matters(pod) {
  return (pod.state !== "ok" && pod.state !== "unknown") || pod.pools.some((one) => one.gpu_bytes !== 0 || one.gpu_budget_bytes !== null);
}

function ranked(pods) {
  const rank = (pod) => ORDER.indexOf(pod.state);
  return [...pods].sort((one, two) => rank(one) - rank(two) || (slots.get(one.uid) ?? 99) - (slots.get(two.uid) ?? 99) || podName(one).localeCompare(podName(two)));
}

function renderPods(state) {
  const ordered = ranked(state.pods);
  const foremost = ordered.filter(matters);
  const rest = ordered.length - foremost.length;
  say(byId("pods-count"), state.pods.length ? String(state.pods.length) : "");
  say(byId("pods-none"), state.pods.length ? "" : noPods(state));
  byId("pods-none").hidden = state.pods.length > 0;
  const more = byId("pods-more");
  more.hidden = rest === 0;
  say(more, allPods ? "Hide pods without GPU memory" : `Show ${many(rest, "pod")} without GPU memory`);
  mark(more, "aria-expanded", allPods);
  const neighbours = new Map(state.neighbours.map((one) => [one.uid, one]));
  const held = new Map(state.plan ? state.plan.held.map((one) => [one.uid, one]) : []);
  const going = new Map(state.plan ? state.plan.evictions.map((one) => [one.uid, one]) : []);
  const killed = new Map(state.plan ? state.plan.kills.map((one) => [one.uid, one]) : []);
  sync(byId("pods"), allPods ? ordered : foremost, (pod) => pod.uid, podRow, (row, pod) => {
    const next = { held: held.get(pod.uid), eviction: going.get(pod.uid), kill: killed.get(pod.uid) };
    renderPod(row, pod, next, neighbours.get(pod.uid), state);
  });
}

function noPods(state) {
  if (!state.board) return "Not known yet.";
  if (standalone(state)) return "No cluster: the agent has found no credentials for one, so it knows no pods. Who holds GPU memory is all told as system or unattributed.";
  if (!known.listed || state.ready.reasons.some((reason) => /^(cluster-|view-|node-name)/.test(reason.name))) return "The pods of this node are not known: see above.";
  return "No pod runs on this node.";
}

byId("pods-more").addEventListener("click", () => {
  allPods = !allPods;
  render();
});

let rows = 0;

function podRow() {
  rows += 1;
  const id = `pod-${rows}`;
  const sign = swatch();
  const namespace = make("bdi", { class: "namespace" });
  const name = make("bdi", { class: "name" });
  const title = make("h3", { id }, sign, make("span", { class: "full" }, namespace, make("span", { class: "dim" }, "/"), name));
  const chip = make("span", { class: "chip" });
  const next = make("p", { class: "pod-next" });
  const why = make("p", { class: "why" });
  const measures = make("ul", { class: "measures" });
  const facts = make("ul", { class: "pod-facts" });
  const effect = make("p", { class: "pod-facts" });
  const root = make("li", { class: "pod", "aria-labelledby": id }, make("div", { class: "pod-head" }, title, chip), make("div", { class: "pod-said" }, next, why), measures, facts, effect);
  return { root, sign, namespace, name, title, chip, next, why, measures, facts, effect };
}

function renderPod(row, pod, next, neighbour, state) {
  mark(row.root, "data-state", pod.state);
  paint(row.sign, { kind: slots.has(pod.uid) ? "pod" : "others", uid: pod.uid });
  say(row.namespace, pod.namespace);
  say(row.name, pod.name);
  mark(row.title, "title", plain(podName(pod)));
  const known_state = STATES[pod.state] ?? { word: pod.state, sign: "?" };
  say(row.chip, `${known_state.sign} ${known_state.word}`);
  say(row.next, podNext(pod, next));
  say(row.why, podWhy(pod, next));
  const pools = pod.pools.length > 1 ? pod.pools.filter((one) => one.gpu_bytes !== 0 || one.gpu_budget_bytes !== null) : pod.pools;
  const measures = pools.map((pool) => ({ pool, kind: state.pools.find((one) => one.resource === pool.resource)?.kind, alone: pools.length === 1 }));
  sync(row.measures, measures, (one) => one.pool.resource, measureRow, (item, one) => renderMeasure(item, one, pod, state));
  const facts = podFacts(pod, neighbour, state).map((text, index) => ({ text, index }));
  sync(row.facts, facts, (one) => one.index, () => ({ root: make("li") }), (item, one) => say(item.root, one.text));
  say(row.effect, neighbour ? effectWords(neighbour) : "");
}

function podNext(pod, next) {
  if (next.kill) return "Its GPU processes are killed now.";
  if (next.eviction) return `Is evicted now, with ${span(next.eviction.grace_seconds)} to end by itself.`;
  if (next.held) return heldWords(next.held);
  if (pod.state === "terminating") return "On its way out: its memory comes back by itself.";
  return pod.state === "unbudgeted" ? "Nothing: it is not evicted for lack of a budget." : "";
}

function podWhy(pod, next) {
  return next.kill?.message ?? next.eviction?.message ?? [pod.reason, next.held?.why].filter(Boolean).join(" · ");
}

function measureRow() {
  const fill = make("span", { class: "fill" });
  const host = make("span", { class: "fill host" });
  const excess = make("span", { class: "excess" });
  const limit = make("span", { class: "tick" });
  const meter = make("div", { class: "meter", role: "img" }, fill, host, excess, limit);
  const label = make("p", { class: "measure-label" });
  const used = make("b", { class: "figure" });
  const of = make("span", { class: "dim" });
  label.append(used, " ", of);
  const line = chart("spark");
  return { root: make("li", { class: "measure" }, label, meter, line.root), used, of, meter, fill, host, excess, limit, line };
}

function renderMeasure(item, { pool, kind, alone }, pod, state) {
  const used = pool.gpu_bytes;
  const budget = pool.gpu_budget_bytes;
  const shared = kind === "unified";
  const host = shared && alone ? pod.host_bytes : null;
  const both = used === null || host === null ? null : used + host;
  const total = alone ? pod.total_budget_bytes : null;
  const by_total = pod.state === "breach" && total !== null && (budget === null || used === null || used <= budget);
  const [value, limit] = by_total ? [both, total] : [used, budget];
  say(item.used, amount(value, state, "gpu"));
  mark(item.used, "data-unknown", value === null ? "" : null);
  const excess = value !== null && limit !== null && value > limit ? `, ${human(value - limit)} over` : "";
  const what = `${by_total ? "GPU and host" : "GPU"}${alone ? "" : shared ? ", shared memory" : ", cards"}`;
  say(item.of, `${what} · ${limit === null ? "no budget" : `budget ${human(limit)}`}${excess}`);
  const scale = Math.max(1, value ?? 0, (limit ?? 0) * 1.02, limit === null ? Math.max(...state.pods.map((one) => one.gpu_bytes ?? 0)) : 0);
  size(item.fill, Math.min(1, (used ?? 0) / scale));
  size(item.host, by_total ? Math.min(1, (host ?? 0) / scale) : 0);
  mark(item.fill, "data-slot", slots.get(pod.uid) ?? "more");
  mark(item.host, "data-slot", slots.get(pod.uid) ?? "more");
  item.limit.hidden = limit === null;
  put(item.limit, (limit ?? 0) / scale);
  put(item.excess, (limit ?? 0) / scale);
  size(item.excess, excess ? (value - limit) / scale : 0);
  mark(item.meter, "data-unknown", value === null ? "" : null);
  mark(item.meter, "data-over", excess ? "" : null);
  mark(item.meter, "aria-label", plain(`${amount(value, state, "gpu")} of ${limit === null ? "no budget" : human(limit)}`));
  const read = (one, find) => ({ time: one.time, value: find(one.pods.get(pod.uid)) ?? null });
  const gpu = known.points.map((one) => read(one, (at) => at?.gpu.get(pool.resource)));
  const hosted = known.points.map((one) => read(one, (at) => at?.host));
  const values = by_total ? gpu.map((one, index) => ({ time: one.time, value: one.value === null || hosted[index].value === null ? null : one.value + hosted[index].value })) : gpu;
  plot(item.line, { values, beside: shared && alone && !by_total ? hosted : [], limit, name: by_total ? "GPU and host memory" : "GPU memory" });
}

function podFacts(pod, neighbour, state) {
  const facts = [];
  facts.push(`host ${amount(pod.host_bytes, state, "host")}`);
  if (pod.total_budget_bytes !== null && pod.host_bytes !== null && pod.gpu_bytes !== null) {
    facts.push(`together ${human(pod.gpu_bytes + pod.host_bytes)} of ${human(pod.total_budget_bytes)}`);
  }
  const advice = advised(pod, state);
  if (advice) facts.push(`recommended budget ${advice}`);
  if (neighbour) facts.push(...neighbourWords(neighbour));
  return facts;
}

// What to write, where it is something else than what is written.
function advised(pod, state) {
  const found = state.budgets.filter((one) => one.namespace === pod.namespace && one.pods.includes(pod.name));
  const other = found.filter((one) => one.gpu.recommended_bytes && one.gpu.recommended_bytes !== one.gpu.budget_bytes);
  return other.map((one) => human(one.gpu.recommended_bytes)).join(" and ");
}

function neighbourWords(one) {
  const words = [];
  const add = (value, text) => value !== null && value !== undefined && words.push(text(value));
  add(one.gpu_utilization_ratio, (value) => `GPU busy ${percent(value)}`);
  add(one.cpu_throttled_ratio, (value) => `CPU throttled ${percent(value)}`);
  add(one.cpu_stall_ratio, (value) => `stalled by CPU ${percent(value)}`);
  add(one.memory_stall_ratio, (value) => `stalled by memory ${percent(value)}`);
  add(one.io_stall_ratio, (value) => `stalled by disk ${percent(value)}`);
  add(one.latency?.p50_seconds, (value) => `p50 ${milliseconds(value)}`);
  add(one.latency?.p99_seconds, (value) => `p99 ${milliseconds(value)}`);
  add(one.latency?.requests_per_second, (value) => `${value.toFixed(value < 10 ? 1 : 0)} requests/s`);
  return words;
}

// What a new neighbour has changed: before → after.
function effectWords(one) {
  if (one.latency_why) return `Its latency is not known: ${one.latency_why}`;
  const effect = one.since_newcomer;
  if (!effect) return "";
  const words = [];
  const add = (name, key, text) => {
    const [before, after] = [effect.before[key], effect.after[key]];
    if (before !== null && after !== null) words.push(`${name} ${text(before)} → ${text(after)}`);
  };
  add("p50", "p50_seconds", milliseconds);
  add("p99", "p99_seconds", milliseconds);
  add("requests/s", "requests_per_second", (value) => value.toFixed(1));
  add("CPU throttled", "cpu_throttled_ratio", percent);
  return words.length ? `Since ${effect.pod} started ${span(effect.seconds)} ago: ${words.join(", ")}` : "";
}

function milliseconds(seconds) {
  return seconds < 10 ? `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms` : `${seconds.toFixed(0)} s`;
}

// --- pressure, decisions, board, findings, budgets ------------------------------------------

const pressure = (() => {
  const figure = make("p", { class: "big" });
  const about = make("p");
  const line = chart("usable");
  const first = make("span");
  const axis = make("p", { class: "axis", "aria-hidden": "true" }, first, make("span", {}, "now"));
  byId("pressure-body").append(figure, about, line.root, axis);
  return { figure, about, line, first };
})();

function renderPressure(state) {
  const usable = state.host?.usable_bytes ?? null;
  const floor = state.floor_bytes ?? null;
  say(pressure.figure, usable === null ? missing(state, "memory") : `${human(usable)} usable`);
  mark(pressure.figure, "data-unknown", usable === null ? "" : null);
  const level = state.host?.pressure ? "error" : "ok";
  mark(byId("pressure"), "data-level", usable === null ? "unknown" : level);
  const limit = floor === null ? "the floor" : `the floor of ${human(floor)}`;
  let words = `No pressure. Below ${limit} a pod over its budget is evicted at once.`;
  if (usable === null) words = "Whether there is pressure is not known.";
  else if (state.host.pressure) words = `▲ Under pressure: below ${limit}, or about to be. Pods over their budgets are evicted without waiting.`;
  say(pressure.about, words);
  const values = known.points.map((one) => ({ time: one.time, value: one.usable }));
  say(pressure.first, `${span(reach())} ago`);
  plot(pressure.line, { values, limit: floor, name: "Usable memory" });
}

function decided(state) {
  const incidents = state.incidents.map((one) => ({
    key: `i ${one.id}`,
    at: one.wall_plausible === false ? null : one.wall,
    title: INCIDENTS[one.kind] ?? one.kind,
    level: one.kind === "would-evict" ? "info" : "error",
    who: one.pod ? podName(one.pod) : "",
    note: one.reason,
    then: outcomeWords(one),
  }));
  const told_notes = new Set(state.incidents.map((one) => one.reason));
  const events = state.events
    .filter((one) => !told_notes.has(one.note))
    .map((one, index) => ({
      key: `e ${one.at} ${one.reason} ${one.regarding} ${index}`,
      at: one.at,
      title: one.reason,
      level: one.reason === "CapacityPublished" ? "info" : "warning",
      who: one.regarding,
      note: one.note,
      then: "",
    }));
  return [...incidents, ...events].sort((one, two) => String(two.at ?? "").localeCompare(String(one.at ?? ""))).slice(0, 12);
}

const OUTCOMES = {
  accepted: "the API server accepted the eviction",
  gone: "it was gone already",
  blocked: "a disruption budget blocked it",
  throttled: "the API server asked to wait",
  misconfigured: "more than one disruption budget matches",
  forbidden: "the API server forbids it",
  unauthorized: "the agent may not do it",
  unknown: "no clear answer came",
  recovered: "it had recovered",
  killed: "its processes were killed",
};

function outcomeWords(incident) {
  const last = incident.outcomes?.at(-1);
  return last ? (OUTCOMES[last.outcome] ?? last.outcome) : "";
}

function renderDecisions(state) {
  const found = decided(state);
  say(byId("decisions-none"), found.length ? "" : "Nothing yet, and nothing had to be done.");
  byId("decisions-none").hidden = found.length > 0;
  const now = Date.parse(state.at) / 1000 + elapsed();
  sync(
    byId("decisions-list"),
    found,
    (one) => one.key,
    (one) => {
      const time = make("time", one.at ? { dateTime: one.at, title: one.at } : {});
      const title = make("b");
      const who = make("bdi", { class: "who" });
      const note = make("p", { class: "note" });
      const then = make("p", { class: "then" });
      return { root: make("li", { "data-level": one.level }, make("p", {}, title, " ", who, " ", time), note, then), time, title, who, note, then };
    },
    (row, one) => {
      say(row.title, one.title);
      say(row.who, one.who);
      say(row.time, one.at ? `${span(now - Date.parse(one.at) / 1000)} ago` : "");
      say(row.note, one.note);
      say(row.then, one.then && `Then: ${one.then}.`);
    },
  );
}

function renderVitals(state) {
  const board = state.board;
  const facts = [];
  const add = (name, value, level) => value !== null && value !== undefined && value !== "" && facts.push({ name, value, level });
  const vitals = state.vitals;
  if (vitals) {
    add("Power mode", vitals.power_mode);
    const warmest = [...(vitals.temperatures ?? [])].filter((one) => one.celsius !== null).sort((one, two) => two.celsius - one.celsius);
    if (warmest.length) add("Warmest", `${warmest[0].celsius.toFixed(0)} °C, ${warmest[0].zone}`);
    if (vitals.throttled !== null && vitals.throttled !== undefined) {
      add("Throttled", vitals.throttled ? `▲ yes${vitals.throttle_reasons?.length ? `: ${vitals.throttle_reasons.join(", ")}` : ""}` : "no", vitals.throttled ? "warning" : undefined);
    }
    const busy = (vitals.devices ?? []).map((one) => percent(one.utilization_ratio));
    add("GPU busy", busy.join(", "));
    if (vitals.fan_ratio !== null && vitals.fan_ratio !== undefined) add("Fan", percent(vitals.fan_ratio));
  } else if (board) add("Power, temperature", state.old ? missing(state, "memory") : "not known");
  for (const [index, device] of state.devices.entries()) {
    const health = device.health === "ok" ? "✓ ok" : `▲ ${device.health}`;
    add(state.devices.length > 1 ? `GPU ${index}` : "GPU", `${device.name}, ${health}`, device.health === "ok" ? undefined : "warning");
  }
  const ai = state.ai_capable;
  if (ai && board?.kind !== "none") {
    const answer = { true: "✓ can use the GPU", false: "▲ cannot use the GPU" }[ai.value] ?? "? not proven";
    add("AI pods", `${answer}. ${ai.why}`, ai.value === false ? "warning" : undefined);
  }
  if (board) {
    add("Module", [board.soc, board.module].filter(Boolean).join(", "));
    add("Release", [board.jetpack && `JetPack ${board.jetpack}`, board.l4t && `L4T ${board.l4t}`].filter(Boolean).join(", "));
  }
  sync(
    byId("vitals-list"),
    facts,
    (one) => one.name,
    () => {
      const name = make("dt");
      const value = make("dd");
      return { root: make("div", {}, name, value), name, value };
    },
    (row, one) => {
      say(row.name, one.name);
      say(row.value, one.value);
      mark(row.value, "data-level", one.level);
    },
  );
  byId("vitals").hidden = facts.length === 0;
}

function findingRow() {
  const sign = make("span", { class: "sign", "aria-hidden": "true" });
  const summary = make("h3");
  const meta = make("p", { class: "dim" });
  const evidence = make("ul", { class: "evidence" });
  const details = make("details", {}, make("summary", {}, "What was looked at"), evidence);
  const remedy = make("pre", { tabIndex: 0 });
  const fix = make("div", { class: "fix" }, make("p", { class: "fix-title" }, "What to do"), remedy, copier("what to do"));
  return { root: make("li", { class: "finding" }, make("div", { class: "finding-head" }, sign, summary), meta, fix, details), sign, summary, meta, evidence, details, remedy, fix };
}

function renderFindings(state) {
  say(byId("findings-count"), state.findings.length ? String(state.findings.length) : "");
  const looked = state.diagnosed ? "Nothing found wrong." : "Not looked for yet, or not lately.";
  const none = state.old || !state.board ? "Not known." : looked;
  say(byId("findings-none"), state.findings.length ? "" : none);
  byId("findings-none").hidden = state.findings.length > 0;
  sync(byId("findings-list"), state.findings, (one) => `${one.id} ${one.subject}`, findingRow, (row, one) => {
    mark(row.root, "data-level", one.severity);
    say(row.sign, SEVERITIES[one.severity] ?? "?");
    say(row.summary, one.summary);
    say(row.meta, `${one.severity}, ${CERTAINTIES[one.certainty] ?? one.certainty} · ${one.subject} · ${one.id}`);
    sync(row.evidence, one.evidence.map((text, index) => ({ text, index })), (at) => at.index, () => ({ root: make("li") }), (item, at) => say(item.root, at.text));
    row.details.hidden = one.evidence.length === 0;
    say(row.remedy, one.remedy);
    row.fix.hidden = !one.remedy;
  });
}

function budgetRow() {
  const name = make("bdi");
  const peaks = make("dl", { class: "facts wide" });
  const write = make("pre", { tabIndex: 0 });
  const fix = make("div", { class: "fix" }, make("p", { class: "fix-title" }, "resources.limits"), write, copier("the limits"));
  const why = make("p", { class: "dim" });
  const details = make("details", {}, make("summary", {}, "Why"), why);
  const root = make("li", { class: "budget" }, make("div", {}, make("h3", {}, name), peaks, details), fix);
  return { root, name, peaks, write, fix, why, details };
}

// One kind of memory of a workload: what it has used, what it may use, what to write.
function adviceWords(part) {
  if (part.peak_week_bytes === null) return "";
  const { peak_day_bytes: day, peak_week_bytes: week, budget_bytes: budget, recommended_bytes: wanted } = part;
  const most = `at most ${human(week)} in a week${day === null || day === week ? "" : `, ${human(day)} in a day`}`;
  const has = budget === null ? "no budget" : `budget ${human(budget)}`;
  if (wanted === null || wanted === budget) return `${most} · ${has}${wanted === null ? "" : ", which is right"}`;
  return `${most} · ${has} → ${human(wanted)}`;
}

// Those whose budget should be another one come first; of who never held GPU memory there is nothing to say.
function advisable(budgets) {
  const change = (one) => Number(adviceWords(one.gpu).includes("→") || (one.pools ?? []).some((pool) => adviceWords(pool).includes("→")));
  const held = (part) => part.peak_week_bytes || part.budget_bytes;
  const found = budgets.filter((one) => held(one.gpu) || (one.pools ?? []).some(held));
  return found.sort((one, two) => change(two) - change(one));
}

function renderBudgets(state) {
  const found = advisable(state.budgets);
  byId("budgets").hidden = found.length === 0;
  sync(byId("budgets-list"), found, (one) => `${one.namespace} ${one.owner?.kind} ${one.owner?.name} ${one.container}`, budgetRow, (row, one) => {
    say(row.name, `${one.namespace}/${one.owner?.name ?? one.pods[0] ?? ""}, container ${one.container}`);
    const pools = one.pools?.length > 1 ? one.pools.map((pool) => [short(pool.resource), pool]) : [["GPU", one.gpu]];
    const facts = [...pools, ["Host", one.host]].map(([name, part]) => ({ name, value: adviceWords(part) })).filter((at) => at.value);
    sync(row.peaks, facts, (at) => at.name, (at) => ({ root: make("div", {}, make("dt", {}, at.name), make("dd")) }), (item, at) => say(item.root.lastChild, at.value));
    const lines = Object.entries(one.write ?? {}).map(([key, value]) => `${key}: ${value}`);
    say(row.write, lines.join("\n"));
    row.fix.hidden = lines.length === 0;
    say(row.why, one.why ?? "");
    row.details.hidden = !one.why;
  });
}

// --- all of it ------------------------------------------------------------------------------------

function renderLink() {
  const since = (Date.now() - link.since) / 1000;
  const element = byId("link");
  let shown = link.state;
  let words = { wait: "connecting", token: "a token is needed", polling: "live, every 2 s" }[link.state];
  if (link.state === "open" || link.state === "polling") {
    const age = known.state ? sampleAge(known.state) : null;
    const old = age !== null && age > maxAge();
    words = `${link.state === "open" ? "live" : words}${age === null ? "" : `, read ${span(age)} ago`}`;
    if (old) shown = "late";
  } else if (link.state === "lost") {
    const again = Math.max(0, Math.ceil((link.retry - Date.now()) / 1000));
    words = `connection lost ${span(since)} ago: ${link.why}${again ? `; next try in ${span(again)}` : "; trying again"}`;
  }
  mark(element, "data-state", shown);
  say(byId("link-text"), words);
}

function render() {
  renderLink();
  const fresh = known.state;
  byId("board").hidden = !fresh || link.state === "token";
  if (!fresh || link.state === "token") return;
  const age = sampleAge(fresh);
  const state = age !== null && age > maxAge() && fresh.board ? forgotten(fresh) : fresh;
  assign(fresh);
  renderHead(state);
  renderPools(state);
  renderPods(state);
  renderPressure(state);
  renderDecisions(state);
  renderVitals(state);
  renderFindings(state);
  renderBudgets(state);
  const digest = known.config?.digest ? ` · configuration ${known.config.digest.slice(0, 12)}` : "";
  say(byId("footer-agent"), `edgeagent ${state.version}${digest}`);
}

setInterval(render, 1000);
addEventListener("resize", render);

// --- the connection ---------------------------------------------------------------------------------

const TOKEN = "edgeagent-token";
let token = stored(() => sessionStorage.getItem(TOKEN)) ?? "";

function stored(use) {
  try {
    return use();
  } catch {
    return null; // storage that is switched off keeps nothing
  }
}

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path, signal) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { headers, signal, cache: "no-store", credentials: "omit", redirect: "error" });
  if (answer.ok) return answer;
  let message = `the agent answers ${answer.status}`;
  try {
    const told_reasons = (await answer.json()).reasons.map((reason) => reason.message);
    if (told_reasons.length) message = told_reasons.join("; ");
  } catch {
    // no reasons, so the status has to do
  }
  throw new Refused(answer.status, message);
}

async function json(path) {
  return (await ask(path, AbortSignal.timeout(SILENT))).json();
}

function connected(how) {
  if (link.state === "lost") announce("Connected again.");
  Object.assign(link, { state: how, since: Date.now(), why: "" });
}

// What is needed beside the stream. An agent that has neither history nor configuration to tell is watched all the same.
async function prepare() {
  const [history, config] = await Promise.allSettled([json("/api/v1/history"), json("/api/v1/config")]);
  for (const one of [history, config]) if (one.reason?.status === 401) throw one.reason;
  if (history.value) recall(history.value.history);
  if (config.value) known.config = config.value.config;
}

async function follow() {
  const control = new AbortController();
  let silence = 0;
  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(() => control.abort(), SILENT);
  };
  try {
    heard();
    const answer = await ask("/api/v1/stream", control.signal);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Error("the agent ended it");
      heard();
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events) receive(event);
    }
  } finally {
    clearTimeout(silence);
    control.abort();
  }
}

function receive(event) {
  const lines = event.split("\n");
  if (!lines.includes("event: state")) return;
  const data = lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
  if (link.state !== "open") connected("open");
  accept(JSON.parse(data));
}

// Where no stream is to be had, the state is asked for again and again, for a while.
async function poll() {
  for (let turn = 0; turn < 15; turn += 1) {
    const state = await json("/api/v1/state");
    if (link.state !== "polling") connected("polling");
    accept(state);
    await pause(2000);
  }
}

let hurry = () => {};

function pause(milliseconds) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    hurry = () => {
      clearTimeout(timer);
      resolve();
    };
  });
}

addEventListener("online", () => hurry());
document.addEventListener("visibilitychange", () => document.hidden || hurry());

function why(error) {
  if (error instanceof Refused) return error.message;
  if (error.name === "AbortError" || error.name === "TimeoutError") return "the agent says nothing";
  if (error instanceof SyntaxError) return "what answers is no edgeagent";
  return error instanceof TypeError ? "the agent does not answer" : error.message;
}

async function watch() {
  let delay = 1000;
  for (;;) {
    try {
      await prepare();
      try {
        await follow();
      } catch (error) {
        if (!(error instanceof Refused) || error.status === 401 || error.status === 403) throw error;
        await poll();
      }
    } catch (error) {
      if (link.state === "open" || link.state === "polling") delay = 1000;
      if (error.status === 401) {
        await askForToken();
        continue;
      }
      lost(error, delay);
      await pause(delay);
      delay = Math.min(2 * delay, 8000);
    }
  }
}

function lost(error, delay) {
  if (link.state !== "lost") {
    Object.assign(link, { state: "lost", since: Date.now() });
    announce("The connection to the agent is lost.");
  }
  Object.assign(link, { why: why(error), retry: Date.now() + delay });
  render();
}

function askForToken() {
  const form = byId("token");
  const field = byId("token-value");
  say(byId("token-problem"), token ? "The agent does not take this token." : "");
  token = "";
  stored(() => sessionStorage.removeItem(TOKEN));
  Object.assign(link, { state: "token", since: Date.now() });
  Object.assign(known, { state: null, config: null, points: [] });
  form.hidden = false;
  render();
  field.focus();
  return new Promise((resolve) => {
    form.onsubmit = (event) => {
      event.preventDefault();
      token = field.value.trim();
      field.value = "";
      stored(() => sessionStorage.setItem(TOKEN, token));
      form.hidden = true;
      Object.assign(link, { state: "wait", since: Date.now() });
      render();
      resolve();
    };
  });
}

// --- light and dark -------------------------------------------------------------------------------

const THEME = "edgeagent-theme";
const THEMES = ["auto", "dark", "light"];
let theme = stored(() => localStorage.getItem(THEME)) ?? "auto";

function dress() {
  mark(document.documentElement, "data-theme", theme === "auto" ? null : theme);
  say(byId("theme"), `Theme: ${theme}`);
}

byId("theme").addEventListener("click", () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  stored(() => localStorage.setItem(THEME, theme));
  dress();
});

dress();
watch();
