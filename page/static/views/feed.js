// Answers of the API, asked for once a second while somebody can see the page: one question however
// many pictures show it.

const PERIOD_MS = 1000;
const LONGEST_MS = 15000;

const feeds = new Map();

/** Calls `told(answer, error)` for each answer of `url` until the signal is aborted. */
export function follow(url, told, signal) {
  let feed = feeds.get(url);
  if (!feed) feeds.set(url, (feed = new Feed(url)));
  feed.add(told);
  signal.addEventListener("abort", () => {
    if (feed.drop(told)) feeds.delete(url);
  });
}

/** One answer. Throws with a sentence. */
export async function ask(url, signal) {
  const answer = await fetch(url, { credentials: "same-origin", cache: "no-store", signal });
  if (answer.ok) return answer.json();
  const problem = await answer.json().catch(() => ({}));
  const error = new Error(problem.detail || `the driver answered ${answer.status}`);
  error.status = answer.status;
  throw error;
}

export const routeOf = (job, name) => `/v1alpha1/jobs/${encodeURIComponent(job)}/${name}`;

class Feed {
  constructor(url) {
    this.url = url;
    this.listeners = new Set();
    this.waitMs = PERIOD_MS;
    this.timer = null;
    this.last = null;
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
    let error = null;
    try {
      this.last = await ask(this.url);
      this.waitMs = PERIOD_MS;
    } catch (why) {
      error = why;
      this.waitMs = Math.min(LONGEST_MS, this.waitMs * 2);
    }
    this.asking = false;
    for (const told of this.listeners) told(error ? null : this.last, error);
    this.timer = setTimeout(() => this.look(), this.waitMs);
  }
}
