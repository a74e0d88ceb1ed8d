// One run: its head, with state, reason and actions, and below it the tab that the address names. The tabs share one
// stream.

import {actions_of} from './actions.js';
import {get, run_path} from './api.js';
import {h, icon, replace} from './dom.js';
import {plural, time_element} from './format.js';
import {follow} from './live.js';
import {behind_text} from './parts.js';
import {state_badge, state_kind} from './states.js';

const kTabs = [
  ['', 'Overview', () => import('./tab_overview.js')],
  ['metrics', 'Metrics', () => import('./tab_metrics.js')],
  ['workers', 'Workers', () => import('./tab_workers.js')],
  ['data', 'Data', () => import('./tab_data.js')],
  ['nodes', 'Nodes', () => import('./tab_nodes.js')],
  ['logs', 'Logs', () => import('./tab_logs.js')],
  ['events', 'Events', () => import('./tab_events.js')],
  ['spec', 'Spec', () => import('./tab_spec.js')],
];

/// The run's name; of a trial, which has only a number, that.
const title_of = (run) => (run.sweep ? `Trial ${run.sweep.trial}` : run.name);
export const run_href = (id, tab = '') => `#/runs/${encodeURIComponent(id)}${tab && `/${tab}`}`;

/// The tabs of a run; `current` is the one that is shown.
export function tabs_of(run, current) {
  return h('nav', {class: 'tabs', 'aria-label': 'Parts of the run'}, kTabs.map(([key, label]) => {
    const number = key === 'workers' ? run.workers : key === 'nodes' ? run.nodes : null;
    return h('a', {href: run_href(run.id, key), 'aria-current': key === current ? 'page' : undefined}, label,
      number !== null && h('span', {class: 'count'}, String(number)));
  }));
}

const kStragglersNamed = 5;

/// The ranks that are slower than the others, the worst first.
function stragglers_notice(run) {
  const slow = run.stragglers;
  if (slow.length === 0) return null;
  const items =
    slow.slice(0, kStragglersNamed)
      .map(
        (one) => h('li', {}, h('a', {href: `${run_href(run.id, 'workers')}/${one.rank}`}, `rank ${one.rank}`),
          one.node && ` on ${one.node}`, ` is ${behind_text(one)} since `, time_element(one.since, 'an unknown time')));
  return h('div', {class: 'notice', data: {kind: 'warn'}, role: 'region', 'aria-label': 'Stragglers'}, icon('bang'),
    h('div', {}, h('p', {class: 'strong'}, `${plural(slow.length, 'rank')} slower than the others`), h('ul', {}, items),
      slow.length > kStragglersNamed && h('p', {}, `and ${slow.length - kStragglersNamed} more`)));
}

/// What somebody who opens the page must see first: why it failed, what it waits for, what is wrong with the folder; on
/// the overview and of workers also who is slow; on the overview also the run's warnings.
function notices(run, tab) {
  const of = (kind, title, ...texts) =>
    h('div', {class: 'notice', data: {kind}}, icon(kind === 'bad' ? 'cross' : 'bang'),
      h('div', {}, h('p', {class: 'strong'}, title), texts.filter(Boolean).map((text) => h('p', {}, text))));
  const list = [];
  if (run.error) list.push(of('bad', 'The run’s folder cannot be read in full', run.error));
  const kind = state_kind(run.state);
  if (run.cause && run.state !== 'finished') {
    const title = {bad: 'Failed', odd: 'Nobody controls this run', warn: 'Waiting'}[kind] ?? 'Reason';
    list.push(of(kind === 'bad' ? 'bad'
        : kind === 'odd'        ? 'odd'
                                : 'warn',
      title, run.cause, run.state === 'interrupted' && `train-run resume ${run.path} takes it up again.`));
  }
  if (tab === '' || tab === 'workers') list.push(stragglers_notice(run));
  if (tab === '')
    for (const warning of run.warnings) list.push(of('warn', 'Warning', warning));
  return list;
}

export async function show(context) {
  const {main, parts, signal, fail, set_crumbs} = context;
  const tab = kTabs.find(([key]) => key === (parts.tab ?? ''));
  if (!tab) throw new Error(`a run has no part “${parts.tab}”`);
  const loading = tab[2]();
  let run = await get(run_path(parts.run), {}, signal);
  const above = run.sweep ? [['Sweeps', '#/sweeps'], [run.sweep.name, `#/sweeps/${encodeURIComponent(run.sweep.id)}`]]
                          : [['Runs', '#/runs']];
  set_crumbs([...above, [title_of(run), run_href(run.id)], ...(tab[0] ? [[tab[1], run_href(run.id, tab[0])]] : [])]);

  const head = h('div', {class: 'head'});
  const warnings = h('div', {class: 'notices'});
  const tabs = h('div', {});
  const body = h('div', {class: 'tab-body'});
  const show_head = () => {
    replace(
      head, h('h1', {}, title_of(run)), state_badge(run.state), actions_of(run), h('p', {class: 'sub mono'}, run.path));
    replace(warnings, notices(run, tab[0]));
    if (tabs.dataset.shown !== `${run.workers} ${run.nodes}`) replace(tabs, tabs_of(run, tab[0]));
    tabs.dataset.shown = `${run.workers} ${run.nodes}`;
  };
  show_head();
  if (signal.aborted) return null;
  replace(main, head, warnings, tabs, body);
  document.querySelector('.tabs [aria-current]')?.scrollIntoView({block: 'nearest', inline: 'center'});

  const module = await loading;
  const view = await module.mount({...context, body, run, signal, fail});
  if (signal.aborted) {
    view.destroy?.();
    return null;
  }
  const reload_run = async () => {
    try {
      run = await get(run_path(parts.run), {}, signal);
      show_head();
      view.on_run?.(run);
    } catch (error) {
      fail(error);
    }
  };
  const shown_state = (row) => `${row.state}${row.cause}${row.attempts}${row.workers}`;
  const handlers = {
    run: (row) => {
      if (shown_state(row) !== shown_state(run)) return reload_run();
      run = {...run, ...row};
      return view.on_run?.(run);
    },
    ...view.handlers,
    events: (frame) => {
      if (frame.events.some((event) => event.event.startsWith('straggler'))) reload_run();
      return view.handlers?.events?.(frame);
    },
  };
  follow({run: run.id, topics: Object.keys(handlers).join(','), ...view.stream}, handlers, () => {
    reload_run();
    view.reload?.();
  });
  return {destroy: () => view.destroy?.()};
}
