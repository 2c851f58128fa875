// The waterfall of a recovery: its stages one after another, as rows that are text and a bar. The
// figure names the incident (data-incident), or has the newest of the job.

import { ask } from "./ask.js";
import { made, put, seconds } from "./parts.js";

export function waterfall(figure) {
  return new Waterfall(figure);
}

/** Stages in order; each begins where the one before ends. */
export function stagesOf(incident) {
  let atS = 0;
  return Object.entries(incident.stages_s).map(([name, tookS]) => {
    const stage = { name, startS: atS, tookS };
    atS += tookS;
    return stage;
  });
}

class Waterfall {
  constructor(figure) {
    this.figure = figure;
    this.head = made("p", "Asking …", "view-head");
    this.list = made("ol", "", "view-waterfall");
    figure.append(this.head, this.list);
    this.look();
    document.addEventListener("holdfast:changed", () => this.look());
  }

  async look() {
    if (!this.figure.isConnected) return;
    try {
      const incident = await this.incident();
      if (incident) this.set(incident);
      else put(this.head, "There was no recovery.");
    } catch (error) {
      put(this.head, `What is shown may be old: ${error.message}`);
    }
  }

  async incident() {
    const { incident, job } = this.figure.dataset;
    if (incident) return ask(`/v1alpha1/incidents/${encodeURIComponent(incident)}`);
    const { items } = await ask(`/v1alpha1/incidents?job=${encodeURIComponent(job)}`);
    return items.filter((each) => Object.keys(each.stages_s).length).at(-1);
  }

  set(incident) {
    const stages = stagesOf(incident);
    const allS = stages.reduce((sum, stage) => sum + stage.tookS, 0);
    put(this.head, `Recovery of incident ${incident.number}: ${seconds(allS)}. ${incident.summary}`);
    this.list.replaceChildren(...stages.map((stage) => row(stage, allS)));
  }
}

function row({ name, startS, tookS }, allS) {
  const item = made("li");
  const bar = made("span", "", "view-bar");
  bar.style.setProperty("--from", `${(100 * startS) / Math.max(allS, 1e-9)}%`);
  bar.style.setProperty("--wide", `${(100 * tookS) / Math.max(allS, 1e-9)}%`);
  const lane = made("span", "", "view-lane");
  lane.append(bar);
  item.append(made("span", name, "view-stage"), lane, made("span", seconds(tookS), "view-took"));
  return item;
}
