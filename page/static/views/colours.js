// Colours from the style sheet's variables, so that dark and light follow the reader's system.

const NAMES = [
  "ground", "text", "quiet", "line", "more", "even", "less", "mark", "wait", "unknown",
  "forward", "backward", "collective", "p2p", "optimizer", "data", "save", "load", "pause", "step",
];

/** Of an element: each variable `--view-…` as [r, g, b], and as CSS. */
export function coloursOf(element) {
  const style = getComputedStyle(element);
  const found = { css: {} };
  for (const name of NAMES) {
    const said = style.getPropertyValue(`--view-${name}`).trim() || "#808080";
    found.css[name] = said;
    found[name] = channels(said);
  }
  return found;
}

export function channels(colour) {
  const hex = colour.replace("#", "");
  return [0, 2, 4].map((at) => Number.parseInt(hex.slice(at, at + 2), 16) || 0);
}

/** A pixel of ImageData seen as Uint32Array; every machine that a browser runs on is little-endian. */
export const pixel = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;

/** The colour at `share` of the scale, -1 (less) to 1 (more). */
export function mixed(colours, share) {
  const end = share > 0 ? colours.more : colours.less;
  const part = Math.min(1, Math.abs(share));
  return colours.even.map((from, at) => Math.round(from + (end[at] - from) * part));
}

/** The colour of text on such a ground: that of the two with more contrast. */
export function readable(colours, ground) {
  const on = luminance(ground);
  const contrast = (other) => (Math.max(on, other) + 0.05) / (Math.min(on, other) + 0.05);
  return contrast(luminance(colours.text)) >= contrast(luminance(colours.ground)) ? colours.css.text : colours.css.ground;
}

/** As WCAG 2.2 defines it. */
function luminance(colour) {
  const [red, green, blue] = colour.map((each) => (each / 255 <= 0.04045 ? each / 255 / 12.92 : ((each / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** Calls `changed` when dark becomes light, or the other way round. */
export function onTheme(changed, signal) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed, { signal });
}
