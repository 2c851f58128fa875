// Makes one tree of elements like another, and leaves alone what is alike: so focus, what is marked,
// what is scrolled and what is open stay as they are.

const KEPT_ATTRIBUTES = new Set(["open"]); // a reader's own doing

/** `shown` becomes like `made`. What has `data-keep` is its own business, and stays. */
export function morph(shown, made) {
  if (shown.isEqualNode(made)) return;
  attributes(shown, made);
  const old = keyed(shown);
  let place = shown.firstChild;
  for (const wanted of [...made.childNodes]) {
    const match = found(place, wanted, old);
    if (!match) {
      shown.insertBefore(document.importNode(wanted, true), place);
      continue;
    }
    if (match !== place) shown.insertBefore(match, place);
    else place = place.nextSibling;
    if (match.nodeType !== Node.ELEMENT_NODE) {
      if (match.nodeValue !== wanted.nodeValue) match.nodeValue = wanted.nodeValue;
    } else if (!("keep" in match.dataset)) {
      morph(match, wanted);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

/** Its children that have an id. */
function keyed(parent) {
  return new Map([...parent.children].filter((each) => each.id).map((each) => [each.id, each]));
}

/** The node that is to become `wanted`: the one of its id, else the next one if it is of its kind. */
function found(place, wanted, old) {
  if (wanted.id) {
    const same = old.get(wanted.id);
    return same?.parentNode && same.tagName === wanted.tagName ? same : null;
  }
  const alike = place && place.nodeType === wanted.nodeType && place.nodeName === wanted.nodeName && !place.id;
  return alike ? place : null;
}

function attributes(shown, made) {
  for (const { name, value } of made.attributes) {
    if (shown.getAttribute(name) !== value) shown.setAttribute(name, value);
  }
  for (const { name } of [...shown.attributes]) {
    if (!made.hasAttribute(name) && !KEPT_ATTRIBUTES.has(name)) shown.removeAttribute(name);
  }
}
