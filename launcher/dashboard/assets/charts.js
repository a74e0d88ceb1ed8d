// A chart of one or more series over a common x. dygraphs draws it; the title, the legend and all texts that come from
// users are ours, because dygraphs would write them as HTML. Charts have a keyboard cursor and tell screen readers what
// they show.

import {h, icon, replace, set_text} from './dom.js';
import {metric as metric_text} from './format.js';

// dygraphs is a plain script of 131 KB: only pages with charts load it.
await new Promise((resolve, reject) => {
  const script = h('script',
    {src: 'dygraph.min.js', on: {load: resolve, error: () => reject(new Error('dygraph.min.js does not load'))}});
  document.head.append(script);
});
// Of its plugins only those that write nothing but the axes' numbers.
Dygraph.PLUGINS = [Dygraph.Plugins.Grid, Dygraph.Plugins.Axes];

const kHeight = 190;
// The theme's colours, read once a theme: reading them makes the browser compute styles.
let colors = new Map();
function css(name) {
  if (!colors.has(name)) colors.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colors.get(name);
}
const series_color = (index) => css(`--series-${(index % 8) + 1}`);

const all = new Set();  // charts that are on the page, to move their cursors together
document.addEventListener('themechange', () => {
  colors = new Map();
  all.forEach((chart) => chart.restyle());
});

/// One x for all series: [{x, low, mid, high}] to dygraphs' rows [x, [low, mid, high]…]. null: no value here; NaN: a
/// gap.
function rows_of(series) {
  const at = new Map();
  series.forEach((one, column) => one.x.forEach((x, index) => {
    let row = at.get(x);
    if (!row) at.set(x, (row = [x, ...series.map(() => [null, null, null])]));
    const mid = one.mid[index] ?? NaN;
    row[column + 1] = [one.low?.[index] ?? mid, mid, one.high?.[index] ?? mid];
  }));
  return [...at.values()].sort((a, b) => a[0] - b[0]);
}

/// Options: title, unit, format(value), binary: ticks at powers of two; x_format(x), x_axis(x): short label, min_y,
/// group: charts whose cursors move together, on_zoom(from, to) or on_zoom(null), height, on_nearest(index or null):
/// the series that the pointer is nearest to. Elements: `element`.
export class Chart {
  constructor(options) {
    this.options = {format: metric_text, x_format: String, ...options};
    this.series = [];
    this.marks = [];
    this.cursor = null;
    this.visible = true;  // only these follow another chart's cursor
    this.readout = h('div', {class: 'chart-readout'});
    this.plot = h('div', {class: 'chart-plot', css: {height: `${options.height ?? kHeight}px`}});
    this.note = h('span', {class: 'chart-note'});
    this.element = h('figure',
      {class: 'chart', tabindex: 0, on: {keydown: (event) => this.on_key(event), blur: () => this.select(null)}},
      h('figcaption', {}, h('span', {class: 'chart-title'}, options.title),
        options.unit && h('span', {class: 'chart-unit'}, options.unit), this.note),
      this.readout, this.plot);
    this.element.title = options.hint ?? '';
    all.add(this);
  }

  destroy() {
    all.delete(this);
    this.graph?.destroy();
    this.graph = null;
  }

  /// series: [{label, x, mid, low?, high?, faint?, quiet?: not in the readout, css?: its colour's name, width?,
  /// dash?}]; marks: [{x, text}]: vertical lines; note: a text at the title.
  update(series, {marks = [], note = '', log = false, window = null} = {}) {
    Object.assign(this, {series, marks, log});
    set_text(this.note, note);
    this.rows = rows_of(series);
    if (this.rows.length === 0) {
      this.graph?.destroy();
      this.graph = null;
      replace(this.plot, h('div', {class: 'empty'}, this.options.empty ?? 'No values yet'));
      return;
    }
    const options = {
      file: this.rows,
      labels: ['x', ...series.map((_, index) => `s${index}`)],
      logscale: log && this.positive(),
      dateWindow: window,
      ...this.style()
    };
    if (this.graph && this.graph.numColumns() === series.length + 1) {
      this.graph.updateOptions(options);
    } else {
      this.graph?.destroy();
      this.graph = null;
      this.draw(options);
    }
    this.describe();
    this.select(this.cursor);
  }

  positive() {
    return this.series.some((one) => one.mid.some((value) => value > 0));
  }

  style() {
    const series = {};
    this.series.forEach((one, index) => (series[`s${index}`] = {
      color: one.css ? css(one.css) : series_color(one.color ?? index),
      strokeWidth: one.width ?? (one.faint ? 0.8 : 1.6),
      strokePattern: one.dash ?? null
    }));
    return {series, gridLineColor: css('--grid'), axisLineColor: css('--line-strong')};
  }
  restyle() {
    this.graph?.updateOptions(this.style());
  }

  draw({file, ...options}) {
    replace(this.plot);
    this.graph = new Dygraph(this.plot, file, {
      ...options,
      customBars: true,
      connectSeparatedPoints: true,
      fillAlpha: 0.16,
      legend: 'never',
      drawHighlightPointCallback: Dygraph.Circles.DEFAULT,
      highlightCircleSize: 3,
      axisLabelFontSize: 11,
      gridLineWidth: 1,
      xRangePad: 4,
      yRangePad: 8,
      rightGap: 8,
      animatedZooms: false,
      labelsKMG2: this.options.binary ?? false,
      includeZero: this.options.min_y === 0,
      axes: {
        x: {
          axisLabelFormatter: (x) => (this.options.x_axis ?? this.options.x_format)(x),
          pixelsPerLabel: 54,
          drawGrid: false,
          axisLabelWidth: 54
        },
        y: {axisLabelFormatter: (y) => this.options.format(y) ?? '', axisLabelWidth: 58, pixelsPerLabel: 26},
      },
      ...(this.options.on_nearest ? {highlightSeriesOpts: {strokeWidth: 2.2}, highlightSeriesBackgroundAlpha: 1} : {}),
      highlightCallback: (_event, x, _points, _row, name) => {
        this.select_group(x);
        this.options.on_nearest?.(name === undefined ? null : Number(name.slice(1)));
      },
      unhighlightCallback: () => {
        this.select_group(null);
        this.options.on_nearest?.(null);
      },
      zoomCallback: (from, to) => this.options.on_zoom?.(from, to),
      underlayCallback: (canvas, area, graph) => this.draw_marks(canvas, area, graph),
      interactionModel: this.interaction(),
    });
  }

  interaction() {
    // Drag: zoom; shift and drag: move; double click: the whole range. Touches scroll the page, as everywhere.
    const {mousedown, willDestroyContextMyself} = Dygraph.defaultInteractionModel;
    return {mousedown, willDestroyContextMyself, dblclick: () => this.options.on_zoom?.(null)};
  }

  draw_marks(canvas, area, graph) {
    canvas.save();
    canvas.strokeStyle = css('--faint');
    canvas.setLineDash([3, 3]);
    for (const mark of this.marks) {
      const x = Math.round(graph.toDomXCoord(mark.x)) + 0.5;
      if (x < area.x || x > area.x + area.w) continue;
      canvas.beginPath();
      canvas.moveTo(x, area.y);
      canvas.lineTo(x, area.y + area.h);
      canvas.stroke();
    }
    canvas.restore();
  }

  select_group(x) {
    for (const chart of all)
      if (chart === this || (chart.visible && this.options.group && chart.options.group === this.options.group))
        chart.select(x);
  }

  /// Put the cursor at the row that is nearest to x; null takes it away.
  select(x) {
    this.cursor = x;
    if (!this.graph) return;
    if (x === null) {
      this.graph.clearSelection();
      this.show_readout(null);
      return;
    }
    const index = this.index_near(x);
    if (this.graph.getSelection() !== index) this.graph.setSelection(index);
    this.show_readout(this.rows[index]);
  }

  index_near(x) {
    let low = 0;
    let high = this.rows.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.rows[middle][0] < x)
        low = middle + 1;
      else
        high = middle;
    }
    if (low > 0 && x - this.rows[low - 1][0] < this.rows[low][0] - x) --low;
    return low;
  }

  show_readout(row) {
    const shown = this.series.map((one, index) => [one, index]).filter(([one]) => !one.faint && !one.quiet);
    const items = shown.map(([one, index]) => {
      const value = row ? row[index + 1][1] : one.mid.findLast((mid) => mid !== null && !Number.isNaN(mid));
      const text = value === undefined || value === null || Number.isNaN(value) ? '–' : this.options.format(value);
      return h('span', {class: 'chart-value'},
        h('i', {css: {background: `var(${one.css ?? `--series-${((one.color ?? index) % 8) + 1}`})`}}),
        (shown.length > 1 || this.options.on_nearest) && h('span', {class: 'chart-name'}, one.label), h('b', {}, text));
    });
    replace(this.readout, items, row && h('span', {class: 'chart-x'}, this.options.x_format(row[0])));
  }

  describe() {
    const parts = this.series.filter((one) => !one.faint && !one.quiet).map((one) => {
      const values = one.mid.filter((value) => value !== null && !Number.isNaN(value));
      if (values.length === 0) return `${one.label}: no values`;
      const text = (value) => this.options.format(value);
      return `${one.label}: last ${text(values.at(-1))}, from ${text(values.reduce((a, b) => Math.min(a, b)))} to ${
        text(values.reduce((a, b) => Math.max(a, b)))}`;
    });
    this.element.setAttribute('aria-label',
      `Chart of ${this.options.title}. ${
        parts.join('; ')}. Left and right move the cursor, plus and minus zoom, 0 shows all.`);
  }

  on_key(event) {
    if (!this.graph || event.altKey || event.ctrlKey || event.metaKey) return;
    const [from, to] = this.graph.xAxisRange();
    const at = this.cursor === null ? this.rows.length - 1 : this.index_near(this.cursor);
    const step = event.shiftKey ? Math.max(1, Math.round(this.rows.length / 20)) : 1;
    const center = this.rows[at][0];
    const zoom = (factor) => this.options.on_zoom?.(Math.max(this.rows[0][0], center - (center - from) * factor),
      Math.min(this.rows.at(-1)[0], center + (to - center) * factor));
    const actions = {
      ArrowLeft: () => this.select_group(this.rows[Math.max(0, this.cursor === null ? at : at - step)][0]),
      ArrowRight: () => this.select_group(this.rows[Math.min(this.rows.length - 1, at + step)][0]),
      Home: () => this.select_group(this.rows[0][0]),
      End: () => this.select_group(this.rows.at(-1)[0]),
      '+': () => zoom(0.5),
      '=': () => zoom(0.5),
      '-': () => zoom(2),
      0: () => this.options.on_zoom?.(null),
      Escape: () => this.select_group(null),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }
}

const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) entry.target.on_visible?.(entry.isIntersecting);
}, {rootMargin: '200px'});

/// Call `on_visible(bool)` when the element comes near the window or leaves it.
export function watch_visible(element, on_visible) {
  element.on_visible = on_visible;
  observer.observe(element);
}
export const unwatch_visible = (element) => observer.unobserve(element);

/// A small button of a chart's toolbar.
export const reset_button = (on_click) => h('button', {type: 'button', class: 'button small', on: {click: on_click}},
  icon('reset'), h('span', {}, 'Whole range'));
