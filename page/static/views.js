// Mounts the pictures of a job's ranks: every <figure class="view" data-view="…" data-job="…">.
// Native modules, no code of others. What is drawn here is drawn as page/draw does it for files.

import { heatmap } from "./views/heatmap.js";
import { timeline } from "./views/timeline.js";
import { view3d } from "./views/view3d.js";

const VIEWS = { heatmap, timeline, view3d };
const mounted = new WeakMap();

/** The style sheet beside this file; colours are read from it, so it has to be there first. */
function styled() {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = new URL("views.css", import.meta.url).href;
  link.dataset.views = "";
  return new Promise((done) => {
    link.addEventListener("load", done);
    link.addEventListener("error", done); // without colours of its own it is grey, and still there
    document.head.append(link);
  });
}

/** Draw what is not drawn yet; the page may have put new figures in place of old ones. */
export function mount(root = document) {
  for (const figure of root.querySelectorAll("figure.view[data-view]")) {
    const view = VIEWS[figure.dataset.view];
    if (view && !mounted.has(figure)) mounted.set(figure, view(figure));
  }
}

/** What a figure shows: for tests and measurements. */
export const shown = (figure) => mounted.get(figure);

await styled();
mount();
document.addEventListener("holdfast:changed", () => mount());
