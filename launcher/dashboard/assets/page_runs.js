// Every run below the folders: filter, sort, search, and choose runs to compare.

import {get, query} from './api.js';
import {button, choice, h, icon, replace, set_text, throttled} from './dom.js';
import {count, duration, metric, or_unknown, percent, plural, seconds_of, time_element, unknown} from './format.js';
import {follow} from './live.js';
import {elapsed, goodput_meter, last_metrics, list_tabs} from './parts.js';
import {state_badge} from './states.js';
import {cell, Table} from './table.js';

const kComparedMax = 8;
const kSearchMs = 150;
const kStates = [
  ['', 'All states'], ['live', 'Live'], ['running', 'Running'], ['finished', 'Finished'], ['errored', 'Failed'],
  ['stopped', 'Stopped'], ['interrupted', 'Interrupted']
];
const chosen = new Set();  // ids of the ticked runs, kept while the pages are open

const href = (run) => `#/runs/${encodeURIComponent(run.id)}`;

function columns(on_tick) {
  return [
    {
      key: 'tick',
      width: 38,
      label: '',
      cell: (run) => cell(`${run.id}${chosen.has(run.id)}`, () => h('input', {
        type: 'checkbox',
        checked: chosen.has(run.id),
        'aria-label': `Compare ${run.name}`,
        on: {change: (event) => on_tick(run, event.target)}
      }))
    },
    {
      key: 'name',
      label: 'Run',
      by: true,
      wide: true,
      cell: (run) => cell(run.id + run.name + run.cause + run.error,
        () => [h('a', {class: 'run-name', href: href(run), title: run.path},
                 run.sweep ? `${run.sweep.name}/${run.sweep.trial}` : run.name),
          run.error ? h('div', {class: 'cause', title: run.error}, run.error)
                    : run.cause && h('div', {class: 'cause', title: run.cause}, run.cause)])
    },
    {key: 'state', width: 140, label: 'State', by: true, cell: (run) => cell(run.state, () => state_badge(run.state))},
    {
      key: 'began',
      width: 112,
      label: 'Started',
      by: true,
      number: true,
      cell: (run) => cell(run.began, () => time_element(run.began, 'it has not started'))
    },
    {
      key: 'duration_s',
      width: 92,
      label: 'Duration',
      by: true,
      number: true,
      cell: (run) => cell(`${run.began}${run.ended}${run.live}${run.duration_s}`,
        () => run.live && run.began ? elapsed(seconds_of(run.began))
                                    : or_unknown(duration(run.duration_s), 'its end was not recorded'))
    },
    {
      key: 'workers',
      width: 86,
      label: 'Workers',
      by: true,
      number: true,
      title: 'Workers × nodes of the newest attempt',
      cell: (run) => cell(`${run.workers} ${run.nodes}`,
        () => run.workers === null
          ? unknown('no attempt has begun')
          : [count(run.workers), run.nodes !== null && h('span', {class: 'muted'}, ` on ${run.nodes}`)])
    },
    {
      key: 'attempts',
      width: 80,
      label: 'Attempts',
      by: true,
      number: true,
      hide: 'm',
      cell: (run) => count(run.attempts)
    },
    {
      key: 'metrics',
      width: 262,
      label: 'Last metrics',
      hide: 'm',
      cell: (run) => cell(JSON.stringify(run.metrics), () => last_metrics(run.metrics))
    },
    {
      key: 'goodput_ratio',
      width: 114,
      label: 'Goodput',
      by: true,
      number: true,
      title: 'Share of the workers’ time that went into steps that were kept',
      cell: (run) =>
        cell(`${run.goodput_ratio}${run.goodput === null}`, () => goodput_meter(run.goodput_ratio, run.goodput))
    },
    {
      key: 'owner',
      width: 68,
      label: 'Owner',
      hide: 'm',
      cell: (run) => cell(run.owner, () => or_unknown(run.owner, 'the folder’s owner has no name here'))
    },
  ];
}

export async function show({main, signal, query: asked, fail, set_crumbs}) {
  set_crumbs([['Runs', '#/runs']]);
  const filter = {
    q: asked.get('q') ?? '',
    state: asked.get('state') ?? '',
    sort: asked.get('sort') ?? 'began',
    order: asked.get('order') ?? 'desc',
    trials: asked.get('trials') ?? 'false'
  };
  const rows = new Map();
  const compare = button('Compare',
    {icon: 'stack', kind: 'primary', on_click: () => (location.hash = `#/compare${query({run: [...chosen]})}`)});
  const summary = h('span', {class: 'note', role: 'status'});

  const show_compare = () => {
    compare.disabled = chosen.size < 2;
    compare.title = chosen.size < 2 ? 'Tick two to eight runs' : '';
    set_text(compare.lastChild, chosen.size < 2 ? 'Compare' : `Compare ${chosen.size} runs`);
  };
  const table = new Table(columns((run, box) => {
    if (box.checked && chosen.size >= kComparedMax)
      box.checked = false;
    else if (box.checked)
      chosen.add(run.id);
    else
      chosen.delete(run.id);
    show_compare();
  }),
    {
      caption: 'Runs',
      kind: 'cards runs',
      key: (run) => run.id,
      sort: {key: filter.sort, descending: filter.order === 'desc'},
      on_sort: (sort) => change({sort: sort.key, order: sort.descending ? 'desc' : 'asc'}),
      empty: () => empty_text(filter, places),
    });
  let places = [];

  let loads = 0;
  const load = async () => {
    const number = ++loads;
    try {
      const answer = await get('/runs', filter, signal);
      if (answer.total === 0) places = (await get('/about', {}, signal)).places;
      if (number !== loads) return;  // the filter may have changed meanwhile
      rows.clear();
      for (const run of answer.runs) rows.set(run.id, run);
      table.update(answer.runs);
      const rest = answer.matching - answer.runs.length;
      set_text(summary,
        `${answer.matching === answer.total ? '' : `${count(answer.matching)} of `}${plural(answer.total, 'run')}${
          rest > 0 ? `; the first ${count(answer.runs.length)} are shown: search for more` : ''}`);
    } catch (error) {
      fail(error);
    }
  };
  const load_soon = throttled(load, kSearchMs);
  const change = (values) => {
    Object.assign(filter, values);
    const usual = filter.sort === 'began' && filter.order === 'desc';
    history.replaceState(null, '', `#/runs${query({
      q: filter.q,
      state: filter.state,
      trials: filter.trials === 'true' ? 'true' : '',
      ...(usual ? {} : {sort: filter.sort, order: filter.order})
    })}`);
    load_soon();
  };
  const follow_runs = () => follow({topics: 'runs', trials: filter.trials}, {runs: ({runs}) => changed(runs)}, load);
  const changed = (runs) => {
    if (runs.length === 0) return;
    const known = runs.every((run) => rows.has(run.id) && rows.get(run.id).state === run.state);
    for (const run of runs)
      if (rows.has(run.id)) rows.set(run.id, run);
    if (known)
      table.update([...rows.values()]);
    else
      load_soon();
  };

  const search = h('input', {
    type: 'search',
    class: 'field',
    value: filter.q,
    placeholder: 'Search by name, path, owner, cause',
    'aria-label': 'Search runs',
    on: {input: () => change({q: search.value})}
  });
  const with_trials = h('input', {
    type: 'checkbox',
    checked: filter.trials === 'true',
    on: {
      change: () => {
        change({trials: String(with_trials.checked)});
        follow_runs();
      }
    }
  });
  replace(main, list_tabs('runs'), h('div', {class: 'head'}, h('h1', {}, 'Runs'), summary),
    h('div', {class: 'tools'}, h('span', {class: 'search'}, icon('search'), search),
      choice('State', kStates, filter.state, (state) => change({state})),
      h('label', {class: 'labelled'}, with_trials, h('span', {}, 'Trials of sweeps')), h('span', {class: 'grow'}),
      compare),
    h('section', {class: 'card', 'aria-label': 'Runs'}, table.element));
  show_compare();
  await load();
  if (signal.aborted) return null;
  follow_runs();
  return {destroy: () => load_soon.cancel()};
}

function empty_text(filter, places) {
  if (filter.q || filter.state)
    return [h('p', {class: 'strong'}, 'No run matches.'), h('p', {}, h('a', {href: '#/runs'}, 'Show all runs'))];
  return [
    h('p', {class: 'strong'}, 'No runs here yet.'),
    h('p', {}, 'Start one with ', h('code', {}, 'train-run job.yaml'), '; it appears here by itself.'),
    places.map(
      ({place, error}) => h('p', {class: error ? 'strong' : ''}, error ? `${place}: ${error}` : `Looked in ${place}`)),
  ];
}
