// An answer's text, a span a token, and the box that tells how likely each was.

const tip = document.getElementById("tip");
const DOUBT = 0.5; // under this probability a token is underlined

export const element = (name, className, text) => {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};

const percent = (logprob) => {
  const p = 100 * Math.exp(logprob);
  return p >= 0.1 ? `${p.toFixed(1)} %` : p > 0 ? `${p.toPrecision(1)} %` : "0 %";
};

const visible = (text) => text.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥") || "(part of a character)";

const row = (entry, chosen) => {
  const made = element("tr", chosen ? "chosen" : "");
  made.append(element("td"), element("td", "number", percent(entry.logprob)), element("td", "bars"));
  made.cells[0].append(element("code", "", visible(entry.token)));
  const bar = element("span", "bar");
  bar.style.width = `${100 * Math.exp(entry.logprob)}%`;
  made.cells[2].append(bar);
  return made;
};

const table = (entry) => {
  const made = element("table");
  const listed = entry.top_logprobs.some((other) => other.token === entry.token);
  if (!listed) made.append(row(entry, true));
  made.append(...entry.top_logprobs.map((other) => row(other, other.token === entry.token)));
  return made;
};

export const hideTip = () => {
  tip.hidden = true;
  document.querySelector(".token.shown")?.classList.remove("shown");
};

const showTip = (span, entries) => {
  hideTip();
  span.classList.add("shown");
  tip.replaceChildren(...entries.map(table));
  tip.hidden = false;
  const [place, own] = [span.getClientRects()[0] ?? span.getBoundingClientRect(), tip.getBoundingClientRect()];
  const left = Math.max(4, Math.min(place.left, document.documentElement.clientWidth - own.width - 4));
  const above = place.top - own.height - 6;
  tip.style.left = `${left + scrollX}px`;
  tip.style.top = `${(above > 0 ? above : place.bottom + 6) + scrollY}px`;
};

// Text comes in deltas, and may lag behind the tokens, since half a character or what may begin a stop text is held back.
export class TokenText {
  constructor(target) {
    this.target = target;
    this.decoder = new TextDecoder();
    this.entries = []; // tokens whose text has not been shown
    this.text = ""; // text whose tokens are not known to be whole
    this.piece = "";
  }

  add(text, entries) {
    this.text += text;
    for (const entry of entries) this.#token(entry);
  }

  #token(entry) {
    this.entries.push(entry);
    this.piece += this.decoder.decode(new Uint8Array(entry.bytes ?? []), { stream: true });
    const shown = [this.piece, this.piece.trimStart()].find((piece) => piece && this.text.startsWith(piece));
    if (shown) this.#span(shown);
    else if (this.text && this.piece) this.#span(this.text); // special tokens and the like: the text is right, the border may not be
  }

  #span(text) {
    const [span, entries] = [element("span", "token", text), this.entries];
    this.text = this.text.slice(text.length);
    this.entries = [];
    this.piece = "";
    span.tabIndex = this.target.querySelector(".token") ? -1 : 0; // one stop for Tab; arrows go on from there
    span.classList.toggle("doubt", Math.min(...entries.map((e) => Math.exp(e.logprob))) < DOUBT);
    span.setAttribute("aria-describedby", "tip");
    span.addEventListener("pointerenter", () => showTip(span, entries));
    span.addEventListener("pointerleave", hideTip);
    span.addEventListener("focus", () => showTip(span, entries));
    span.addEventListener("blur", hideTip);
    span.addEventListener("keydown", (event) => walk(event, span));
    this.target.append(span);
  }

  end() {
    if (this.text) this.target.append(this.text);
    this.text = "";
  }
}

const walk = (event, span) => {
  const spans = [...span.parentElement.querySelectorAll(".token")];
  const at = spans.indexOf(span);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: spans.length - 1 }[event.key];
  if (event.key === "Escape") hideTip();
  if (to === undefined || !spans[to]) return;
  event.preventDefault();
  [span.tabIndex, spans[to].tabIndex] = [-1, 0];
  spans[to].focus();
};
