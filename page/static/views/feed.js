// Answers of the API, asked for once a second while somebody can see the page: one question however
// many pictures show it.

import { askAgain, askBeside } from "./ask.js";

const PERIOD_MS = 1000;
const LONGEST_MS = 15000;

const feeds = new Map();

/**
 * Calls `told(answer, error)` for each answer of `url` until the signal is aborted. `as`: what a
 * worker makes of it before.
 */
export function follow(url, told, signal, as = "") {
  const key = `${url} ${as}`;
  let feed = feeds.get(key);
  if (!feed) feeds.set(key, (feed = new Feed(url, as)));
  feed.add(told);
  signal.addEventListener("abort", () => {
    if (feed.drop(told)) feeds.delete(key);
  });
}

class Feed {
  constructor(url, as) {
    this.url = url;
    this.as = as;
    this.listeners = new Set();
    this.waitMs = PERIOD_MS;
    this.timer = null;
    this.last = null;
    this.seen = {};
    this.asking = false;
    this.onVisible = () => this.look();
    document.addEventListener("visibilitychange", this.onVisible);
  }

  add(told) {
    this.listeners.add(told);
    if (this.last) told(this.last, null);
    this.look();
  }

  drop(told) {
    this.listeners.delete(told);
    if (this.listeners.size) return false;
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.onVisible);
    return true;
  }

  async look() {
    clearTimeout(this.timer);
    if (document.hidden || this.asking || !this.listeners.size) return;
    this.asking = true;
    let [told, error] = [null, null];
    try {
      told = await (this.as ? askBeside(this.url, this.as, this.seen) : askAgain(this.url, this.seen));
      this.last = told ?? this.last;
      this.waitMs = PERIOD_MS;
    } catch (why) {
      error = why;
      this.seen = {};
      this.waitMs = Math.min(LONGEST_MS, this.waitMs * 2);
    }
    this.asking = false;
    if (told || error) for (const listener of this.listeners) listener(told, error);
    this.timer = setTimeout(() => this.look(), this.waitMs);
  }
}
