// A profile as a flame graph: the whole at the top, callees below. It reads speedscope's JSON (also gzipped) and folded
// stacks.

import {choice, h, icon, set_text} from './dom.js';
import {bytes, count, duration, percent} from './format.js';

const kRow = 19;
const kLeastWidth = 0.6;
const kDepthMax = 200;

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/// A tree of {name, value, children: Map} from stacks, outermost frame first.
class Tree {
  constructor(unit) {
    this.unit = unit;
    this.root = {name: 'all', value: 0, children: new Map(), depth: 0};
  }
  add(frames, value) {
    let node = this.root;
    node.value += value;
    for (const name of frames.slice(0, kDepthMax)) {
      let child = node.children.get(name);
      if (!child)
        node.children.set(name, (child = {name, value: 0, children: new Map(), parent: node, depth: node.depth + 1}));
      child.value += value;
      node = child;
    }
  }
}

function from_speedscope(file) {
  const profile = file.profiles[0];
  if (profile?.type !== 'sampled') throw new Error('it holds no sampled profile');
  const tree = new Tree(profile.unit);
  const names = file.shared.frames.map((frame) => frame.name);
  for (const one of file.profiles) {
    if (one.type === 'sampled')
      one.samples.forEach(
        (stack, index) => tree.add(stack.map((frame) => names[frame] ?? '?'), one.weights[index] ?? 0));
  }
  return tree;
}

function from_folded(text) {
  const tree = new Tree('none');
  for (const line of text.split('\n')) {
    const at = line.lastIndexOf(' ');
    const value = Number(line.slice(at + 1));
    if (at > 0 && value > 0) tree.add(line.slice(0, at).split(';'), value);
  }
  return tree;
}

/// Read a profile from a response; `name` tells its format.
export async function read_profile(response, name) {
  const stream = name.endsWith('.gz') && response.headers.get('Content-Encoding') === null
    ? response.body.pipeThrough(new DecompressionStream('gzip'))
    : response.body;
  const text = await new Response(stream).text();
  const tree = text.trimStart().startsWith('{') ? from_speedscope(JSON.parse(text)) : from_folded(text);
  if (tree.root.value === 0)
    throw new Error(tree.unit === 'bytes'
        ? 'it holds no sample: the worker allocated little memory meanwhile'
        : 'it holds no sample: the worker did not run on a CPU meanwhile (a wall profile shows where it waits)');
  return tree;
}

function value_text(value, unit) {
  if (unit === 'seconds') return duration(value);
  if (unit === 'milliseconds') return duration(value / 1e3);
  if (unit === 'microseconds') return duration(value / 1e6);
  if (unit === 'nanoseconds') return duration(value / 1e9);
  if (unit === 'bytes') return bytes(value);
  return `${count(value)} samples`;
}

export class FlameGraph {
  constructor(tree) {
    Object.assign(this, {tree, top: tree.root, at: tree.root, found: '', order: 'size', boxes: []});
    this.canvas = h('canvas', {
      class: 'flame',
      tabindex: 0,
      role: 'application',
      'aria-label': 'Flame graph: arrow keys move between frames, Enter zooms in, Escape zooms out',
      on: {
        mousemove: (event) => this.point(this.box_at(event)),
        click: (event) => this.zoom(this.box_at(event)),
        keydown: (event) => this.on_key(event)
      }
    });
    this.said = h('p', {class: 'flame-said', role: 'status'});
    this.whole =
      h('button', {type: 'button', class: 'button small', hidden: true, on: {click: () => this.zoom(this.tree.root)}},
        icon('reset'), h('span', {}, 'Whole profile'));
    const search = h('input', {
      type: 'search',
      class: 'field',
      placeholder: 'Find a function',
      'aria-label': 'Find a function',
      on: {
        input: () => {
          this.found = search.value.toLowerCase();
          this.draw();
        }
      }
    });
    this.element = h('div', {class: 'flame-frame'},
      h('div', {class: 'tools'}, search,
        choice('Order', [['size', 'largest first'], ['name', 'by name']], 'size',
          (order) => {
            this.order = order;
            this.draw();
          }),
        this.whole, h('span', {class: 'note'}, `${value_text(tree.root.value, tree.unit)} in all`)),
      this.canvas, this.said);
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  children(node) {
    const list = [...node.children.values()];
    return this.order === 'name' ? list.sort((a, b) => (a.name < b.name ? -1 : 1))
                                 : list.sort((a, b) => b.value - a.value);
  }

  place(node, x, width, row, boxes) {
    if (width < kLeastWidth) return;
    boxes.push({node, x, width, row});
    let left = x;
    for (const child of this.children(node)) {
      const part = (width * child.value) / node.value;
      this.place(child, left, part, row + 1, boxes);
      left += part;
    }
  }

  draw() {
    const width = this.element.clientWidth;
    if (width === 0) return;
    const parents = [];
    for (let node = this.top.parent; node; node = node.parent) parents.unshift(node);
    this.boxes = parents.map((node, row) => ({node, x: 0, width, row, above: true}));
    this.place(this.top, 0, width, parents.length, this.boxes);
    const rows = this.boxes.reduce((most, box) => Math.max(most, box.row), 0) + 1;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = rows * kRow * ratio;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${rows * kRow}px`;
    const canvas = this.canvas.getContext('2d');
    canvas.scale(ratio, ratio);
    canvas.font = `11px ${css('--mono')}`;
    canvas.textBaseline = 'middle';
    const colors = {
      warm: css('--heat-1'),
      hot: css('--heat-2'),
      cold: css('--heat-0'),
      text: css('--text'),
      focus: css('--focus'),
      found: css('--accent'),
      on_found: css('--on-accent')
    };
    for (const box of this.boxes) this.draw_box(canvas, colors, box);
    this.say();
  }

  draw_box(canvas, colors, {node, x, width, row, above}) {
    const found = this.found !== '' && node.name.toLowerCase().includes(this.found);
    const share = (hash(node.name) % 40) / 100;
    canvas.fillStyle = found ? colors.found
      : above                ? colors.cold
                             : `color-mix(in oklab, ${colors.warm} ${Math.round(30 + share * 60)}%, ${colors.cold})`;
    canvas.fillRect(x, row * kRow, Math.max(kLeastWidth, width - 1), kRow - 1);
    if (node === this.at) {
      canvas.strokeStyle = colors.focus;
      canvas.lineWidth = 2;
      canvas.strokeRect(x + 1, row * kRow + 1, Math.max(1, width - 3), kRow - 3);
    }
    const letters = Math.floor((width - 8) / 6.7);
    if (letters < 3) return;
    canvas.fillStyle = found ? colors.on_found : colors.text;
    canvas.fillText(
      node.name.length > letters ? `${node.name.slice(0, letters - 1)}…` : node.name, x + 4, row * kRow + kRow / 2);
  }

  box_at(event) {
    const row = Math.floor(event.offsetY / kRow);
    return this.boxes.find((box) => box.row === row && event.offsetX >= box.x && event.offsetX < box.x + box.width)
             ?.node ??
      null;
  }
  point(node) {
    if (!node || node === this.at) return;
    this.at = node;
    this.draw();
  }
  zoom(node) {
    if (!node) return;
    this.top = node;
    this.at = node;
    this.whole.hidden = node === this.tree.root;
    this.draw();
  }
  say() {
    const {at, tree} = this;
    set_text(this.said,
      `${at.name}: ${value_text(at.value, tree.unit)}, ${percent(at.value / tree.root.value)} of all${
        at.parent && at.parent !== tree.root ? `, ${percent(at.value / at.parent.value)} of ${at.parent.name}` : ''}`);
  }

  on_key(event) {
    const siblings = this.at.parent ? this.children(this.at.parent) : [this.at];
    const at = siblings.indexOf(this.at);
    const actions = {
      ArrowUp: () => this.point(this.at.parent),
      ArrowDown: () => this.point(this.children(this.at)[0]),
      ArrowLeft: () => this.point(siblings[at - 1]),
      ArrowRight: () => this.point(siblings[at + 1]),
      Enter: () => this.zoom(this.at),
      Escape: () => this.zoom(this.tree.root),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }
}

function hash(text) {
  let value = 0;
  for (let index = 0; index < text.length; ++index) value = (value * 31 + text.charCodeAt(index)) >>> 0;
  return value;
}
