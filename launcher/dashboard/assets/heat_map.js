// Thousands of ranks on one canvas, a cell each, in order of rank. States have a letter beside their colour; what is
// not known is hatched. The arrow keys choose a rank, whose facts are read out, and Enter opens it.

import {h, replace, set_text} from './dom.js';
import {state_kind, state_word} from './states.js';

const kStrong = new Set(['bad', 'odd', 'warn']);  // these are drawn in full colour
const kLeastCell = 9;
const kLargestCell = 34;
const kLetters = {
  running: '',
  waiting: 'w',
  ended: '',
  starting: 's',
  slow: '!',
  suspect: '?',
  hung: 'H',
  failed: 'X',
  unknown: '·'
};

/// A straggler that runs looks like a slow rank.
const shown_state = (rank) => (rank.straggler && rank.state === 'running' ? 'slow' : rank.state);

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function mixed(from, to, share) {
  return `color-mix(in oklab, ${from} ${((1 - share) * 100).toFixed(0)}%, ${to})`;
}

const scale_legend = ([calm, hot]) => [h('span', {}, calm),
  h('span', {class: 'heat-scale'}),
  h('span', {}, hot),
  h('span', {class: 'heat-unknown'}),
  h('span', {}, 'not known'),
];

function state_legend(ranks) {
  return [...new Set(ranks.map(shown_state))].map((state) => {
    const sample = h('i', {data: {kind: state_kind(state)}}, kLetters[state]);
    return h('span', {class: 'heat-key'}, sample, state_word(state));
  });
}

/// Options: describe(rank) -> text, open(rank).
export class HeatMap {
  constructor(options) {
    this.options = options;
    this.ranks = [];
    this.at = null;
    this.canvas = h('canvas', {
      class: 'heat',
      tabindex: 0,
      role: 'application',
      'aria-label': 'Map of ranks: the arrow keys choose a rank, Enter opens it',
      on: {
        keydown: (event) => this.on_key(event),
        focus: () => this.choose(this.at ?? 0),
        blur: () => this.choose(null),
        mousemove: (event) => this.choose(this.index_at(event)),
        mouseleave: () => this.choose(null),
        click: (event) => this.open(this.index_at(event))
      }
    });
    this.said = h('p', {class: 'heat-said', role: 'status'});
    this.legend = h('div', {class: 'heat-legend'});
    this.element = h('div', {class: 'heat-frame'}, this.canvas, h('div', {class: 'heat-foot'}, this.said, this.legend));
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.element);
    this.on_theme = () => this.draw();
    document.addEventListener('themechange', this.on_theme);
  }
  destroy() {
    this.observer.disconnect();
    document.removeEventListener('themechange', this.on_theme);
  }

  update(ranks, heat, answer) {
    Object.assign(
      this, {ranks, heat, answer: {...answer, front: ranks.reduce((most, one) => Math.max(most, one.step ?? 0), 0)}});
    replace(this.legend, heat.scale ? scale_legend(heat.scale) : state_legend(ranks));
    this.draw();
    if (this.at !== null) this.say();
  }

  layout() {
    const width = this.element.clientWidth;
    const wish = Math.sqrt((width * 300) / Math.max(1, this.ranks.length));
    const size = Math.max(kLeastCell, Math.min(kLargestCell, Math.floor(wish)));
    let columns = Math.max(1, Math.floor(width / size));
    if (columns > 8) columns -= columns % 8;  // nodes often have eight ranks: they stand below each other
    return {size, columns, lines: Math.ceil(this.ranks.length / columns)};
  }

  colors() {
    return {
      cold: css('--heat-0'),
      warm: css('--heat-1'),
      hot: css('--heat-2'),
      text: css('--text'),
      focus: css('--focus'),
      surface: css('--surface'),
      line: css('--line-strong'),
      kinds:
        Object.fromEntries(['running', 'good', 'bad', 'warn', 'odd', 'quiet'].map((kind) => [kind, css(`--${kind}`)]))
    };
  }

  draw() {
    if (!this.heat || this.element.clientWidth === 0) return;
    const {size, columns, lines} = this.layout();
    const ratio = devicePixelRatio || 1;
    const [width, height] = [columns * size, lines * size];
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const canvas = this.canvas.getContext('2d');
    const colors = this.colors();
    canvas.scale(ratio, ratio);
    canvas.textAlign = 'center';
    canvas.textBaseline = 'middle';
    canvas.font = `600 ${Math.min(12, size - 4)}px ${css('--mono')}`;
    this.ranks.forEach((rank, index) => this.draw_cell(
                         canvas, colors, rank, (index % columns) * size, Math.floor(index / columns) * size, size));
    if (this.at === null) return;
    canvas.strokeStyle = colors.focus;
    canvas.lineWidth = 2;
    canvas.strokeRect((this.at % columns) * size + 0.5, Math.floor(this.at / columns) * size + 0.5, size - 2, size - 2);
  }

  draw_cell(canvas, colors, rank, x, y, size) {
    const gap = size > 14 ? 2 : 1;
    const side = size - gap;
    if (this.heat.scale === null) {
      const state = shown_state(rank);
      const kind = state_kind(state);
      canvas.fillStyle = mixed(colors.kinds[kind], colors.surface, kStrong.has(kind) ? 0 : 0.45);
      canvas.fillRect(x, y, side, side);
      canvas.fillStyle = kStrong.has(kind) ? colors.surface : colors.text;
      canvas.fillText(kLetters[state] ?? '', x + side / 2, y + side / 2 + 0.5);
      return;
    }
    const value = this.heat.value(rank, this.answer);
    if (value === null || value === undefined) {
      canvas.strokeStyle = colors.line;
      canvas.lineWidth = 1;
      canvas.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
      canvas.beginPath();
      canvas.moveTo(x, y + side);
      canvas.lineTo(x + side, y);
      canvas.stroke();
      return;
    }
    const share = Math.min(1, Math.max(0, value));
    canvas.fillStyle =
      share < 0.5 ? mixed(colors.cold, colors.warm, share * 2) : mixed(colors.warm, colors.hot, share * 2 - 1);
    canvas.fillRect(x, y, side, side);
  }

  index_at(event) {
    const {size, columns} = this.layout();
    const index = Math.floor(event.offsetY / size) * columns + Math.floor(event.offsetX / size);
    return event.offsetX < columns * size && index < this.ranks.length ? index : null;
  }

  choose(index) {
    if (this.at === index) return;
    this.at = index;
    this.draw();
    this.say();
  }
  say() {
    const rank = this.at === null ? null : this.ranks[this.at];
    set_text(this.said,
      rank ? this.options.describe(rank) : `${this.ranks.length} ranks. Point at one, or use the arrow keys.`);
  }
  open(index) {
    if (index !== null) this.options.open(this.ranks[index]);
  }

  on_key(event) {
    const {columns} = this.layout();
    const last = this.ranks.length - 1;
    const at = this.at ?? 0;
    const to = {
      ArrowLeft: at - 1,
      ArrowRight: at + 1,
      ArrowUp: at - columns,
      ArrowDown: at + columns,
      Home: 0,
      End: last
    }[event.key];
    if (event.key === 'Enter')
      this.open(this.at);
    else if (to !== undefined)
      this.choose(Math.max(0, Math.min(last, to)));
    else
      return;
    event.preventDefault();
  }
}
