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
/// Why a run or an attempt has no goodput.
export const no_goodput = (seconds) => (seconds ? 'the program does not tell: it does not use the SDK'
                                                : 'not measured yet: the launcher writes it down every 5 s');
export const goodput_meter = (ratio, seconds) => meter(ratio, percent(ratio), no_goodput(seconds));

// What workers' seconds are used for: good ones first, then what training needs, then what was wasted.
const kUses = [
  ['step', 'steps', '--series-3'],
  ['collective', 'collectives', '--series-1'],
  ['data', 'waiting for data', '--series-5'],
  ['checkpoint', 'checkpoints', '--series-6'],
  ['validate', 'validation', '--series-4'],
  ['report', 'reports', '--series-2'],
  ['start', 'start', '--quiet'],
  ['restore', 'restoring', '--series-8'],
  ['paused', 'paused', '--warn'],
  ['lost', 'lost and redone', '--series-7'],
  ['down', 'down', '--bad'],
  ['hung', 'hung', '--odd'],
  ['other', 'other', 'hatched'],
  ['unknown', 'unknown', '--faint'],
];
const kHatched = 'repeating-linear-gradient(135deg, var(--quiet) 0 3px, var(--faint) 3px 6px)';
const kNamedInBar = 0.3;  // smaller shares have no room for their name

/// Return {label, color, share, seconds} of each use that has any; an empty list if nothing was booked.
function uses_of(seconds) {
  const total = Object.values(seconds ?? {}).reduce((a, b) => a + b, 0);
  const known = new Set(kUses.map(([key]) => key));
  const others = Object.keys(seconds ?? {}).filter((key) => !known.has(key)).map((key) => [key, key, 'hatched']);
  return [...kUses, ...others].filter(([key]) => seconds?.[key] > 0).map(([key, label, color]) => ({
    label,
    color: color === 'hatched' ? kHatched : `var(${color})`,
    share: seconds[key] / total,
    seconds: seconds[key]
  }));
}

const stacked_bar = (uses, kind) => h('div', {
  class: `goodput-bar ${kind}`,
  role: 'img',
  'aria-label': uses.map(({label, share}) => `${label} ${percent(share)}`).join(', ')
},
  uses.map(({label, color, share}) =>
             h('i', {title: `${label}: ${percent(share)}`, css: {'flex-grow': share, background: color}},
               kind === '' && share >= kNamedInBar && `${label} ${percent(share)}`)));

/// What the workers' seconds were used for, as a bar and as a list with figures.
export function goodput_bar(seconds) {
  const uses = uses_of(seconds);
  if (uses.length === 0) return unknown(no_goodput(seconds));
  return h('div', {class: 'goodput'}, stacked_bar(uses, ''),
    h('ul', {class: 'goodput-list'},
      uses.map(({label, color, share, seconds: s}) => h('li', {}, h('i', {css: {background: color}}),
                 h('span', {}, label), h('b', {}, percent(share)), h('span', {class: 'muted'}, duration(s))))));
}

const kUsesInLine = 3;
/// The same in one line: a thin bar, and the largest uses in words.
export function goodput_line(seconds) {
  const uses = uses_of(seconds);
  if (uses.length === 0) return null;
  const largest = uses.toSorted((a, b) => b.share - a.share).slice(0, kUsesInLine);
  return h('div', {class: 'goodput-line'}, stacked_bar(uses, 'thin'),
    h('span', {class: 'note'}, largest.map(({label, share}) => `${label} ${percent(share)}`).join(', ')));
}

/// "34 % behind the median in step".
export const behind_text = ({behind_ratio, phase}) =>
  `${percent(behind_ratio)} behind the median${phase ? ` in ${phase}` : ''}`;

/// The lists that there are; `current` is the one that is shown.
export const list_tabs = (current) => h('nav', {class: 'tabs', 'aria-label': 'Lists'},
  [['runs', 'Runs'], ['sweeps', 'Sweeps']].map(
    ([key, label]) => h('a', {href: `#/${key}`, 'aria-current': key === current ? 'page' : undefined}, label)));

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
