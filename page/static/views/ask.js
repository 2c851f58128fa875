// One question to the driver, on the page's own cookie.

/** The answer. Throws with a sentence, and the status where there is one. */
export async function ask(url, signal) {
  const answer = await fetch(url, { credentials: "same-origin", cache: "no-store", signal });
  if (answer.ok) return answer.json();
  const problem = await answer.json().catch(() => ({}));
  throw Object.assign(new Error(problem.detail || `the driver answered ${answer.status}`), { status: answer.status });
}

export const routeOf = (job, name) => `/v1alpha1/jobs/${encodeURIComponent(job)}/${name}`;

let worker = null;
let asked = 0;
const waiting = new Map();

/** The same, asked and made ready by a worker. `as`: one of its MAKES. */
export function askBeside(url, as) {
  worker ??= begun();
  asked += 1;
  const id = asked;
  return new Promise((done, failed) => {
    waiting.set(id, { done, failed });
    worker.postMessage({ id, url, as });
  });
}

function begun() {
  const made = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  made.onmessage = ({ data: { id, told, error } }) => {
    const { done, failed } = waiting.get(id);
    waiting.delete(id);
    if (error) failed(Object.assign(new Error(error.message), { status: error.status }));
    else done(told);
  };
  made.onerror = () => {
    for (const { failed } of waiting.values()) failed(new Error("this browser does not run what makes the picture"));
    waiting.clear();
  };
  return made;
}
