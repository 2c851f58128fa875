// Mounts the pictures of a job's ranks: every <figure class="view" data-view="…" data-job="…">.
// Native modules, no code of others. What is drawn here is drawn as page/draw does it for files.

import { heatmap } from "./views/heatmap.js";
import { timeline } from "./views/timeline.js";
import { view3d } from "./views/view3d.js";

const VIEWS = { heatmap, timeline, view3d };
const PATIENCE_MS = 1000;
const mounted = new WeakMap();
let mounting = Promise.resolve();

/**
 * Draw what is not drawn yet; the page may have put new figures in place of old ones. One after
 * another: the first is there sooner, and is what is looked at first.
 */
async function mount() {
  for (const figure of document.querySelectorAll("figure.view[data-view]")) {
    const view = VIEWS[figure.dataset.view];
    if (!view || mounted.has(figure)) continue;
    mounted.set(figure, view(figure));
    await Promise.race([mounted.get(figure).stage.drawn, new Promise((done) => setTimeout(done, PATIENCE_MS))]);
  }
}

/** What a figure shows: for tests and measurements. */
export const shown = (figure) => mounted.get(figure);

const more = () => (mounting = mounting.then(mount));
document.addEventListener("holdfast:changed", more);
more(); // the style sheet stands before this in the page: its colours are there
