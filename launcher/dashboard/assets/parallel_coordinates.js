// Parallel coordinates: an axis for each parameter and one for the metric, and a line for each trial. Drag along an
// axis to leave only the trials that pass there; the two handles of an axis do the same by keys. Lines are drawn on a
// canvas, those of the best trial and of the one that is pointed at on another above it.

import {h, replace, set_text, svg} from './dom.js';
import {value_text} from './parallel_axes.js';

const kHeight = 260;
const kTop = 34;     // room for the names of the axes
const kBottom = 26;  // and for what has no value
const kSide = 58;    // beside the outermost axes
const kLeastGap = 108;
const kNearPx = 9;
const kTickPx = 15;  // a tick needs so much height
const kLabelChars = 17;
const kShades = 32;      // of ranks
const kLinesAPath = 50;  // long paths are slow to draw
const kOthersMax = 2000;
const kWide = 0.001;  // a range that leaves nothing out

const short = (text, most = kLabelChars) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/// Options: legend: an element, on_filter(), on_point(trial or null), open(trial), describe(trial) -> text.
export class ParallelCoordinates {
  constructor(options) {
    this.options = options;
    this.axes = [];
    this.rows = [];
    this.ranges = new Map();  // by axis: [low, high] as shares of its height
    this.pointed = null;
    this.lines = h('canvas', {class: 'parallel-lines', 'aria-hidden': 'true'});
    this.marks = h('canvas', {class: 'parallel-lines', 'aria-hidden': 'true'});
    this.frame = svg('svg', {class: 'parallel-axes'});
    this.plot = h('div', {
      class: 'parallel-plot',
      on: {
        pointermove: (event) => this.point_at(event),
        pointerleave: () => this.point(null),
        click: (event) => this.click(event)
      }
    },
      this.lines, this.marks, this.frame);
    this.scroll = h('div', {class: 'parallel-scroll'}, this.plot);
    this.said = h('p', {class: 'heat-said parallel-said', role: 'status'});
    this.element = h('div', {class: 'parallel', role: 'group', 'aria-label': 'Parameters and metric of each trial'},
      this.scroll, h('div', {class: 'heat-foot'}, this.said, options.legend));
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(this.scroll);
    this.on_theme = () => this.draw();
    document.addEventListener('themechange', this.on_theme);
  }
  destroy() {
    this.observer.disconnect();
    cancelAnimationFrame(this.pending);
    document.removeEventListener('themechange', this.on_theme);
  }

  /// rows: [{trial, parameters, best, share: 0 (worst) to 1 (best) or null, is_best}], the best last.
  update(axes, rows) {
    const shape = (all) => JSON.stringify(all.map(({key, label, ticks}) => [key, label, ticks]));
    const same = shape(axes) === shape(this.axes);
    this.axes = axes;
    this.rows = rows;
    for (const row of rows)
      row.places = axes.map((axis) => axis.at(axis.is_metric ? row.best : row.parameters?.[axis.key]));
    for (const key of this.ranges.keys())
      if (!axes.some((axis) => axis.key === key)) this.ranges.delete(key);
    if (same) {
      this.show_missing();
      this.draw();
    } else {
      this.layout();
    }
    this.say();
  }

  get is_filtered() {
    return this.ranges.size > 0;
  }
  /// Whether the filter leaves the row.
  leaves(row) {
    return this.axes.every((axis, index) => {
      const range = this.ranges.get(axis.key);
      if (!range) return true;
      const place = row.places[index];
      return place !== null && place >= range[0] - 1e-9 && place <= range[1] + 1e-9;
    });
  }
  clear() {
    this.ranges.clear();
    this.changed();
  }
  set_range(axis, low, high) {
    const range = [Math.max(0, Math.min(low, high)), Math.min(1, Math.max(low, high))];
    if (range[0] <= kWide && range[1] >= 1 - kWide)
      this.ranges.delete(axis.key);
    else
      this.ranges.set(axis.key, range);
    this.changed();
  }
  changed() {
    this.place_brushes();
    this.draw();
    this.options.on_filter();
  }

  // ---- places on the page

  x_of(index) {
    return kSide + index * this.gap;
  }
  y_of(place) {
    return place === null ? kHeight - 9 : kTop + (1 - place) * (kHeight - kTop - kBottom);
  }
  place_of(y) {
    return 1 - (y - kTop) / (kHeight - kTop - kBottom);
  }

  layout() {
    const room = this.scroll.clientWidth;
    if (room === 0 || this.axes.length === 0) return;
    const gaps = Math.max(1, this.axes.length - 1);
    this.gap = Math.max(kLeastGap, (room - 2 * kSide) / gaps);
    this.width = Math.max(room, 2 * kSide + this.gap * gaps);
    if (this.width > room + 1)
      this.scroll.tabIndex = 0;
    else
      this.scroll.removeAttribute('tabindex');
    this.plot.style.width = `${this.width}px`;
    this.plot.style.height = `${kHeight}px`;
    this.frame.setAttribute('viewBox', `0 0 ${this.width} ${kHeight}`);
    this.frame.setAttribute('width', this.width);
    this.frame.setAttribute('height', kHeight);
    const focused = document.activeElement?.dataset?.handle;
    replace(this.frame, this.axes.map((axis, index) => this.axis_element(axis, index)));
    this.place_brushes();
    this.show_missing();
    this.draw();
    const handles = [...this.frame.querySelectorAll('.brush-handle')];
    if (focused) handles.find((handle) => handle.dataset.handle === focused)?.focus({preventScroll: true});
  }

  axis_element(axis, index) {
    const x = this.x_of(index);
    const [top, bottom] = [this.y_of(1), this.y_of(0)];
    const room = Math.max(1, Math.floor((bottom - top) / kTickPx));
    const every = Math.ceil(axis.ticks.length / room);
    const ticks =
      axis.ticks.filter((_, at) => at % every === 0)
        .map(({at, text}) => svg('g', {}, svg('line', {x1: x - 4, x2: x, y1: this.y_of(at), y2: this.y_of(at)}),
               svg('text', {x: x + 12, y: this.y_of(at) + 4, class: 'tick'}, short(text), svg('title', {}, text))));
    const last = index === this.axes.length - 1;
    const anchor = index === 0 ? 'start' : last ? 'end' : 'middle';
    const at = index === 0 ? x - kSide + 6 : last ? x + kSide - 6 : x;
    const brush = svg('rect', {class: 'brush', x: x - 7, width: 14, y: top, height: 0, rx: 2});
    const handles = [1, 0].map((which) => this.handle(axis, index, which));
    const hit = svg('rect', {class: 'axis-hit', x: x - 13, width: 26, y: top - 6, height: bottom - top + 12});
    hit.addEventListener('pointerdown', (event) => this.brush(event, axis, hit));
    hit.addEventListener('dblclick', () => this.set_range(axis, 0, 1));
    const name = axis.is_metric ? axis.label : short(axis.label, Math.floor(this.gap / 7));
    return svg('g', {class: axis.is_metric ? 'axis metric' : 'axis', 'data-axis': axis.label},
      svg('text', {x: at, y: 14, 'text-anchor': anchor, class: 'axis-name'}, name, svg('title', {}, axis.label)),
      svg('line', {class: 'axis-line', x1: x, x2: x, y1: top, y2: bottom}), ...ticks,
      svg('text', {x: x + 12, y: this.y_of(null) + 4, class: 'tick none'}, '–', svg('title', {}, 'no value')), brush,
      hit, ...handles);
  }

  /// A handle of an axis' range: `which` is 1 for the upper one.
  handle(axis, index, which) {
    const x = this.x_of(index);
    const node = svg('rect', {
      class: 'brush-handle',
      x: x - 9,
      width: 18,
      height: 7,
      rx: 3,
      tabindex: 0,
      role: 'slider',
      'aria-orientation': 'vertical',
      'aria-label': `${axis.label}: ${which ? 'upper' : 'lower'} end of the range`,
      'aria-valuemin': 0,
      'aria-valuemax': 100,
      'data-handle': `${axis.key}:${which}`
    });
    node.addEventListener('keydown', (event) => this.on_key(event, axis, which));
    node.addEventListener('pointerdown', (event) => this.drag(event, node, (place) => this.move(axis, which, place)));
    return node;
  }

  place_brushes() {
    this.axes.forEach((axis, index) => {
      const group = this.frame.children[index];
      if (!group) return;
      const range = this.ranges.get(axis.key);
      const [low, high] = range ?? [0, 1];
      const brush = group.querySelector('.brush');
      brush.setAttribute('y', this.y_of(high));
      brush.setAttribute('height', range ? Math.max(2, this.y_of(low) - this.y_of(high)) : 0);
      group.classList.toggle('brushed', Boolean(range));
      group.querySelectorAll('.brush-handle').forEach((handle, which_from_top) => {
        const place = which_from_top === 0 ? high : low;
        handle.setAttribute('y', this.y_of(place) - (which_from_top === 0 ? 7 : 0));
        handle.setAttribute('aria-valuenow', Math.round(place * 100));
        handle.setAttribute('aria-valuetext', axis.text_at(place) ?? '');
      });
    });
  }

  /// Show the mark for what has no value below the axes where a trial has none.
  show_missing() {
    this.axes.forEach((_, index) => {
      const none = this.frame.children[index]?.querySelector('.none');
      none?.classList.toggle('hidden', this.rows.every((row) => row.places[index] !== null));
    });
  }

  // ---- pointer and keys

  drag(event, node, move) {
    event.preventDefault();
    event.stopPropagation();
    node.setPointerCapture(event.pointerId);
    const top = () => this.frame.getBoundingClientRect().top;
    const on_move = (moved) => move(this.place_of(moved.clientY - top()));
    const end = () => {
      node.removeEventListener('pointermove', on_move);
      this.dragging = false;
    };
    this.dragging = true;
    node.addEventListener('pointermove', on_move);
    node.addEventListener('pointerup', end, {once: true});
    node.addEventListener('pointercancel', end, {once: true});
  }
  brush(event, axis, hit) {
    const from = this.place_of(event.clientY - this.frame.getBoundingClientRect().top);
    this.drag(event, hit, (place) => {
      if (Math.abs(place - from) > 0.01) this.set_range(axis, from, place);
    });
  }
  move(axis, which, place) {
    const [low, high] = this.ranges.get(axis.key) ?? [0, 1];
    if (which)
      this.set_range(axis, low, Math.max(low, place));
    else
      this.set_range(axis, Math.min(high, place), high);
  }
  on_key(event, axis, which) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const at = (this.ranges.get(axis.key) ?? [0, 1])[which];
    const to = {
      ArrowUp: at + axis.step,
      ArrowRight: at + axis.step,
      ArrowDown: at - axis.step,
      ArrowLeft: at - axis.step,
      PageUp: at + 5 * axis.step,
      PageDown: at - 5 * axis.step,
      Home: 0,
      End: 1
    }[event.key];
    if (event.key === 'Escape' || event.key === 'Delete' || event.key === 'Backspace')
      this.set_range(axis, 0, 1);
    else if (to !== undefined)
      this.move(axis, which, to);
    else
      return;
    event.preventDefault();
  }

  point_at(event) {
    if (this.dragging || this.axes.length === 0) return;
    const box = this.frame.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const at = Math.min(this.axes.length - 2, Math.max(0, Math.floor((x - kSide) / this.gap)));
    const share = Math.min(1, Math.max(0, (x - this.x_of(at)) / this.gap));
    let nearest = null;
    let least = kNearPx;
    if (y > kTop - kNearPx)
      for (const row of this.rows) {
        const [from, to] = [row.places[at], row.places[at + 1] ?? null];
        const distance = Math.abs(this.y_of(from) * (1 - share) + this.y_of(to) * share - y);
        if (distance < least && this.leaves(row)) [least, nearest] = [distance, row.trial];
      }
    this.point(nearest);
  }
  point(trial) {
    if (this.pointed === trial) return;
    this.options.on_point(trial);
  }
  /// Draw this trial's line above the others; null: none.
  show_pointed(trial) {
    if (this.pointed === trial) return;
    this.pointed = trial;
    this.plot.classList.toggle('pointing', trial !== null);
    this.draw_marks();
    this.say();
  }
  click(event) {
    if (this.pointed !== null && !event.target.closest?.('.axis-hit, .brush-handle')) this.options.open(this.pointed);
  }
  say() {
    const left = this.is_filtered ? this.rows.filter((row) => this.leaves(row)).length : this.rows.length;
    const trials = `${left} of ${this.rows.length} trials`;
    set_text(this.said,
      this.pointed !== null ? this.options.describe(this.pointed)
        : this.is_filtered
        ? `${trials} pass the ranges. Escape on a handle, or a double click on an axis, ends its range.`
        : 'Drag along an axis to leave only the trials that pass there; point at a line to name it.');
  }

  // ---- drawing

  draw() {
    cancelAnimationFrame(this.pending);
    this.pending = requestAnimationFrame(() => {
      this.draw_lines();
      this.draw_marks();
      this.say();
    });
  }
  canvas_of(node) {
    const ratio = Math.min(2, devicePixelRatio || 1);
    node.width = this.width * ratio;
    node.height = kHeight * ratio;
    node.style.width = `${this.width}px`;
    node.style.height = `${kHeight}px`;
    const canvas = node.getContext('2d');
    canvas.scale(ratio, ratio);
    canvas.lineJoin = 'round';
    return canvas;
  }
  trace(canvas, row) {
    row.places.forEach((place, index) => {
      if (index === 0)
        canvas.moveTo(this.x_of(index), this.y_of(place));
      else
        canvas.lineTo(this.x_of(index), this.y_of(place));
    });
  }
  draw_lines() {
    if (!this.width) return;
    const canvas = this.canvas_of(this.lines);
    const css = getComputedStyle(this.element);
    const color = (name) => css.getPropertyValue(name).trim();
    const [worst, best, out] = [color('--scale-worst'), color('--scale-best'), color('--line')];
    const stroke = (rows, style, width, alpha) => {
      canvas.strokeStyle = style;
      canvas.lineWidth = width;
      canvas.globalAlpha = alpha;
      for (let from = 0; from < rows.length; from += kLinesAPath) {
        canvas.beginPath();
        for (const row of rows.slice(from, from + kLinesAPath)) this.trace(canvas, row);
        canvas.stroke();
      }
    };
    // Lines of about the same rank are drawn together, the best above the others.
    const groups = Array.from({length: kShades + 1}, () => []);
    const others = [];
    let shown = 0;
    for (const row of this.rows) {
      if (!this.leaves(row)) {
        others.push(row);
        continue;
      }
      ++shown;
      groups[row.share === null ? 0 : 1 + Math.min(kShades - 1, Math.floor(row.share * kShades))].push(row);
    }
    stroke(others.slice(0, kOthersMax), out, 1, 0.7);
    const alpha = shown > 1000 ? 0.35 : shown > 200 ? 0.6 : 0.9;
    stroke(groups[0], worst, 1, alpha * 0.6);
    groups.slice(1).forEach((rows, index) => {
      const share = index / (kShades - 1);
      const style = `color-mix(in oklab, ${worst} ${((1 - share) * 100).toFixed(0)}%, ${best})`;
      stroke(rows, style, 1 + share * 0.6, alpha);
    });
  }
  draw_marks() {
    if (!this.width) return;
    const canvas = this.canvas_of(this.marks);
    const css = getComputedStyle(this.element);
    const stroke = (row, name, width) => {
      if (!row) return;
      for (const [style, wide] of [['--surface', width + 3], [name, width]]) {
        canvas.strokeStyle = css.getPropertyValue(style).trim();
        canvas.lineWidth = wide;
        canvas.beginPath();
        this.trace(canvas, row);
        canvas.stroke();
      }
    };
    stroke(this.rows.find((row) => row.is_best && this.leaves(row)), '--best', 2.6);
    if (this.pointed !== null) stroke(this.rows.find((row) => row.trial === this.pointed), '--text', 2.2);
  }
}

/// "lr 0.01, layers 4".
export const parameters_text = (parameters, paths) =>
  paths.map((path) => `${path} ${value_text(parameters?.[path]) ?? '–'}`).join(', ');
