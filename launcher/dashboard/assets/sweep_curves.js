// The metric of a sweep's trials over their time: the best trial is marked, those that were stopped are grey and
// broken. Of many trials, the best are shown, and of the others some of each rank.

import {get} from './api.js';
import {Chart} from './charts.js';
import {button, h, set_text, throttled} from './dom.js';
import {count, metric} from './format.js';

const kShownMax = 60;
const kLiveMs = 1500;
const kEnded = new Set(['stopped', 'failed', 'invalid', 'interrupted']);

/// Return which trials to show: all, or the best half, and the others evenly spaced.
function chosen_of(trials) {
  if (trials.length <= kShownMax) return trials;
  const half = Math.floor(kShownMax / 2);
  const rest = trials.slice(half);
  const every = rest.length / (kShownMax - half);
  return [...trials.slice(0, half), ...Array.from({length: kShownMax - half}, (_, at) => rest[Math.floor(at * every)])];
}

/// Options: path of the sweep's API, signal, on_error(error), on_point(trial or null).
export class SweepCurves {
  constructor({path, signal, on_error, on_point}) {
    Object.assign(this, {path, signal, on_error, on_point, trials: [], curves: new Map(), pointed: null, log: false});
    this.note = h('span', {class: 'note', role: 'status'});
    this.log_button = button('log y', {
      title: 'Logarithmic scale',
      on_click: () => {
        this.log = !this.log;
        this.log_button.setAttribute('aria-pressed', String(this.log));
        this.draw();
      }
    });
    this.log_button.setAttribute('aria-pressed', 'false');
    this.element = h('div', {class: 'sweep-curves'});
    this.load_soon = throttled(() => this.load(), kLiveMs);
    this.first = true;
  }
  destroy() {
    this.load_soon.cancel();
    cancelAnimationFrame(this.pending);
    this.chart?.destroy();
    this.chart = null;  // an answer that is still on its way draws nothing
  }

  /// Show these trials, the best first; `best` is the number of the sweep's best.
  update(sweep, trials, best) {
    if (!this.chart) {
      const time = sweep.time_attribute ?? 'report';
      this.chart = new Chart({
        title: sweep.metric ?? 'metric',
        unit: `over ${time}`,
        height: 300,
        x_format: (x) => `${time} ${metric(x)}`,
        x_axis: (x) => metric(x),
        on_zoom: (from, to) => {
          this.window = from === null ? null : [from, to];
          this.draw();
        },
        on_nearest: (index) => this.on_point(index === null ? null : this.drawn[index]?.trial ?? null),
        empty: 'No trial has reported the metric yet'
      });
      this.element.append(this.chart.element);
    }
    this.best = best;
    const before = this.signature(this.trials);
    this.trials = chosen_of(trials);
    set_text(this.note,
      this.trials.length === trials.length
        ? `${count(trials.length)} trials`
        : `${count(this.trials.length)} of ${count(trials.length)} trials: the best half, and some of the rest`);
    if (this.first || before !== this.signature(this.trials)) this.load_soon();
    this.first = false;
    this.draw();
  }
  signature(trials) {
    return trials.map(({trial, time, state}) => `${trial}:${time}:${state}`).join();
  }

  /// Load what is not there yet, or has grown.
  async load() {
    const wanted = this.trials.filter((row) => {
      const known = this.curves.get(row.trial);
      return !known || known.more || known.of !== `${row.time}${row.state}`;
    });
    if (wanted.length === 0) return;
    try {
      const {curves} = await get(`${this.path}/curves`, {trial: wanted.map(({trial}) => trial)}, this.signal);
      curves.forEach((curve, index) => {
        const row = wanted[index];
        this.curves.set(curve.trial, {...curve, of: `${row.time}${row.state}`});
      });
      if (curves.some((curve) => curve.more)) this.load_soon();
      this.draw();
    } catch (error) {
      if (error.name !== 'AbortError') this.on_error(error);
    }
  }

  point(trial) {
    if (this.pointed === trial) return;
    this.pointed = trial;
    this.draw();
  }

  draw() {
    if (!this.chart) return;
    cancelAnimationFrame(this.pending);
    this.pending = requestAnimationFrame(() => this.draw_now());
  }
  draw_now() {
    const rows = this.trials.filter(({trial}) => this.curves.get(trial)?.time.length > 0);
    const rank = ({trial}) => (trial === this.pointed ? 2 : trial === this.best ? 1 : 0);
    this.drawn = rows.toSorted((a, b) => rank(a) - rank(b));  // the last one is drawn above the others
    this.chart.update(this.drawn.map((row) => this.series_of(row)), {log: this.log, window: this.window ?? null});
  }
  series_of(row) {
    const curve = this.curves.get(row.trial);
    const base = {label: `trial ${row.trial}`, x: curve.time, mid: curve.value};
    if (row.trial === this.pointed) return {...base, css: '--text', width: 2.2};
    if (row.trial === this.best) return {...base, label: `best: trial ${row.trial}`, css: '--best', width: 2.6};
    if (kEnded.has(row.state)) return {...base, css: '--faint', width: 1, dash: [4, 3], quiet: true};
    return {...base, css: '--scale-best', width: 1.1, quiet: true};
  }
}

/// What the lines of the chart mean.
export const curves_legend = () => h('div', {class: 'heat-legend'},
  [['best', 'best trial'], ['other', 'finished or running'], ['stopped', 'stopped, failed']].map(
    ([kind, text]) => h('span', {class: 'heat-key'}, h('span', {class: 'line-key', data: {line: kind}}), text)));
