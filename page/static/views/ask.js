// One question to the driver, on the page's own cookie.

/** The answer. Throws with a sentence, and the status where there is one. */
export const ask = async (url) => (await asked(url)).json();

async function asked(url) {
  const answer = await fetch(url, { credentials: "same-origin", cache: "no-store" });
  if (answer.ok) return answer;
  const problem = await answer.json().catch(() => ({}));
  throw Object.assign(new Error(problem.detail || `the driver answered ${answer.status}`), { status: answer.status });
}

export const routeOf = (job, name) => `/v1alpha1/jobs/${encodeURIComponent(job)}/${name}`;

let worker = null;
let count = 0;
const waiting = new Map();

/** The same, made ready by a worker, which begins while the driver answers. `as`: one of its MAKES. */
export async function askBeside(url, as) {
  worker ??= begun();
  const data = await (await asked(url)).arrayBuffer();
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
