// Takes the stacks of ranks that the job's form names, and shows them below it, equal ones once.
// Without this the form leads to a page that does the same. A picture asks by `holdfast:stack`.

const SHOWN_OPEN = 4;

/** `0-3, 7` as numbers; null where it is no such list. */
export function numbersOf(typed) {
  const found = new Set();
  for (const word of typed.split(/[\s,]+/).filter(Boolean)) {
    const match = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(word);
    const [first, last] = match ? [Number(match[1]), Number(match[2] ?? match[1])] : [1, 0];
    if (first > last || last - first >= 1024) return null;
    for (let rank = first; rank <= last; rank += 1) found.add(rank);
    if (found.size > 1024) return null;
  }
  return found.size ? [...found].sort((one, other) => one - other) : null;
}

/** `rank 5`, `5 ranks: 0-3, 7`. */
export function headOf(ranks) {
  const spans = [];
  for (const rank of ranks) {
    if (spans.length && rank === spans.at(-1)[1] + 1) spans.at(-1)[1] = rank;
    else spans.push([rank, rank]);
  }
  const said = spans.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(", ");
  return ranks.length === 1 ? `rank ${said}` : `${ranks.length.toLocaleString("en")} ranks: ${said}`;
}

async function taken(job, ranks) {
  const answer = await fetch(`/v1alpha1/jobs/${encodeURIComponent(job)}/stacks`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Holdfast": "1" },
    body: JSON.stringify({ ranks }),
  });
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error([told.detail ?? `the driver answered ${answer.status}.`, told.fix].filter(Boolean).join(" "));
  return told;
}

function made(name, text, more = {}) {
  const element = document.createElement(name);
  element.textContent = text;
  for (const [key, value] of Object.entries(more)) element.setAttribute(key, value);
  return element;
}

function blockOf({ ranks, text }, open) {
  const block = made("details", "");
  block.open = open;
  const head = headOf(ranks);
  block.append(made("summary", head), made("pre", text, { class: "log", tabindex: 0, role: "region", "aria-label": `Stack of ${head}` }));
  return block;
}

function missingOf(missing) {
  const reasons = new Map();
  for (const { rank, why } of missing) reasons.set(why, [...(reasons.get(why) ?? []), rank]);
  return [...reasons].map(([why, ranks]) => made("p", `No stack of ${headOf(ranks)}: ${why}.`));
}

function saidOf({ stacks }) {
  const count = stacks.reduce((sum, each) => sum + each.ranks.length, 0);
  if (!count) return "No stack was taken.";
  if (count === 1) return "The stack of one rank.";
  return stacks.length === 1 ? `All show the same stack: ${count} ranks.` : `${stacks.length} different stacks of ${count} ranks.`;
}

/** A line that a screen reader reads whenever it changes, and what was taken below it. */
function placeOf() {
  const place = document.getElementById("stacks-taken");
  if (!place.firstChild) place.append(made("p", "", { role: "status" }), made("div", ""));
  return place.children;
}

async function take(form) {
  const [said, shown] = placeOf();
  const ranks = numbersOf(form.elements.ranks.value);
  if (!ranks) {
    said.textContent = "Ranks: write numbers and spans, such as 0-3, 7: 1,024 ranks at most.";
    return;
  }
  said.textContent = `Taking the stack${ranks.length > 1 ? "s" : ""} of ${headOf(ranks)} …`;
  try {
    const told = await taken(form.dataset.job, ranks);
    shown.replaceChildren(...missingOf(told.missing), ...told.stacks.map((each, at) => blockOf(each, at < SHOWN_OPEN)));
    said.textContent = saidOf(told);
  } catch (error) {
    shown.replaceChildren();
    said.textContent = `There are none: ${error.message}`;
  }
}

const formOf = () => document.querySelector("form#stacks[data-job]");

document.addEventListener("submit", (event) => {
  if (event.target !== formOf()) return;
  event.preventDefault();
  take(event.target);
});
document.addEventListener("holdfast:stack", ({ detail: { rank } }) => {
  const form = formOf();
  if (!form) return;
  form.elements.ranks.value = String(rank);
  form.scrollIntoView({ block: "center" });
  take(form);
});
