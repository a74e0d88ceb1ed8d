// Small parts that several pages show.

import {server_now} from './api.js';
import {h} from './dom.js';
import {duration, metric, or_unknown, percent, seconds_of, time, unknown, whole_seconds} from './format.js';

/// How long it has been since a point in time, in whole seconds; app.js keeps it going.
export function elapsed(since_s) {
  return h('span', {data: {since: since_s}}, whole_seconds(server_now() - since_s));
}

const kShownMetrics = 2;
/// Metrics that say the most come first: losses and scores before counters.
function rank_of(key) {
  const at = [/^(train_?)?loss$/i, /loss/i, /acc|score|f1|auc|bleu|reward/i, /perplex|ppl|error/i].findIndex(
    (pattern) => pattern.test(key));
  return at === -1 ? (/^(epoch|step|time|lr|seed)$/i.test(key) ? 9 : 5) : at;
}
export const by_interest = (keys) => [...keys].sort((a, b) => rank_of(a) - rank_of(b) || a.localeCompare(b));

export function last_metrics(metrics) {
  const keys = by_interest(Object.keys(metrics ?? {}));
  if (keys.length === 0) return unknown('no report has arrived');
  return h('span',
    {class: 'metric-list', title: keys.map((key) => `${key} ${metric(metrics[key]) ?? 'not finite'}`).join('\n')},
    keys.slice(0, kShownMetrics)
      .map((key) => h('span', {}, h('span', {class: 'muted'}, key), ' ', h('b', {}, metric(metrics[key]) ?? 'NaN'))),
    keys.length > kShownMetrics && h('span', {class: 'muted'}, `+${keys.length - kShownMetrics}`));
}

/// A ratio as a bar and a text.
export function meter(ratio, text = percent(ratio), why = 'not measured') {
  if (ratio === null || ratio === undefined) return unknown(why);
  return h('span', {class: 'with-meter'},
    h('span', {class: 'meter', 'aria-hidden': 'true'},
      h('i', {css: {width: `${Math.min(100, Math.max(0, ratio * 100))}%`}})),
    h('span', {}, text));
}
export const goodput_meter = (ratio) => meter(ratio, percent(ratio), 'not measured: this run has no goodput.json yet');

// Where workers' seconds go. Good ones first, then what training needs, then what was wasted.
const kAccounts = [
  ['productive', 'productive steps', '--series-3'],
  ['collective', 'collectives', '--series-1'],
  ['data', 'waiting for data', '--series-5'],
  ['straggler_wait', 'waiting for stragglers', '--series-2'],
  ['checkpoint', 'checkpoints', '--series-6'],
  ['validate', 'validation', '--series-4'],
  ['report', 'reports', '--series-8'],
  ['start', 'start', '--quiet'],
  ['init', 'initialisation', '--quiet'],
  ['first_step', 'first step', '--quiet'],
  ['restore', 'restore', '--series-6'],
  ['paused', 'paused', '--quiet'],
  ['lost', 'lost and redone', '--series-7'],
  ['down', 'down', '--bad'],
  ['hung', 'hung', '--bad'],
  ['other', 'other', '--line-strong'],
];

/// The goodput bar: what share of the workers' seconds went where, as a bar and as a list with figures.
export function goodput_bar(seconds) {
  const total = Object.values(seconds).reduce((a, b) => a + b, 0);
  const known = new Set(kAccounts.map(([key]) => key));
  const accounts = [
    ...kAccounts, ...Object.keys(seconds).filter((key) => !known.has(key)).map((key) => [key, key, '--line-strong'])
  ].filter(([key]) => seconds[key] > 0);
  if (total <= 0) return unknown('no second has been booked');
  return h('div', {class: 'goodput'},
    h('div', {
      class: 'goodput-bar',
      role: 'img',
      'aria-label': accounts.map(([key, label]) => `${label} ${percent(seconds[key] / total)}`).join(', ')
    },
      accounts.map(([key, label, color]) => h('i', {
        title: `${label}: ${percent(seconds[key] / total)}`,
        css: {'flex-grow': seconds[key] / total, background: `var(${color})`}
      }))),
    h('ul', {class: 'goodput-list'},
      accounts.map(
        ([key, label, color]) => h('li', {}, h('i', {css: {background: `var(${color})`}}), h('span', {}, label),
          h('b', {}, percent(seconds[key] / total)), h('span', {class: 'muted'}, duration(seconds[key]))))));
}

/// A card with a heading.
export function card(title, {note, tools, id} = {}, ...children) {
  return h('section', {class: 'card', id, 'aria-label': title},
    h('div', {class: 'card-head'}, h('h2', {}, title), note && h('span', {class: 'note'}, note),
      tools && [h('span', {class: 'grow'}), tools]),
    ...children);
}

/// A list of names and values; values that are null become unknown(why).
export function facts(rows) {
  return h('dl', {class: 'facts'}, rows.filter(Boolean).map(([label, value,
    why]) => [h('dt', {}, label), h('dd', {}, or_unknown(value ?? null, why ?? 'not known'))]));
}

const kStaleS = 5;

/// How fresh samples are: nothing while they are new, else "as of …": a controller that is dead must not look alive.
export function freshness(as_of, live) {
  const s = seconds_of(as_of);
  if (s === null) return h('span', {class: 'note'}, live ? 'no samples yet' : 'this run kept no samples');
  const age = server_now() - s;
  if (age < kStaleS) return h('span', {class: 'note'}, `updated ${time(s)}`);
  return h('span', {class: live ? 'note stale' : 'note'}, `as of ${time(s)}`);
}
