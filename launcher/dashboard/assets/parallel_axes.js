// Axes of parallel coordinates: where a value stands on its axis, as a share of its height from below, and what is
// written beside it. Values are any JSON: numbers have a scale, everything else is a choice by its text. Pure.

import {metric as metric_text} from './format.js';

const kAxesMax = 24;
const kChoicesMax = 12;  // more different numbers than that stand on a scale
const kLogRatio = 100;   // a metric that differs by more than that has a logarithmic scale
const kTicks = 5;

const is_number = (value) => typeof value === 'number' && Number.isFinite(value);

/// A value as a text; null if there is none. A parameter may be null, too.
export function value_text(value) {
  if (value === undefined) return null;
  if (typeof value === 'number') return metric_text(value);
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/// Round numbers from `low` to `high`, about kTicks of them.
function round_ticks(low, high) {
  const raw = (high - low) / (kTicks - 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw * 0.99);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-6; tick += step)
    ticks.push(Math.abs(tick) < step * 1e-6 ? 0 : tick);
  return ticks;
}
function log_ticks(low, high) {
  const from = Math.ceil(Math.log10(low) - 1e-9);
  const to = Math.floor(Math.log10(high) + 1e-9);
  if (to - from < 1) return [low, high];
  const step = Math.ceil((to - from + 1) / (kTicks + 1));
  return Array.from({length: Math.floor((to - from) / step) + 1}, (_, index) => 10 ** (from + index * step));
}

/// An axis with numbers from `low` to `high`.
function scale(base, low, high, {log = false, inverted = false} = {}) {
  const of = (value) => (log ? Math.log(value) : value);
  const [from, to] = [of(low), of(high)];
  const share = (value) => (to > from ? (of(value) - from) / (to - from) : 0.5);
  const at = (value) => {
    if (!is_number(value) || (log && value <= 0)) return null;
    const place = Math.min(1, Math.max(0, share(value)));
    return inverted ? 1 - place : place;
  };
  const value_at = (place) => {
    const value = from + (inverted ? 1 - place : place) * (to - from);
    return log ? Math.exp(value) : value;
  };
  const numbers = high <= low ? [low] : log ? log_ticks(low, high) : round_ticks(low, high);
  const ticks = numbers.map((tick) => ({at: at(tick), text: metric_text(tick)}));
  return {
    ...base,
    choices: null,
    at,
    ticks,
    step: 0.02,
    text_at: (place) => metric_text(Number(value_at(place).toPrecision(3)))
  };
}

/// An axis with texts in this order, the first one at the top.
function choices(base, texts) {
  const index_of = new Map(texts.map((text, index) => [text, index]));
  const place = (index) => 1 - (index + 0.5) / texts.length;
  const at = (value) => {
    const text = value_text(value);
    return text !== null && index_of.has(text) ? place(index_of.get(text)) : null;
  };
  return {
    ...base,
    choices: texts,
    at,
    ticks: texts.map((text, index) => ({at: place(index), text})),
    step: 1 / texts.length,
    text_at: (at_place) => texts[Math.min(texts.length - 1, Math.max(0, Math.floor((1 - at_place) * texts.length)))]
  };
}

function range_of(values, low = Infinity, high = -Infinity) {
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

function axis_of(parameter, values) {
  const base = {key: parameter.path, label: parameter.path, is_metric: false};
  const known = values.filter((value) => value !== undefined);
  const numbers = known.filter(is_number);
  if (parameter.low !== null && parameter.high !== null) {
    const [low, high] = range_of(numbers, parameter.low, parameter.high);
    return scale(base, low, high, {log: parameter.kind === 'log_uniform' && low > 0});
  }
  const all = [...parameter.values, ...known];
  const texts = [...new Set(all.map(value_text))];
  if (all.every(is_number)) {
    if (texts.length > kChoicesMax) {
      const [low, high] = range_of(all);
      return scale(base, low, high, {log: low > 0 && high / low > kLogRatio});
    }
    const sorted = [...new Set(all)].sort((a, b) => b - a);
    return choices(base, [...new Set(sorted.map(value_text))]);
  }
  return choices(base, texts);
}

/// The metric's axis: the best is at the top.
export function metric_axis(sweep, values) {
  const label = sweep.metric ?? 'metric';
  const base = {key: '\0metric', label, is_metric: true};
  const numbers = values.filter(is_number);
  if (numbers.length === 0) return scale(base, 0, 1, {inverted: sweep.mode !== 'max'});
  const [low, high] = range_of(numbers);
  return scale(base, low, high, {log: low > 0 && high / low > kLogRatio, inverted: sweep.mode !== 'max'});
}

/// What a sweep tries: the parameters that differ from trial to trial, as the spec says, or, if it cannot be read, the
/// trials.
export function tried_parameters(sweep, trials) {
  if (sweep.parameters.length > 0) return sweep.parameters.filter((one) => one.kind !== 'const');
  const texts = new Map();
  for (const {parameters} of trials)
    for (const [path, value] of Object.entries(parameters ?? {})) {
      if (!texts.has(path)) texts.set(path, new Set());
      texts.get(path).add(value_text(value));
    }
  return [...texts].filter(([, of_path]) => of_path.size > 1 || trials.length === 1).map(([
    path
  ]) => ({path, kind: 'unknown', low: null, high: null, values: []}));
}

/// The axes of a sweep, the metric's last; `left_out`: how many parameters have none.
export function axes_of(sweep, trials) {
  const tried = tried_parameters(sweep, trials);
  const axes = tried.slice(0, kAxesMax).map((one) => axis_of(one, trials.map((trial) => trial.parameters?.[one.path])));
  axes.push(metric_axis(sweep, trials.map((trial) => trial.best)));
  return {axes, left_out: Math.max(0, tried.length - kAxesMax)};
}
