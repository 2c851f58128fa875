// Keeps the page as it would be if it were loaded anew: follows the driver's events, fetches its own
// address when something happened, and puts what has changed in place of what was there. All facts
// are the server's; without this file the page is as true as when it was loaded.

import { morph } from "./morph.js";

const SETTLE_MS = 150; // events come in bunches
const LOOK_MS = 2000; // steps and speed are no events
const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 8000;

const connection = document.getElementById("connection");
let sequence = Number(document.body.dataset.sequence);
let lostAt = null;
let fetching = false;
let again = false;

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** Says what is wrong with the connection; "" where nothing is. Only what is new is said. */
function tell(text) {
  if (connection.textContent !== text) connection.textContent = text;
}

function lost() {
  lostAt ??= new Date();
  tell(`Connection lost since ${lostAt.toLocaleTimeString([], { hour12: false })}; trying again. What is shown may be old.`);
}

/** The page as it is now, in place of the one that is shown. */
async function refresh() {
  if (fetching) {
    again = true;
    return;
  }
  fetching = true;
  try {
    do {
      again = false;
      await load();
    } while (again);
  } catch {
    lost(); // who follows the events says when it is back
  } finally {
    fetching = false;
  }
}

async function load() {
  const answer = await fetch(location.pathname + location.search, { headers: { Accept: "text/html" }, cache: "no-store" });
  if (!answer.ok && answer.status !== 401 && answer.status !== 404) throw new Error(String(answer.status));
  const made = new DOMParser().parseFromString(await answer.text(), "text/html");
  document.title = made.title;
  morph(document.getElementById("main"), made.getElementById("main"));
  document.dispatchEvent(new CustomEvent("holdfast:changed"));
}

let due = null;
function soon() {
  due ??= setTimeout(() => {
    due = null;
    refresh();
  }, SETTLE_MS);
}

/** Reads events until the connection ends; each is news. */
async function follow() {
  const answer = await fetch(`/v1alpha1/events?after=${sequence}`, { cache: "no-store" });
  if (answer.status === 401 || answer.status === 403) return false;
  if (!answer.ok) throw new Error(String(answer.status));
  if (lostAt) soon();
  lostAt = null;
  tell("");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("ended");
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("id: ")) continue;
      sequence = Number(line.slice(4));
      soon();
    }
  }
}

async function keepFollowing() {
  let wait = FIRST_WAIT_MS;
  for (;;) {
    const began = performance.now();
    try {
      if (!(await follow())) {
        tell("This session is over. A new address: holdfast page");
        return;
      }
    } catch {
      lost();
    }
    if (performance.now() - began > LONGEST_WAIT_MS) wait = FIRST_WAIT_MS;
    await sleep(wait * (0.5 + Math.random() / 2));
    wait = Math.min(2 * wait, LONGEST_WAIT_MS);
  }
}

setInterval(() => {
  if (!document.hidden && !lostAt) soon();
}, LOOK_MS);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) soon();
});
keepFollowing();
