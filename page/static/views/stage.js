// A canvas that can be zoomed and moved, by wheel, pinch, mouse, fingers and keys, with a text that
// says what is pointed at. A picture is drawn in its own pixels; the stage has the way to the screen.
// Its zoom, its place and the rank that was chosen are in the page's address.

import { followAddress, keep, told } from "./address.js";

const MOST_ZOOM = 64;
const STEP_PX = 48;
const DRAG_PX = 4;
const LOWEST_PX = 96;
const OF_SCREEN = 0.6;
const SETTLE_MS = 250; // browsers refuse to have their address written at each turn of a wheel

/**
 * `picture`: { size() -> [width, height], draw(context, stage), pick(x, y) -> item | null,
 * step(item, dx, dy) -> item | null, says(item) -> text, chosen(rank | null), high(width, most) ->
 * pixels that it needs on a canvas so wide, most: CSS pixels a pixel of the picture,
 * rankOf(item) -> rank, itemOf(rank) -> item | null }.
 */
export class Stage {
  constructor(figure, picture, { label, xOnly = false } = {}) {
    this.picture = picture;
    this.name = figure.dataset.view;
    this.xOnly = xOnly;
    this.zoom = 1;
    this.x = this.y = 0;
    this.item = null;
    this.marked = null; // the rank that was chosen, here or in another picture
    this.pointers = new Map();
    this.frameMs = [];
    this.drawn = new Promise((done) => (this.isDrawn = done)); // with something to show
    this.aborted = new AbortController();
    this.box = document.createElement("div");
    this.box.className = "view-box";
    this.canvas = document.createElement("canvas");
    this.canvas.className = "view-canvas";
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", `${label}: arrows go from rank to rank, plus and minus zoom, shift with arrows moves, 0 shows all`);
    this.canvas.style.height = `${LOWEST_PX}px`;
    this.said = document.createElement("p");
    this.said.className = "view-said";
    this.said.setAttribute("aria-live", "polite");
    this.stack = document.createElement("button");
    this.stack.type = "button";
    this.stack.hidden = true;
    this.stack.addEventListener("click", () => document.dispatchEvent(new CustomEvent("holdfast:stack", { detail: { rank: this.rank } })));
    this.box.append(this.canvas, this.said, this.stack);
    figure.append(this.box);
    this.context = this.canvas.getContext("2d");
    this.listen();
    followAddress(({ gone }) => this.follow(gone), this.aborted.signal);
    this.resized = new ResizeObserver(() => this.resize());
    this.resized.observe(this.canvas);
    this.resize();
  }

  close() {
    this.aborted.abort();
    this.resized.disconnect();
    this.box.remove();
  }

  // ---------------------------------------------------------------- size and the way to the screen

  resize() {
    this.ratio = globalThis.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth || 1;
    this.height = this.canvas.clientHeight || 1;
    this.canvas.width = Math.round(this.width * this.ratio);
    this.canvas.height = Math.round(this.height * this.ratio);
    this.picture.resized?.(this);
    this.fitted();
    this.changed();
  }

  /** CSS pixels that it may be high. */
  get most() {
    return Math.max(2 * LOWEST_PX, OF_SCREEN * globalThis.innerHeight);
  }

  /** As high as what it shows, from LOWEST_PX to a part of the screen. */
  fitted() {
    const high = Math.ceil(Math.min(this.most, Math.max(LOWEST_PX, this.picture.high(this.width, this.most))));
    if (high === this.asked) return;
    this.asked = high;
    this.canvas.style.height = `${high}px`;
    this.resize();
  }

  /** CSS pixels a pixel of the picture, as it fits at zoom 1. */
  get fit() {
    const [width, height] = this.picture.size();
    const wide = this.width / Math.max(1, width);
    return this.xOnly ? wide : Math.min(wide, this.height / Math.max(1, height), this.picture.most ?? 1);
  }

  get scale() {
    return this.fit * this.zoom;
  }

  toPicture(x, y) {
    return [this.x + x / this.scale, this.xOnly ? this.y + y : this.y + y / this.scale];
  }

  changed() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      const began = performance.now();
      if (this.picture.found && !this.arrived) this.arrive();
      if (this.missing && this.markedItem) this.say();
      this.bound();
      this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
      this.picture.draw(this.context, this);
      if (this.picture.found) this.isDrawn();
      this.frameMs.push(performance.now() - began);
      if (this.frameMs.length > 600) this.frameMs.splice(0, 300);
    });
  }

  bound() {
    const [width, height] = this.picture.size();
    const over = (all, seen) => Math.max(0, all - seen);
    this.x = Math.min(Math.max(0, this.x), over(width, this.width / this.scale));
    this.y = Math.min(Math.max(0, this.y), over(height, this.xOnly ? this.height : this.height / this.scale));
  }

  move(dx, dy) {
    this.x += dx / this.scale;
    this.y += this.xOnly ? dy : dy / this.scale;
    this.settle();
    this.changed();
  }

  zoomAt(factor, x, y) {
    const [px, py] = this.toPicture(x, y);
    this.zoom = Math.min(MOST_ZOOM, Math.max(1, this.zoom * factor));
    this.x = px - x / this.scale;
    this.y = this.xOnly ? this.y : py - y / this.scale;
    this.settle();
    this.changed();
  }

  reset() {
    this.zoom = 1;
    this.x = this.y = 0;
    this.settle();
    this.changed();
  }

  // ---------------------------------------------------------------- what the address says

  /** For the first time with something to show. */
  arrive() {
    this.arrived = true;
    if (told()[this.name]) this.restore();
    this.mark(told().rank ?? null);
    const item = this.markedItem;
    if (item && !told()[this.name]) this.show(item);
    this.come();
  }

  follow(gone) {
    if (!this.arrived) return;
    if (gone) this.restore();
    this.mark(told().rank ?? null);
    if (gone) this.come();
  }

  restore() {
    const [zoom, left, above] = told()[this.name] ?? [1, 0, 0];
    const [width, height] = this.picture.size();
    this.zoom = Math.min(MOST_ZOOM, Math.max(1, zoom));
    this.x = left * width;
    this.y = above * height;
    this.changed();
  }

  /** To the picture that was used last, unless it is in use. */
  come() {
    if (told().view !== this.name || document.activeElement === this.canvas) return;
    this.canvas.focus({ preventScroll: true });
    this.box.parentElement.scrollIntoView({ block: "start" });
  }

  /** Into the address, once hands rest. */
  settle() {
    clearTimeout(this.settling);
    this.settling = setTimeout(() => {
      const [width, height] = this.picture.size();
      this.bound();
      const seen = [this.zoom, this.x / width, this.y / height].map((each) => Number(each.toFixed(5)));
      keep({ view: this.name, [this.name]: seen.join() === "1,0,0" ? null : seen });
    }, SETTLE_MS);
  }

  mark(rank) {
    if (rank !== this.marked) {
      this.marked = rank;
      this.picture.chosen?.(rank);
      if (!this.item) this.say();
    }
    this.changed();
  }

  get markedItem() {
    return this.marked === null ? null : this.picture.itemOf(this.marked);
  }

  // ---------------------------------------------------------------- what is pointed at

  point(item, { shows = false } = {}) {
    if (item === this.item) return;
    this.item = item;
    this.say();
    if (item && shows) this.show(item);
    this.changed();
  }

  /** Of what is pointed at, else of the rank that was chosen. */
  say() {
    const item = this.item ?? this.markedItem;
    this.missing = !item && this.marked !== null;
    const said = item ? this.picture.says(item) : this.missing ? `Rank ${this.marked} is not shown here` : "";
    if (this.said.textContent !== said) this.said.textContent = said;
    if (item) this.offer(this.picture.rankOf(item));
  }

  /** A button for the stack of the rank that was pointed at last, where the page takes stacks. */
  offer(rank) {
    if (rank === undefined || !document.querySelector("form#stacks[data-job]")) return;
    this.rank = rank;
    this.stack.textContent = `Stack of rank ${rank}`;
    this.stack.hidden = false;
  }

  /** Bring an item into sight. */
  show(item) {
    const at = this.picture.placeOf?.(item);
    if (!at) return;
    const [wide, tall] = [this.width / this.scale, this.xOnly ? this.height : this.height / this.scale];
    if (!this.xOnly && (at[0] < this.x || at[0] > this.x + wide)) this.x = at[0] - wide / 2;
    if (at[1] < this.y || at[1] > this.y + tall) this.y = at[1] - tall / 2;
  }

  choose(item) {
    keep({ view: this.name, rank: item ? this.picture.rankOf(item) : null }, { step: true });
  }

  // ---------------------------------------------------------------- hands

  listen() {
    const { canvas } = this;
    const on = (name, does, more = {}) => canvas.addEventListener(name, does, { signal: this.aborted.signal, ...more });
    on("wheel", (event) => this.wheel(event), { passive: false });
    on("pointerdown", (event) => this.down(event));
    on("pointermove", (event) => this.moved(event));
    on("pointerup", (event) => this.up(event));
    on("pointercancel", (event) => this.pointers.delete(event.pointerId));
    on("pointerleave", () => this.pointers.size || this.point(null));
    on("dblclick", () => this.reset());
    on("keydown", (event) => this.key(event));
    on("focus", () => this.focused());
  }

  focused() {
    keep({ view: this.name });
    if (!this.item) this.point(this.markedItem ?? this.picture.first?.() ?? null);
  }

  /** Wheels zoom where ctrl or the picture has them do so, so that the page itself can be scrolled. */
  wheel(event) {
    const at = this.at(event);
    if (event.ctrlKey || document.activeElement === this.canvas) {
      event.preventDefault();
      this.zoomAt(Math.exp(-event.deltaY * 0.002), ...at);
    }
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  down(event) {
    this.canvas.setPointerCapture?.(event.pointerId);
    this.pointers.set(event.pointerId, this.at(event));
    this.dragged = 0;
  }

  moved(event) {
    const at = this.at(event);
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      this.point(this.picture.pick(...this.toPicture(...at), this));
      return;
    }
    if (this.pointers.size === 2) this.pinch(event.pointerId, before, at);
    else this.move(before[0] - at[0], before[1] - at[1]);
    this.dragged += Math.hypot(before[0] - at[0], before[1] - at[1]);
    this.pointers.set(event.pointerId, at);
  }

  pinch(id, before, at) {
    const [other] = [...this.pointers].filter(([each]) => each !== id).map(([, place]) => place);
    const far = (place) => Math.hypot(place[0] - other[0], place[1] - other[1]);
    this.zoomAt(far(at) / Math.max(1, far(before)), (at[0] + other[0]) / 2, (at[1] + other[1]) / 2);
  }

  up(event) {
    this.pointers.delete(event.pointerId);
    if (this.dragged >= DRAG_PX) return;
    const item = this.picture.pick(...this.toPicture(...this.at(event)), this);
    this.point(item);
    this.choose(item);
  }

  key(event) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const way = ways[event.key];
    if (way && event.shiftKey) this.move(way[0] * STEP_PX, way[1] * STEP_PX);
    else if (way) this.point(this.picture.step(this.item, ...way) ?? this.item, { shows: true });
    else if (event.key === "+" || event.key === "=") this.zoomAt(1.5, this.width / 2, this.height / 2);
    else if (event.key === "-") this.zoomAt(1 / 1.5, this.width / 2, this.height / 2);
    else if (event.key === "0") this.reset();
    else if (event.key === "Enter" && this.item) this.choose(this.item);
    else if (event.key === "Escape") this.choose(null);
    else return;
    event.preventDefault();
  }
}
