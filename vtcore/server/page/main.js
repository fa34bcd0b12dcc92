// The conversation.

import { refresh, watch } from "./server.js";
import { frames, get, getKey, setKey } from "./stream.js";
import { element, hideTip, TokenText } from "./tokens.js";

const part = (id) => document.getElementById(id);
const [log, empty, prompt, send, stop, said] = ["log", "empty", "prompt", "send", "stop", "said"].map(part);
const sampling = part("sampling");
const TEXTS = ["stop"];
const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "max_tokens", "seed", "repetition_penalty", "presence_penalty", "frequency_penalty"];
const ALTERNATIVES = 5;
let [messages, running] = [[], null];

const body = () => {
  const value = (name) => sampling.elements[name].value;
  const system = value("system").trim() ? [{ role: "system", content: value("system") }] : [];
  const numbers = NUMBERS.filter((name) => value(name) !== "").map((name) => [name, Number(value(name))]);
  const texts = TEXTS.filter((name) => value(name) !== "").map((name) => [name, value(name)]);
  const scores = sampling.elements.probabilities.checked ? { logprobs: true, top_logprobs: ALTERNATIVES } : {};
  const stream = { stream: true, stream_options: { include_usage: true } };
  return { messages: [...system, ...messages], ...stream, ...Object.fromEntries([...numbers, ...texts]), ...scores };
};

const turn = (role, name) => {
  const [item, text] = [element("li", role), element("div", "text")];
  item.append(element("div", "who", name), text);
  log.append(item);
  empty.hidden = true;
  return { item, text };
};

const scroll = (item) => item.scrollIntoView({ block: "end" });
const near = () => log.scrollHeight - log.scrollTop - log.clientHeight < 80;

const WHY = { stop: "", length: "cut at the limit of tokens", abort: "stopped", error: "broken off" };
const figures = (usage, times, why) => {
  const cached = usage?.prompt_tokens_details?.cached_tokens;
  const speed = times.count > 1 ? (times.count - 1) / ((times.last - times.first) / 1000) : 0;
  return [
    usage && `${usage.prompt_tokens} prompt tokens${cached === undefined ? "" : `, ${cached} from the prefix cache`}`,
    `${usage?.completion_tokens ?? times.count} tokens`,
    speed && `${speed.toPrecision(3)} tokens/s`,
    times.first && `first after ${Math.round(times.first - times.start)} ms`,
    WHY[why] ?? why,
  ].filter(Boolean).join(" · ");
};

const BREATH = 50; // milliseconds of reading after which clicks and pictures have their turn

const answer = async ({ item, text }, conversation, signal) => {
  const [shown, times, waiting] = [new TokenText(text), { start: performance.now(), count: 0 }, []];
  const asked = body();
  let [whole, usage, why, breath] = ["", null, "abort", times.start];
  const take = ({ content = "" }, scores) => {
    whole += content;
    if (asked.logprobs) shown.add(content, scores);
    else text.append(content);
  };
  const draw = () => { // all that came since the last picture: laying a long answer out takes longer than a token
    const follow = near();
    for (const choice of waiting.splice(0)) take(choice.delta, choice.logprobs?.content ?? []);
    if (follow) scroll(item);
  };
  try {
    for await (const frame of frames("v1/chat/completions", asked, signal)) {
      const now = performance.now();
      usage = frame.usage ?? usage;
      if (frame.choices.length && !waiting.length) requestAnimationFrame(draw);
      waiting.push(...frame.choices);
      for (const choice of frame.choices) {
        why = choice.finish_reason ?? why;
        if (choice.delta.content) times.first ??= now;
        if (choice.delta.content) [times.last, times.count] = [now, times.count + (choice.logprobs?.content?.length || 1)];
      }
      if (now - breath > BREATH) {
        await new Promise((go) => setTimeout(go));
        breath = performance.now();
      }
    }
  } catch (error) {
    why = error.name === "AbortError" ? "abort" : "error";
    if (why === "error") throw error;
  } finally {
    draw();
    shown.end();
    if (whole) conversation.push({ role: "assistant", content: whole });
    item.append(element("div", "figures", whole || usage ? figures(usage, times, why) : ""));
    said.textContent = item.lastChild.textContent ? `Answer: ${whole} (${item.lastChild.textContent})` : "";
  }
};

const takeBack = (conversation) => {
  const { content } = conversation.pop(); // what was not answered is no part of the conversation
  prompt.value ||= content;
};

const exchange = async (question) => {
  const conversation = messages; // a new one may be begun meanwhile
  conversation.push({ role: "user", content: question });
  turn("user", "You").text.textContent = question;
  const made = turn("assistant", "Model");
  made.item.classList.add("busy");
  made.item.setAttribute("aria-busy", "true");
  scroll(made.item);
  running = new AbortController();
  [stop.disabled, send.disabled] = [false, true];
  try {
    await answer(made, conversation, running.signal);
  } catch (error) {
    const told = element("p", "error", error.message);
    told.setAttribute("role", "alert");
    made.item.append(told);
  } finally {
    if (conversation.at(-1).role === "user") takeBack(conversation);
    [stop.disabled, send.disabled, running] = [true, false, null];
    made.item.classList.remove("busy");
    made.item.removeAttribute("aria-busy");
    scroll(made.item);
    refresh();
  }
};

const cancel = () => running?.abort();

part("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const wrong = !sampling.checkValidity();
  if (wrong) part("settings").open = true;
  if (wrong) sampling.reportValidity();
  if (wrong || running || !prompt.value.trim()) return;
  const question = prompt.value;
  prompt.value = "";
  exchange(question);
});
prompt.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  part("form").requestSubmit();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") cancel();
  if (event.key === "Escape") hideTip();
});
stop.addEventListener("click", () => {
  cancel();
  prompt.focus();
});
part("new").addEventListener("click", () => {
  cancel();
  messages = [];
  log.replaceChildren();
  empty.hidden = false;
  prompt.focus();
});
sampling.addEventListener("submit", (event) => event.preventDefault());
sampling.elements.key.value = getKey();
sampling.elements.key.addEventListener("change", (event) => {
  setKey(event.target.value.trim());
  refresh();
});
for (const id of ["settings", "server"]) part(id).open = matchMedia("(min-width: 60rem)").matches;
watch(async () => {
  const told = await get("v1/models").catch(() => null);
  part("model").textContent = told ? told.data[0].id : "";
  document.title = told ? `${told.data[0].id} · vtcore` : "vtcore";
  return told !== null;
});
