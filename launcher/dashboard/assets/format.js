// Numbers, units and times as texts. Each function returns null for what is not known (null, undefined or NaN), so that
// a cell can say why instead.

import {h} from './dom.js';

const kLocale = 'en-GB';
const whole = new Intl.NumberFormat(kLocale, {maximumFractionDigits: 0});
const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);

/// The mark for what is not known; `why` is its tooltip and what screen readers say.
export function unknown(why) {
  return h(
    'span', {class: 'unknown', title: why}, h('span', {'aria-hidden': 'true'}, '–'), h('span', {class: 'sr'}, why));
}

/// `text`, or the mark for what is not known.
export const or_unknown = (text, why) => (text === null ? unknown(why) : text);

export const count = (value) => (known(value) ? whole.format(value) : null);

/// A metric's value: four significant digits, or as it is for texts and booleans.
export function metric(value) {
  if (!known(value)) return null;
  if (typeof value !== 'number') return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return whole.format(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(2).replace('e+', 'e');
  if (size >= 1e5) return whole.format(value);
  return String(Number(value.toPrecision(4)));
}

const kBytes = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
export function bytes(value) {
  if (!known(value)) return null;
  let unit = 0;
  let left = Math.abs(value);
  for (; left >= 1023.5 && unit < kBytes.length - 1; ++unit) left /= 1024;
  return `${value < 0 ? '-' : ''}${unit === 0 || left >= 99.95 ? left.toFixed(0) : left.toFixed(1)} ${kBytes[unit]}`;
}
export const bytes_per_s = (value) => (known(value) ? `${bytes(value)}/s` : null);
export const per_s = (value, what) =>
  (known(value) ? `${value >= 100 ? whole.format(value) : Number(value.toPrecision(3))} ${what}/s` : null);
export function percent(ratio) {
  if (!known(ratio)) return null;
  if (ratio > 0 && ratio < 0.0005) return '< 0.1 %';
  return `${(ratio * 100).toFixed(ratio > 0 && ratio < 0.0995 ? 1 : 0)} %`;
}
export const cores = (value) => (known(value) ? value.toFixed(value < 0.0995 ? 3 : value < 10 ? 2 : 1) : null);

/// A duration of seconds: 340 ms, 12.3 s, 4 min 5 s, 2 h 10 min, 3 d 4 h.
export function duration(s) {
  if (!known(s)) return null;
  if (s <= 0) return '0 s';
  if (s < 0.9995) return `${(s * 1000).toFixed(s < 0.00995 ? 1 : 0)} ms`;
  if (s < 9.95) return `${s.toFixed(1)} s`;
  const total = Math.round(s);
  if (total < 60) return `${total} s`;
  if (total < 3600) return `${Math.floor(total / 60)} min ${total % 60} s`;
  const minutes = Math.floor(total / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
}

/// As duration(), of whole seconds: for what goes on.
export const whole_seconds = (s) => (s < 60 ? `${Math.max(0, Math.floor(s))} s` : duration(Math.floor(s)));

/// Seconds since 1970 of an RFC 3339 text, or null.
export function seconds_of(text) {
  if (!text) return null;
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? null : ms / 1000;
}

const clock = new Intl.DateTimeFormat(kLocale, {hour: '2-digit', minute: '2-digit', second: '2-digit'});
const day = new Intl.DateTimeFormat(kLocale, {day: 'numeric', month: 'short'});
const day_of_year = new Intl.DateTimeFormat(kLocale, {day: 'numeric', month: 'short', year: 'numeric'});

/// A point in time in the browser's zone: the time today, else with its day.
export function time(s) {
  if (!known(s)) return null;
  const date = new Date(s * 1000);
  const now = new Date();
  if (date.toDateString() === now.toDateString()) return clock.format(date);
  return `${(date.getFullYear() === now.getFullYear() ? day : day_of_year).format(date)}, ${
    clock.format(date).slice(0, 5)}`;
}
export const clock_time = (s) => (known(s) ? clock.format(new Date(s * 1000)) : null);
export const exact_time = (s) =>
  (known(s) ? new Date(s * 1000).toISOString().replace('T', ' ').replace('Z', ' UTC') : null);

/// A <time> element with the exact time as its tooltip.
export function time_element(text, why) {
  const s = seconds_of(text);
  return s === null ? unknown(why) : h('time', {datetime: text, title: exact_time(s)}, time(s));
}

export const plural = (n, one, many = `${one}s`) => `${whole.format(n)} ${n === 1 ? one : many}`;
