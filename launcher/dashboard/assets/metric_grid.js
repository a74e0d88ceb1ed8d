// Metric charts of one run, or of several runs over each other, with one toolbar: x, smoothing, scale, filter, zoom.
// Charts are made when one scrolls to them, and only what is visible is loaded; the server reduces it to as many points
// as a chart has pixels.

import {get, run_path, server_now} from './api.js';
import {Chart, reset_button, unwatch_visible, watch_visible} from './charts.js';
import {choice, h, replace, set_text, throttled} from './dom.js';
import {clock_time, count, duration, metric, time} from './format.js';

const kPoints = 400;
const kKeysACall = 64;
const kLiveMs = 1500;

// What the user chose, kept while the pages are open.
const chosen = {
  x: 'report',
  smoothing: 0,
  log: false
};

const kX = {
  report: {
    label: 'Report',
    of: (series) => series.report,
    format: (x) => `report ${count(x)}`,
    axis: (x) => (Number.isInteger(x) ? count(x) : '')
  },
  epoch: {label: 'Epoch', of: (series) => series.epoch, format: (x) => `epoch ${metric(x)}`, axis: (x) => metric(x)},
  time: {label: 'Time', of: (series) => series.t, format: (x) => time(x), axis: (x) => clock_time(x)},
};
const kElapsed = {
  label: 'Time',
  of: (series, start) => series.t.map((t) => t - start),
  format: (x) => `after ${duration(x)}`,
  axis: (x) => duration(Math.max(0, Math.round(x)))
};

/// sources: [{run, label, color}]; keys: names of metrics; options: signal, toolbar (true), extra: more in the toolbar,
/// limit, on_error(error).
export class MetricGrid {
  constructor(sources, keys, {signal, toolbar = true, extra = null, limit = Infinity, on_error}) {
    Object.assign(this, {
      sources,
      signal,
      on_error,
      limit,
      filter: '',
      window: null,
      version: 0,
      shown: new Set(),
      items: new Map(),
      data: new Map(),
      whole: new Map()
    });
    this.grid = h('div', {class: 'chart-grid'});
    this.summary = h('span', {class: 'note', role: 'status'});
    this.zoom_out = reset_button(() => this.zoom(null));
    this.zoom_out.hidden = true;
    this.tools = h('div', {class: 'tools chart-tools'}, toolbar && this.make_tools(), this.zoom_out, this.summary,
      extra && [h('span', {class: 'grow'}), extra]);
    this.element = h('div', {class: 'metric-grid'}, this.tools, this.grid);
    this.load_soon = throttled(() => this.load(), 30);
    this.refresh = throttled(() => this.load(true), kLiveMs);
    this.set_keys(keys);
  }

  destroy() {
    this.load_soon.cancel();
    this.refresh.cancel();
    for (const item of this.items.values()) this.drop(item);
    this.items.clear();
  }

  make_tools() {
    const amount = h('output', {class: 'nowrap'}, String(chosen.smoothing));
    const slider = h('input', {
      type: 'range',
      min: 0,
      max: 0.99,
      step: 0.01,
      value: chosen.smoothing,
      on: {
        input: () => {
          chosen.smoothing = Number(slider.value);
          set_text(amount, slider.value);
          this.draw();
        }
      }
    });
    const log = h('button', {
      type: 'button',
      class: 'button',
      'aria-pressed': String(chosen.log),
      title: 'Logarithmic scale',
      on: {
        click: () => {
          chosen.log = !chosen.log;
          log.setAttribute('aria-pressed', String(chosen.log));
          this.draw();
        }
      }
    },
      'log y');
    const filter = h('input', {
      type: 'search',
      class: 'field',
      placeholder: 'Filter metrics',
      'aria-label': 'Filter metrics',
      on: {
        input: () => {
          this.filter = filter.value.trim().toLowerCase();
          this.arrange();
        }
      }
    });
    return [
      filter,
      choice('x', Object.entries(kX).map(([key, {label}]) => [key, label]), chosen.x,
        (x) => {
          chosen.x = x;
          this.zoom(null);
        }),
      h('label', {class: 'labelled'}, h('span', {}, 'Smoothing'), slider, amount), log
    ];
  }

  get x() {
    return chosen.x === 'time' && this.sources.length > 1 ? kElapsed : kX[chosen.x];
  }

  set_keys(keys) {
    this.keys = keys;
    this.arrange();
  }

  arrange() {
    const matching = this.keys.filter((key) => key.toLowerCase().includes(this.filter));
    const wanted = matching.slice(0, this.limit);
    for (const [key, item] of this.items)
      if (!wanted.includes(key)) {
        this.drop(item);
        this.items.delete(key);
      }
    wanted.forEach((key, index) => {
      let item = this.items.get(key);
      if (!item) this.items.set(key, (item = this.item(key)));
      if (this.grid.children[index] !== item.frame)
        this.grid.insertBefore(item.frame, this.grid.children[index] ?? null);
    });
    set_text(this.summary, this.filter ? `${matching.length} of ${this.keys.length} metrics` : '');
  }

  item(key) {
    const item = {key, frame: h('div', {class: 'chart-slot card'}, h('div', {class: 'chart-title'}, key)), chart: null};
    watch_visible(item.frame, (visible) => {
      if (item.chart) item.chart.visible = visible;
      if (visible)
        this.shown.add(key);
      else
        this.shown.delete(key);
      if (visible && !this.data.has(key))
        this.load_soon();
      else if (visible && (item.drawn !== this.data.get(key) || item.version !== this.version))
        this.draw_soon(item);
    });
    return item;
  }

  drop(item) {
    unwatch_visible(item.frame);
    this.shown.delete(item.key);
    item.chart?.destroy();
    item.frame.remove();
  }

  /// Load what is visible: what is not there yet, or with `again` all of it.
  async load(again = false) {
    const keys = [...this.shown].filter((key) => again || !this.data.has(key)).slice(0, kKeysACall);
    if (keys.length === 0) return;
    const window = this.window;
    try {
      const answers = await Promise.all(
        this.sources.map((source) => get(`${run_path(source.run)}/metrics`,
                           {key: keys, rank: source.rank, points: kPoints, ...this.reports(source)}, this.signal)));
      if (window !== this.window) return;
      keys.forEach((key, index) => {
        const of_sources = answers.map((answer) => ({...answer.series[index], attempts: answer.attempts}));
        this.data.set(key, of_sources);
        if (!window) this.whole.set(key, of_sources);
      });
      keys.forEach((key) => this.items.has(key) && this.draw_soon(this.items.get(key)));
    } catch (error) {
      if (error.name !== 'AbortError') this.on_error(error);
    }
  }

  /// The reports of a source that the zoomed window shows, and one more on each side.
  reports(source) {
    if (!this.window) return {};
    const at = this.sources.indexOf(source);
    let from = Infinity;
    let to = 0;
    for (const of_sources of this.whole.values()) {
      const series = of_sources[at];
      const x = this.x.of(series, series.t[0]);
      const first = x.findIndex((value) => value >= this.window[0]);
      const last = x.findLastIndex((value) => value <= this.window[1]);
      if (first === -1 || last === -1) continue;
      from = Math.min(from, series.report[Math.max(0, first - 1)]);
      to = Math.max(to, series.report[Math.min(x.length - 1, last + 1)]);
    }
    return from <= to ? {from, to} : {};
  }

  zoom(from, to) {
    this.window = from === null ? null : [from, to];
    this.zoom_out.hidden = !this.window;
    this.data.clear();
    if (!this.window) this.whole.forEach((value, key) => this.data.set(key, value));
    for (const item of this.items.values()) item.chart?.graph?.updateOptions({dateWindow: this.window});
    this.load(true);
  }

  /// Draw again, since a setting has changed: now what is visible, the rest when it is.
  draw() {
    ++this.version;
    for (const key of this.shown)
      if (this.data.has(key)) this.draw_soon(this.items.get(key));
  }

  /// One chart a frame, so that scrolling stays smooth.
  draw_soon(item) {
    this.queue ??= new Set();
    this.queue.add(item);
    this.frame ??= requestAnimationFrame(() => this.draw_next());
  }
  draw_next() {
    const [item] = this.queue;
    this.queue.delete(item);
    this.frame = this.queue.size > 0 ? requestAnimationFrame(() => this.draw_next()) : undefined;
    if (this.items.get(item?.key) === item) this.draw_item(item);
  }

  draw_item(item) {
    const of_sources = this.data.get(item.key);
    if (!of_sources) return;
    item.drawn = of_sources;
    item.version = this.version;
    const x = this.x;
    if (item.x !== x) {
      item.chart?.destroy();
      item.chart = new Chart({
        title: item.key,
        group: this,
        format: metric,
        x_format: x.format,
        x_axis: x.axis,
        on_zoom: (from, to) => this.zoom(from, to),
        empty: 'No reports with this metric yet'
      });
      item.x = x;
      item.chart.element.dataset.x = chosen.x;
      replace(item.frame, item.chart.element);
    }
    const several = this.sources.length > 1;
    const series = of_sources.flatMap((one, at) => this.series_of(one, this.sources[at], several, x));
    const non_finite = of_sources.reduce((sum, one) => sum + one.non_finite.reduce((a, b) => a + b, 0), 0);
    item.chart.update(series, {
      marks: several ? [] : this.attempt_marks(of_sources[0], x),
      log: chosen.log,
      window: this.window,
      note: non_finite ? `${count(non_finite)} NaN or infinite` : '',
    });
  }

  series_of(one, source, several, x) {
    const at = x.of(one, one.t[0]).map((value) => value ?? NaN);
    const base = {label: source.label, color: source.color ?? 0, x: at};
    if (chosen.smoothing === 0)
      return [{...base, mid: one.mean, low: several ? undefined : one.min, high: several ? undefined : one.max}];
    const smooth = {...base, mid: smoothed(one.mean)};
    return several ? [smooth] : [{...base, mid: one.mean, faint: true}, smooth];
  }

  attempt_marks(one, x) {
    const at = x.of(one, one.t[0]);
    return one.attempts.slice(1)
      .map(({attempt, first_report}) => {
        const index = one.report.findIndex((report) => report >= first_report);
        return {x: index === -1 ? NaN : at[index], text: `attempt ${attempt}`};
      })
      .filter((mark) => !Number.isNaN(mark.x));
  }
}

/// Exponential smoothing with the weight that the user chose. Gaps stay gaps, and nothing is pulled towards zero at the
/// start.
function smoothed(values) {
  const weight = chosen.smoothing;
  let mean = 0;
  let norm = 0;
  return values.map((value) => {
    if (value === null || Number.isNaN(value)) return value;
    mean = weight * mean + (1 - weight) * value;
    norm = weight * norm + (1 - weight);
    return mean / norm;
  });
}

/// Charts of samples: [{field, title, unit, format}] of a rank or a node, over time.
export class SampleCharts {
  constructor(run, selection, fields, {signal, on_error}) {
    Object.assign(this, {run, selection, fields, signal, on_error});
    this.charts = fields.map(({title, format, binary, min_y = 0}) => new Chart({
      title,
      format,
      binary,
      min_y,
      group: this,
      x_format: time,
      x_axis: clock_time,
      on_zoom: (from, to) => this.zoom(from, to),
      empty: 'No samples: this run has none'
    }));
    this.zoom_out = reset_button(() => this.zoom(null));
    this.zoom_out.hidden = true;
    this.element = h('div', {class: 'metric-grid'}, h('div', {class: 'tools chart-tools'}, this.zoom_out),
      h('div', {class: 'chart-grid'}, this.charts.map((chart) => h('div', {class: 'chart-slot card'}, chart.element))));
    this.window = null;
    this.refresh = throttled(() => this.load(), 2 * kLiveMs);
    this.load();
  }
  destroy() {
    this.refresh.cancel();
    this.charts.forEach((chart) => chart.destroy());
  }
  zoom(from, to) {
    this.window = from === null ? null : [from, to];
    this.zoom_out.hidden = !this.window;
    this.load();
  }
  async load() {
    try {
      const range = this.window ? {from: this.window[0], to: this.window[1]} : {};
      const fields = this.fields.flatMap(({field}) => field);
      const answer = await get(`${run_path(this.run)}/samples`,
        {...this.selection, fields: fields.join(','), points: kPoints, ...range}, this.signal);
      this.loaded_s = server_now();
      this.fields.forEach(({field, names}, index) => {
        const all = [field].flat();
        this.charts[index].update(
          all.filter((one) => answer.series[one]?.some((value) => value !== null)).map((one) => ({
            label: names?.[all.indexOf(one)] ?? one,
            color: all.indexOf(one),
            x: answer.t,
            mid: answer.series[one]
          })),
          {window: this.window});
      });
    } catch (error) {
      if (error.name !== 'AbortError') this.on_error(error);
    }
  }
}
