// One question to the driver, on the page's own cookie.

/** The answer. Throws with a sentence, and the status where there is one. */
export const ask = async (url) => (await asked(url)).json();

/** The same, or null where it is still the one whose tag is in `seen`, which is kept up to date. */
export const askAgain = async (url, seen) => (await asked(url, seen))?.json() ?? null;

async function asked(url, seen = {}) {
  const headers = seen.tag ? { "If-None-Match": seen.tag } : {};
  const answer = await fetch(url, { credentials: "same-origin", cache: "no-store", headers });
  if (answer.status === 304) return null;
  if (answer.ok) {
    seen.tag = answer.headers.get("ETag");
    return answer;
  }
  const problem = await answer.json().catch(() => ({}));
  throw Object.assign(new Error(problem.detail || `the driver answered ${answer.status}`), { status: answer.status });
}

export const routeOf = (job, name) => `/v1alpha1/jobs/${encodeURIComponent(job)}/${name}`;

let worker = null;
let count = 0;
const waiting = new Map();

/** As `askAgain`, made ready by a worker, which begins while the driver answers. `as`: of its MAKES. */
export async function askBeside(url, as, seen) {
  worker ??= begun();
  const answer = await asked(url, seen);
  if (!answer) return null;
  const data = await answer.arrayBuffer();
  count += 1;
  const id = count;
  return new Promise((done, failed) => {
    waiting.set(id, { done, failed });
    worker.postMessage({ id, data, as }, [data]);
  });
}

function begun() {
  const made = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  made.onmessage = ({ data: { id, told, error } }) => {
    const { done, failed } = waiting.get(id);
    waiting.delete(id);
    if (error) failed(new Error(error));
    else done(told);
  };
  made.onerror = () => {
    for (const { failed } of waiting.values()) failed(new Error("this browser does not run what makes the picture"));
    waiting.clear();
  };
  return made;
}
