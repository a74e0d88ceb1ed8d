// Make elements. Texts reach the page only as text nodes, so nothing that a program printed can become markup.

const kSvg = 'http://www.w3.org/2000/svg';

function apply(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'on') {
      for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    } else if (name === 'data') {
      Object.assign(node.dataset, value);
    } else if (name === 'css') {
      for (const [property, text] of Object.entries(value)) node.style.setProperty(property, text);
    } else {
      node.setAttribute(name, value === true ? '' : String(value));
    }
  }
}

/// Make an HTML element. Children are nodes, texts, or lists of them; null and false are left out.
export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  apply(node, attributes);
  node.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/// Make an SVG element.
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(kSvg, tag);
  apply(node, attributes);
  node.append(...children);
  return node;
}

const kIcons = {
  play: ['M5 3.5 12.5 8 5 12.5Z'],
  check: ['m3 8.5 3.2 3.2L13 5'],
  cross: ['M4 4l8 8M12 4l-8 8'],
  save: ['M3.5 3.5h7.5l1.5 1.5v7.5h-9Z', 'M5.5 3.5v3h4v-3', 'M5.5 12.5v-3.5h5v3.5'],
  stop: ['M4.5 4.5h7v7h-7Z'],
  bang: ['M8 3v6', 'M8 12.4v.2'],
  dots: ['M3.5 8h.01M8 8h.01M12.5 8h.01'],
  question: ['M5.6 6a2.4 2.4 0 1 1 3.4 2.2c-.7.4-1 .8-1 1.6', 'M8 12.4v.2'],
  pause: ['M5.5 4v8M10.5 4v8'],
  hourglass: ['M4.5 3h7M4.5 13h7M5 3c0 3 6 4 6 10M11 3c0 3-6 4-6 10'],
  sun: [
    'M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6Z',
    'M8 1.5v1.2M8 13.3v1.2M1.5 8h1.2M13.3 8h1.2M3.4 3.4l.9.9M11.7 11.7l.9.9M3.4 12.6l.9-.9M11.7 4.3l.9-.9'
  ],
  moon: ['M13 9.6A5.5 5.5 0 0 1 6.4 3 5.5 5.5 0 1 0 13 9.6Z'],
  stack: ['M3 5.5 8 3l5 2.5L8 8Z', 'M3 8.2 8 10.7l5-2.5', 'M3 10.8 8 13.3l5-2.5'],
  memory: ['M4.5 4.5h7v7h-7ZM6 4.5V2.5M10 4.5V2.5M6 13.5v-2M10 13.5v-2M4.5 6h-2M4.5 10h-2M13.5 6h-2M13.5 10h-2'],
  flame: ['M8 13.5c-2.6 0-4-1.7-4-3.8C4 7 6.8 6 6.8 2.5 9.5 4 12 6.7 12 9.7c0 2.1-1.4 3.8-4 3.8Z'],
  search: ['M7 3a4 4 0 1 1 0 8 4 4 0 0 1 0-8Z', 'm10 10 3 3'],
  down: ['M4 6l4 4 4-4'],
  arrow: ['M6 4l4 4-4 4'],
  reset: ['M3.5 8a4.5 4.5 0 1 0 1.4-3.3', 'M3.2 2.8v2.4h2.4'],
  left: ['M10 4 6 8l4 4'],
};

/// Make an icon of 16 × 16 px in the text's colour. It says nothing to screen readers: put a text beside it.
export function icon(name) {
  return svg(
    'svg', {class: 'icon', viewBox: '0 0 16 16', 'aria-hidden': 'true'}, ...kIcons[name].map((d) => svg('path', {d})));
}

/// Change a node's text only if it differs, so that a selection inside it survives.
export function set_text(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function replace(node, ...children) {
  node.replaceChildren(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
}

export function button(label, {icon: name, kind = '', title, disabled, on_click}) {
  return h('button', {type: 'button', class: `button ${kind}`, title, disabled, on: {click: on_click}},
    name && icon(name), h('span', {}, label));
}

/// A labelled <select>; options are [value, label].
export function choice(label, options, value, on_change) {
  const select = h('select', {class: 'field', 'aria-label': label, on: {change: () => on_change(select.value)}},
    options.map(([option, text]) => h('option', {value: option, selected: option === value}, text)));
  return h('label', {class: 'labelled'}, h('span', {}, label), select);
}

/// Call `action` at most once in `ms`, the last time after the last call.
export function throttled(action, ms) {
  let timer = null;
  let last = -Infinity;
  const call = () => {
    timer = null;
    last = performance.now();
    action();
  };
  const wrapped = () => {
    if (timer === null) timer = setTimeout(call, Math.max(0, last + ms - performance.now()));
  };
  wrapped.cancel = () => {
    clearTimeout(timer);
    timer = null;
  };
  return wrapped;
}
