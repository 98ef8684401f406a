// Asks for this page again and again, and puts what is new in its place: focus, open details and text that is
// being typed stay. If no answer comes, the page says since when it is old.
"use strict";
const pauseMs = 1000 * Number(document.body.dataset.intervalS);
const says = () => document.getElementById("live");
const tell = (text) => { document.getElementById("news").textContent = text; };  // read out by screen readers
let answeredAt = Date.now();

function path(element) {
  if (element.id) return "#" + CSS.escape(element.id);
  const same = [...element.parentElement.children].filter((other) => other.tagName === element.tagName);
  return path(element.parentElement) + " > " + element.tagName + ":nth-of-type(" + (same.indexOf(element) + 1) + ")";
}

// Old and new parts are compared one by one, so that only what differs is replaced: never a form of an edit, in
// which something may be ticked.
function renew(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  const isForm = old.matches("form.edit") || (old.tagName === "FORM" && old.contains(document.activeElement));
  if (isForm || ["INPUT", "SELECT"].includes(old.tagName)) return;
  const sameKind = old.tagName === fresh.tagName && old.children.length === fresh.children.length;
  const holdsText = [...old.childNodes, ...fresh.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!sameKind || holdsText || !old.children.length) {
    if (old.querySelector("form.edit")) return;  // its parts would have to be the same in number
    old.replaceWith(document.importNode(fresh, true));
    return;
  }
  for (const { name, value } of [...fresh.attributes]) {
    if (!(old.tagName === "DETAILS" && name === "open")) old.setAttribute(name, value);
  }
  [...old.children].forEach((child, index) => renew(child, fresh.children[index]));
}

async function look() {
  let tookMs = 0;
  try {
    const began = performance.now();
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "error" });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    tookMs = performance.now() - began;
    if (answer.status === 401) return location.reload();
    const focus = document.activeElement === document.body ? null : path(document.activeElement);
    const open = new Map([...document.querySelectorAll("details[id]")].map((item) => [item.id, item.open]));
    renew(document.querySelector("main"), fresh.querySelector("main"));
    renew(document.querySelector("header"), fresh.querySelector("header"));
    if (document.title !== fresh.title) tell((document.title = fresh.title));
    open.forEach((isOpen, id) => { const item = document.getElementById(id); if (item) item.open = isOpen; });
    if (focus && document.activeElement === document.body) document.querySelector(focus)?.focus({ preventScroll: true });
    answeredAt = Date.now();
    says().classList.remove("late");
  } catch (error) {
    const since = new Date(answeredAt).toISOString().slice(11, 19);
    says().textContent = "No answer since " + since + " UTC: what is shown is old";
    if (!says().classList.contains("late")) tell(says().textContent);
    says().classList.add("late");
  }
  // A page that is slow to make is asked for less often.
  setTimeout(next, Math.max(pauseMs, 5 * tookMs));
}

function next() {
  if (document.hidden) document.addEventListener("visibilitychange", look, { once: true });
  else look();
}

if (pauseMs) setTimeout(next, pauseMs);
