// What the pictures have in common beside the canvas: sentences, a legend, a table, a moment.

import { followAddress, keep, told } from "./address.js";
import { pastOf } from "./moments.js";

/** An element with text, and only text: whatever it quotes is no mark-up. */
export function made(name, text = "", className = "") {
  const element = document.createElement(name);
  if (text) element.textContent = text;
  if (className) element.className = className;
  return element;
}

/** Replaces the text where it is another one: screen readers are told of what is new alone. */
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A list of who differs: name in bold, then why. */
export function names(list, items) {
  const key = JSON.stringify(items);
  if (list.dataset.key === key) return;
  list.dataset.key = key;
  list.replaceChildren(
    ...items.map(([name, says]) => {
      const item = made("li");
      item.append(made("strong", name, "view-name"), document.createTextNode(` ${says}`));
      return item;
    }),
  );
}

/** A table behind a summary, made when it is open: for screen readers, and for who wants figures. */
export class Table {
  constructor(figure, heads, caption) {
    this.details = made("details", "", "view-table");
    this.details.append(made("summary", "As a table"));
    this.table = made("table");
    this.table.append(made("caption", caption));
    const line = made("tr");
    line.append(...heads.map((head) => Object.assign(made("th", head), { scope: "col" })));
    const head = made("thead");
    head.append(line);
    this.body = made("tbody");
    this.table.append(head, this.body);
    const wide = made("div", "", "view-wide");
    wide.tabIndex = 0;
    wide.setAttribute("role", "region");
    wide.setAttribute("aria-label", caption);
    wide.append(this.table);
    this.details.append(wide);
    this.rows = () => [];
    this.details.addEventListener("toggle", () => this.fill());
    figure.append(this.details);
  }

  set(rows) {
    this.rows = rows;
    this.fill();
  }

  fill() {
    if (!this.details.open) return;
    this.body.replaceChildren(
      ...this.rows().map((cells) => {
        const line = made("tr");
        line.append(...cells.map((cell, at) => (at ? made("td", cell) : Object.assign(made("th", cell), { scope: "row" }))));
        return line;
      }),
    );
  }
}

/** What a colour means; `items`: [its name in the style sheet, what is read]. */
export function legend(figure, items) {
  const list = made("ul", "", "view-legend");
  for (const [kind, says] of items) {
    const item = made("li", says);
    item.dataset.kind = kind;
    list.append(item);
  }
  figure.append(list);
  return list;
}

/**
 * A slider over the past of a job, once there is one. It calls `changed` with a moment, in seconds
 * since the job was submitted, or null, which is now; the moment is one for all pictures, and in the
 * address once the hand rests.
 */
export function moment(figure, job, longestS, changed, signal) {
  const label = made("label", "Moment ", "view-moment");
  label.hidden = true;
  const range = made("input");
  Object.assign(range, { type: "range", max: 0, step: 1, value: 0 });
  const said = made("output", "now");
  label.append(range, said);
  figure.append(label);
  let ageS = null;
  let atS = told().at ?? null;
  const say = (ago) => {
    const text = ago ? `${ago} s ago` : "now";
    put(said, text);
    range.setAttribute("aria-valuetext", text);
  };
  const stretch = (least = 0) => Object.assign(range, { min: -Math.max(least, Math.min(longestS, Math.floor(ageS()))) });
  const place = () => {
    const ago = atS === null ? 0 : Math.max(1, Math.round(ageS() - atS));
    stretch(ago);
    range.value = -ago;
    say(ago);
  };
  range.addEventListener("input", () => {
    const ago = -Number(range.value);
    say(ago);
    atS = ago ? Math.max(0, Math.round(10 * (ageS() - ago)) / 10) : null;
    changed(atS);
  });
  range.addEventListener("change", () => keep({ at: atS }, { step: true }));
  followAddress(() => {
    const at = told().at ?? null;
    if (at === atS) return;
    atS = at;
    if (ageS) place();
    changed(atS);
  }, signal);
  pastOf(job).then((found) => {
    ageS = found;
    range.addEventListener("pointerdown", () => stretch());
    range.addEventListener("focus", () => stretch());
    place();
    label.hidden = false;
  });
  return { is: () => atS };
}

export const seconds = (value) => (value < 1 ? `${(1000 * value).toPrecision(3)} ms` : `${value.toPrecision(3)} s`);
