// Every sweep below the folders.

import {get} from './api.js';
import {h, replace, set_text} from './dom.js';
import {count, duration, metric, or_unknown, plural, seconds_of, time_element, unknown} from './format.js';
import {follow} from './live.js';
import {counts_text, sweep_href} from './page_sweep.js';
import {elapsed, list_tabs, meter} from './parts.js';
import {state_badge} from './states.js';
import {run_href} from './sweep_trials.js';
import {cell, Table} from './table.js';

const over = ({counts}) => counts.finished + counts.stopped + counts.failed + counts.invalid;

function best_cell(sweep) {
  if (!sweep.best) return unknown('no trial has reported the metric');
  return [
    h('span', {class: 'muted'}, `${sweep.metric} `), h('b', {}, metric(sweep.best.value) ?? '–'),
    h('span', {class: 'muted'}, ' by '), h('a', {href: run_href(sweep.best.run)}, `trial ${sweep.best.trial}`)
  ];
}

const columns = [
  {
    key: 'name',
    label: 'Sweep',
    by: (sweep) => sweep.name,
    wide: true,
    cell: (sweep) => cell(sweep.id + sweep.cause + sweep.error,
      () => [h('a', {class: 'run-name', href: sweep_href(sweep.id), title: sweep.path}, sweep.name),
        (sweep.error || sweep.cause) &&
          h('div', {class: 'cause', title: sweep.error ?? sweep.cause}, sweep.error ?? sweep.cause)])
  },
  {
    key: 'state',
    label: 'State',
    by: (sweep) => sweep.state,
    cell: (sweep) => cell(sweep.state, () => state_badge(sweep.state))
  },
  {
    key: 'trials',
    label: 'Trials that are over',
    by: (sweep) => over(sweep) / (sweep.planned ?? Infinity),
    cell: (sweep) => cell(JSON.stringify([sweep.counts, sweep.planned]),
      () => h('span', {title: counts_text(sweep.counts)},
        meter(sweep.planned ? over(sweep) / sweep.planned : null, `${count(over(sweep))} of ${count(sweep.planned)}`,
          'the spec cannot be read')))
  },
  {
    key: 'best',
    label: 'Best',
    cell: (sweep) => cell(JSON.stringify([sweep.best?.trial, sweep.best?.value]), () => best_cell(sweep))
  },
  {
    key: 'search',
    label: 'Search',
    by: (sweep) => sweep.search,
    hide: 'm',
    cell:
      (sweep) => [sweep.search, sweep.scheduler !== 'none' && sweep.scheduler?.replace('_', ' ')].filter(Boolean).join(
        ', ')
  },
  {
    key: 'began',
    label: 'Started',
    by: (sweep) => sweep.began,
    number: true,
    cell: (sweep) => cell(sweep.began, () => time_element(sweep.began, 'it has not started'))
  },
  {
    key: 'duration_s',
    label: 'Duration',
    by: (sweep) => sweep.duration_s,
    number: true,
    cell: (sweep) => cell(`${sweep.began}${sweep.ended}${sweep.live}${sweep.duration_s}`,
      () => sweep.live && sweep.began ? elapsed(seconds_of(sweep.began))
                                      : or_unknown(duration(sweep.duration_s), 'its end was not recorded'))
  },
  {
    key: 'owner',
    label: 'Owner',
    hide: 'm',
    by: (sweep) => sweep.owner,
    cell: (sweep) => cell(sweep.owner, () => or_unknown(sweep.owner, 'the folder’s owner has no name here'))
  },
];

export async function show({main, signal, fail, set_crumbs}) {
  set_crumbs([['Sweeps', '#/sweeps']]);
  const rows = new Map();
  const summary = h('span', {class: 'note', role: 'status'});
  const table = new Table(columns, {
    caption: 'Sweeps',
    kind: 'cards sweeps',
    key: (sweep) => sweep.id,
    sort: {key: 'began', descending: true},
    empty: () => [h('p', {class: 'strong'}, 'No sweeps here yet.'),
      h('p', {}, 'Start one with ', h('code', {}, 'train-run sweep job.yaml'), '; it appears here by itself.')]
  });
  const update = () => {
    table.update([...rows.values()]);
    set_text(summary, plural(rows.size, 'sweep'));
  };
  const load = async () => {
    try {
      const {sweeps} = await get('/sweeps', {}, signal);
      rows.clear();
      for (const sweep of sweeps) rows.set(sweep.id, sweep);
      update();
    } catch (error) {
      fail(error);
    }
  };
  replace(main, list_tabs('sweeps'), h('div', {class: 'head'}, h('h1', {}, 'Sweeps'), summary),
    h('section', {class: 'card', 'aria-label': 'Sweeps'}, table.element));
  await load();
  if (signal.aborted) return null;
  follow({topics: 'sweeps'}, {
    sweeps: ({sweeps}) => {
      for (const sweep of sweeps) rows.set(sweep.id, sweep);
      update();
    }
  },
    load);
  return {};
}
