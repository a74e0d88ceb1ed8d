// Up to eight runs over each other: their metrics in the same charts, their outcomes side by side, and where their
// specs differ.

import {get, query, run_path} from './api.js';
import {h, icon, replace} from './dom.js';
import {count, duration, metric, or_unknown, percent, unknown} from './format.js';
import {follow} from './live.js';
import {MetricGrid} from './metric_grid.js';
import {by_interest, card, no_goodput} from './parts.js';
import {state_badge} from './states.js';

const kRunsMax = 8;

const swatch = (index) => h('i', {class: 'swatch', css: {background: `var(--series-${index + 1})`}});

function outcome_table(runs, keys) {
  const rows = [
    ['State', (run) => state_badge(run.state)],
    ['Duration', (run) => or_unknown(duration(run.duration_s), 'its end was not recorded')],
    ['Workers', (run) => or_unknown(count(run.workers), 'no attempt has begun')],
    ['Attempts', (run) => count(run.attempts)],
    ['Goodput', (run) => or_unknown(percent(run.goodput_ratio), no_goodput(run.goodput))],
    ...keys.map((key) => [key, (run) => or_unknown(metric(run.metrics[key]), 'this run has not reported it')]),
  ];
  return side_by_side(runs, 'Outcome', rows.map(([label, value]) => [label, runs.map(value)]));
}

function side_by_side(runs, caption, rows) {
  const without = (run) => `#/compare${query({run: runs.filter((one) => one !== run).map((one) => one.id)})}`;
  return h('div', {class: 'table-scroll', tabindex: 0, role: 'region', 'aria-label': caption},
    h('table', {class: 'table first-sticky compare'}, h('caption', {class: 'sr'}, caption),
      h('thead', {},
        h('tr', {}, h('th', {}),
          runs.map(
            (run, index) => h('th', {scope: 'col'}, swatch(index),
              h('a', {href: `#/runs/${encodeURIComponent(run.id)}`}, run.name),
              runs.length > 2 &&
                h('a', {class: 'remove', href: without(run), 'aria-label': `Leave ${run.name} out`}, icon('cross')))))),
      h('tbody', {}, rows.map(([label,
        values]) => h('tr', {}, h('th', {scope: 'row'}, label), values.map((value) => h('td', {}, value)))))));
}

function differences(runs, specs) {
  const keys = [...new Set(specs.flatMap((spec) => Object.keys(spec.fields)))].sort();
  return keys.filter((key) => new Set(specs.map((spec) => spec.fields[key])).size > 1)
    .map((key) => [h('code', {}, key),
           specs.map((spec) => spec.fields[key] === undefined ? unknown('this spec does not have it')
                                                              : h('code', {class: 'break'}, spec.fields[key]))]);
}

export async function show({main, query: asked, signal, fail, set_crumbs}) {
  set_crumbs([['Runs', '#/runs'], ['Compare', '']]);
  const ids = [...new Set(asked.getAll('run'))].slice(0, kRunsMax);
  if (ids.length < 2) {
    replace(main,
      h('section', {class: 'card empty'}, h('p', {class: 'strong'}, 'Choose two to eight runs.'),
        h('p', {}, 'Tick them in the list of ', h('a', {href: '#/runs'}, 'runs'), '.')));
    return {};
  }
  const of_each = (path, values) => Promise.all(ids.map((id) => get(run_path(id) + path, values, signal)));
  let [runs, specs, keys] = await Promise.all([of_each(''), of_each('/spec'), of_each('/metrics/keys')]);
  const numbers = new Map();
  for (const {keys: of_run} of keys)
    for (const one of of_run)
      if (one.kind === 'number') numbers.set(one.key, (numbers.get(one.key) ?? 0) + 1);
  const shared = by_interest([...numbers].filter(([, times]) => times > 1).map(([key]) => key));
  const single = by_interest([...numbers].filter(([, times]) => times === 1).map(([key]) => key));
  const grid = new MetricGrid(runs.map((run, index) => ({run: run.id, label: run.name, color: index})),
    [...shared, ...single], {signal, on_error: fail});
  const outcome = h('div', {});
  const show_outcome = () => replace(outcome, outcome_table(runs, shared.slice(0, 6)));
  const rows = differences(runs, specs);
  const nothing = [h('p', {class: 'strong'}, 'The specs are equal.')];
  replace(main, h('div', {class: 'head'}, h('h1', {}, `${runs.length} runs compared`)), card('Outcome', {}, outcome),
    numbers.size ? grid.element : h('section', {class: 'card empty'}, 'None of these runs has reported a metric.'),
    card('Differences of their specs', {note: rows.length ? `${rows.length} keys differ` : ''},
      rows.length ? side_by_side(runs, 'Differences of their specs', rows) : h('div', {class: 'empty'}, nothing)));
  show_outcome();
  if (signal.aborted) return null;
  follow({topics: 'runs'}, {
    runs: ({runs: changed}) => {
      const rows_of = new Map(changed.map((run) => [run.id, run]));
      if (!runs.some((run) => rows_of.has(run.id))) return;
      runs = runs.map((run) => ({...run, ...rows_of.get(run.id)}));
      show_outcome();
      grid.refresh();
    }
  },
    () => grid.refresh());
  return {destroy: () => grid.destroy()};
}
