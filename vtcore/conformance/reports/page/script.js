"use strict";
// The page is complete without this: it adds a filter, buttons that copy, and opens what a link leads to.
const form = document.querySelector(".filter");
const rows = [...document.querySelectorAll(".map tbody tr")];

function filter() {
  const text = form.text.value.trim().toLowerCase();
  let shown = 0;
  for (const row of rows) {
    const fits = row.dataset.op.includes(text) && (!form.state.value || row.dataset.states.split(" ").includes(form.state.value));
    row.hidden = !fits;
    shown += fits;
  }
  form.querySelector("output").textContent = `${shown} of ${rows.length} ops`;
}

function open() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) {
    target.open = true;
    target.scrollIntoView();
    target.querySelector("summary").focus();
  }
}

async function copy(event) {
  const button = event.currentTarget;
  await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

form.hidden = false;
form.addEventListener("input", filter);
form.addEventListener("submit", (event) => event.preventDefault());
filter();
if (navigator.clipboard) {
  for (const button of document.querySelectorAll(".copy")) {
    button.hidden = false;
    button.addEventListener("click", copy);
  }
}
addEventListener("hashchange", open);
open();
