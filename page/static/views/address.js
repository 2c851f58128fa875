// What is looked at is in the page's address, so that whoever opens it sees the same:
//   #view=timeline&rank=3&at=1234.5&timeline=4,0.31,0
// `view`: the picture that was used last; `rank`: the one that was chosen; `at`: a moment of the past,
// in seconds since the job was submitted, for a time ago would be another one tomorrow; by the name of
// a picture: its zoom, and what share of it lies left of what is seen, and above. What is not of this
// form is passed over.

const whole = (text) => (/^\d{1,9}$/.test(text) ? Number(text) : null);
const number = (text) => (/^\d{1,10}(\.\d{1,6})?$/.test(text) ? Number(text) : null);

function place(text) {
  const found = text.split(",").map(number);
  return found.length === 3 && !found.includes(null) ? found : null;
}

const PLACES = { heatmap: place, timeline: place, view3d: place };
const view = (text) => (Object.hasOwn(PLACES, text) ? text : null);
const READ = { view, rank: whole, at: number, ...PLACES };

/** What an address says, by name; nothing of what it leaves out. */
export function told(hash = location.hash) {
  const found = {};
  for (const [name, text] of new URLSearchParams(hash.slice(1))) {
    const value = Object.hasOwn(READ, name) ? READ[name](text) : null;
    if (value !== null) found[name] = value;
  }
  return found;
}

/** The same as the end of an address; null stands for nothing. */
export function textOf(says) {
  const named = Object.keys(READ).filter((name) => says[name] !== null && says[name] !== undefined);
  return named.map((name) => `${name}=${says[name]}`).join("&");
}

const followers = new Set();

/** Put it into the address. `step`: the browser's way back leads to what was there before. */
export function keep(changes, { step = false } = {}) {
  const before = told();
  const text = textOf({ ...before, ...changes });
  if (text === textOf(before)) return;
  const url = text ? `#${text}` : location.pathname + location.search;
  if (step) history.pushState(null, "", url);
  else history.replaceState(null, "", url);
  for (const follower of followers) follower({ gone: false });
}

/** Calls it when the address says something else. `gone`: by the browser's way back or forth. */
export function followAddress(follower, signal) {
  if (!followers.size) addEventListener("popstate", went);
  followers.add(follower);
  signal.addEventListener("abort", () => {
    followers.delete(follower);
    if (!followers.size) removeEventListener("popstate", went);
  });
}

function went() {
  for (const follower of followers) follower({ gone: true });
}
