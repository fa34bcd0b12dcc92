// The panel that tells of the server: what it does now, and what ran where.

import { get } from "./stream.js";
import { element } from "./tokens.js";

const [state, trouble, figures] = ["state", "trouble", "figures"].map((id) => document.getElementById(id));
const SECONDS = 3;

const count = (n) => n.toLocaleString("en");
const share = (part, whole) => (whole ? `${((100 * part) / whole).toFixed(1)} % (${count(part)} of ${count(whole)})` : "nothing asked yet");

const measured = (value) => {
  const meter = element("meter");
  meter.value = value;
  meter.setAttribute("aria-label", "KV cache in use");
  return [meter, `${(100 * value).toFixed(1)} %`];
};

const rows = ({ info, stats, restarts }) => [
  ["Running", count(stats.running)],
  ["Waiting", count(stats.waiting)],
  ["KV cache in use", ...measured(stats.kv_usage)],
  ["Prefix-cache hits", share(stats.prefix_hits, stats.prefix_queries)],
  ["Preemptions", count(stats.preemptions)],
  ["Longest context", `${count(info.max_model_len)} tokens`],
  ["Engine restarts", count(restarts)],
];

const fill = (id, names, lines) => {
  const head = element("thead");
  head.append(element("tr"));
  head.rows[0].append(...names.map((name) => element("th", typeof lines[0]?.[names.indexOf(name)] === "number" ? "number" : "", name)));
  const body = element("tbody");
  for (const line of lines) {
    const made = element("tr");
    made.append(...line.map((value) => element("td", typeof value === "number" ? "number" : "", typeof value === "number" ? count(value) : value)));
    body.append(made);
  }
  if (!lines.length) body.append(element("tr"));
  if (!lines.length) body.rows[0].append(Object.assign(element("td", "", "nothing"), { colSpan: names.length }));
  document.getElementById(id).replaceChildren(head, body);
};

const show = (told) => {
  figures.replaceChildren(
    ...rows(told).flatMap(([name, ...values]) => {
      const shown = element("dd");
      shown.append(...values);
      return [element("dt", "", name), shown];
    }),
  );
  fill("ran", ["Op", "Provider", "Calls"], told.report.ran.map((r) => [r.op, r.provider, r.calls]));
  fill("declined", ["Op", "Provider", "Why", "Calls"], told.report.declined.map((r) => [r.op, r.provider, r.reason, r.calls]));
  fill("copied", ["Op", "Way", "Copies", "Bytes"], told.report.copied.map((r) => [r.op, r.way, r.copies, r.nbytes]));
};

const say = (text, bad) => {
  if (state.textContent !== text) state.textContent = text;
  state.classList.toggle("bad", bad);
};

export const refresh = async () => {
  try {
    show(await get("stats"));
    trouble.hidden = true;
    say("ready", false);
    return true;
  } catch (error) {
    trouble.textContent = error.message;
    trouble.hidden = false;
    say({ 401: "needs an API key", 503: "engine not ready" }[error.status] ?? "not reached", true);
    return false;
  }
};

export const watch = async (found) => {
  let known = false;
  for (;;) {
    if (!document.hidden && (await refresh()) && !known) known = await found();
    await new Promise((go) => setTimeout(go, 1000 * SECONDS));
  }
};
