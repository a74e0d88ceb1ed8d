// One sweep: how far it is, its trials' parameters and metric as parallel coordinates, their learning curves, and a
// table of all of them. Ranges on the axes leave trials out of all three.

import {get} from './api.js';
import {button, h, icon, replace, set_text, throttled} from './dom.js';
import {count, duration, metric, or_unknown, plural, seconds_of, time_element} from './format.js';
import {follow} from './live.js';
import {axes_of, tried_parameters} from './parallel_axes.js';
import {ParallelCoordinates, parameters_text} from './parallel_coordinates.js';
import {card, elapsed} from './parts.js';
import {state_badge} from './states.js';
import {curves_legend, SweepCurves} from './sweep_curves.js';
import {run_href, trials_table} from './sweep_trials.js';

const kTrialsAnAnswer = 10000;
const kTrialsMax = 20000;
const kNamedParameters = 6;
const kDrawMs = 300;
const kFilterMs = 80;

const path_of = (id) => `/sweeps/${encodeURIComponent(id)}`;
export const sweep_href = (id) => `#/sweeps/${encodeURIComponent(id)}`;
const kUnusual = [['failed', 'failed'], ['invalid', 'invalid'], ['interrupted', 'interrupted']];

/// "7 finished, 3 stopped": the states of the trials that there are.
export const counts_text = (counts) => Object.entries(counts)
                                         .filter(([, number]) => number > 0)
                                         .map(([state, number]) => `${count(number)} ${state}`)
                                         .join(', ');

function tiles(sweep) {
  const tile = (label, value, small) =>
    h('div', {class: 'tile'}, h('dt', {}, label), h('dd', {}, value, small && h('small', {}, small)));
  const began = seconds_of(sweep.began);
  const length =
    sweep.live && began !== null ? elapsed(began) : or_unknown(duration(sweep.duration_s), 'its end was not recorded');
  const {counts, best} = sweep;
  const unusual =
    kUnusual.filter(([state]) => counts[state] > 0).map(([state, word]) => `${count(counts[state])} ${word}`);
  return h('dl', {class: 'tiles'},
    tile(`Best ${sweep.metric ?? 'metric'}`, or_unknown(best && metric(best.value), 'no trial has reported the metric'),
      best ? [h('a', {href: run_href(best.run)}, `trial ${best.trial}`), best.time !== null &&
        ` at ${sweep.time_attribute ?? 'report'} ${metric(best.time)}`] : 'none yet'),
    tile('Trials', [count(sweep.trials), sweep.planned !== null &&
        h('span', {class: 'muted'}, ` of ${count(sweep.planned)}`)],
      unusual.length ? unusual.join(', ') : 'none failed'),
    tile('Running', count(counts.running),
      sweep.max_concurrent_trials ? `at most ${count(sweep.max_concurrent_trials)} at once` : 'as many as fit'),
    tile('Finished', count(counts.finished), `${count(counts.stopped)} stopped early`),
    tile('Search', or_unknown(sweep.search, 'the spec cannot be read'),
      sweep.scheduler && (sweep.scheduler === 'none' ? 'no scheduler' : sweep.scheduler.replace('_', ' '))),
    tile('Better', or_unknown(sweep.mode && {min: 'smaller', max: 'larger'}[sweep.mode], 'the spec cannot be read'),
      sweep.metric),
    tile(sweep.live ? 'Running for' : 'Duration', length, ['from ', time_element(sweep.began, 'it has not started')]));
}

function notices(sweep) {
  const of = (kind, title, ...texts) =>
    h('div', {class: 'notice', data: {kind}}, icon(kind === 'bad' ? 'cross' : 'bang'),
      h('div', {}, h('p', {class: 'strong'}, title), texts.filter(Boolean).map((text) => h('p', {}, text))));
  return [
    sweep.error && of('bad', 'The sweep’s folder cannot be read in full', sweep.error),
    sweep.state === 'errored' && of('bad', 'Failed', sweep.cause),
    sweep.state === 'interrupted' &&
      of('odd', 'Nobody controls this sweep', `train-run resume ${sweep.path} goes on with its trials.`),
  ];
}

/// Return the trials, the best first, those without a value last, and give each its share of the ranks.
function ranked(sweep, rows) {
  const sign = sweep.mode === 'max' ? -1 : 1;
  const counts = ({state}) => state !== 'failed' && state !== 'invalid';
  const sorted = rows.toSorted((a, b) => {
    if ((a.best === null) !== (b.best === null)) return a.best === null ? 1 : -1;
    return a.best === null ? a.trial - b.trial : sign * (a.best - b.best) || a.trial - b.trial;
  });
  const best = sorted.find((row) => row.best !== null && counts(row))?.trial ?? null;
  const known = sorted.filter((row) => row.best !== null).length;
  sorted.forEach((row, index) => {
    row.share = row.best === null ? null : known > 1 ? 1 - index / (known - 1) : 1;
    row.is_best = row.trial === best;
  });
  return {sorted, best};
}

export async function show({main, parts, signal, fail, set_crumbs}) {
  const path = path_of(parts.sweep);
  let sweep = await get(path, {}, signal);
  set_crumbs([['Sweeps', '#/sweeps'], [sweep.name, sweep_href(sweep.id)]]);
  const rows = new Map();
  const head = h('div', {class: 'head'});
  const warnings = h('div', {class: 'notices'});
  const figures = h('div', {});
  const note = h('span', {class: 'note', role: 'status'});
  const table_note = h('span', {class: 'note', role: 'status'});
  let order = {sorted: [], best: null};
  let tried = [];
  let table = null;

  const point = (trial) => {
    axes.show_pointed(trial);
    curves.point(trial);
  };
  const legend = h('div', {class: 'heat-legend'}, h('span', {}, 'worst'), h('span', {class: 'share-scale'}),
    h('span', {}, 'best of the ranks'),
    h('span', {class: 'heat-key'}, h('span', {class: 'line-key', data: {line: 'best'}}), 'best trial'));
  const axes = new ParallelCoordinates({
    legend,
    on_filter: () => filter_soon(),
    on_point: point,
    open: (trial) => (location.hash = run_href(rows.get(trial).run)),
    describe: (trial) => {
      const row = rows.get(trial);
      const paths = tried.slice(0, kNamedParameters).map((one) => one.path);
      return `Trial ${trial}, ${row.state}: ${parameters_text(row.parameters, paths)}; best ${
        sweep.metric ?? 'metric'} ${metric(row.best) ?? '–'}`;
    }
  });
  const curves = new SweepCurves({path, signal, on_error: fail, on_point: point});
  const reset = button('All trials', {icon: 'reset', kind: 'small', on_click: () => axes.clear()});
  const table_place = h('div', {});

  const show_head = () => {
    replace(head, h('h1', {}, sweep.name), state_badge(sweep.state), h('p', {class: 'sub mono'}, sweep.path));
    replace(warnings, notices(sweep));
    replace(figures, tiles(sweep));
  };
  const show_filtered = () => {
    const left = axes.is_filtered ? order.sorted.filter((row) => axes.leaves(row)) : order.sorted;
    reset.hidden = !axes.is_filtered;
    set_text(note, axes.is_filtered ? `${count(left.length)} of ${plural(rows.size, 'trial')}` : '');
    curves.update(sweep, left, order.best);
    table.update(left, order.best);
    const texts =
      [axes.is_filtered ? `${count(left.length)} of ${plural(rows.size, 'trial')}` : plural(rows.size, 'trial')];
    if (left.length > table.rows_max) texts.push(`the first ${count(table.rows_max)} are shown`);
    if (rows.size < sweep.trials) texts.push(`${count(sweep.trials - rows.size)} more are not loaded`);
    if (table.left_out > 0) texts.push(`${plural(table.left_out, 'parameter')} more on the trials’ pages`);
    set_text(table_note, texts.join('; '));
  };
  const show_trials = () => {
    const all = [...rows.values()];
    order = ranked(sweep, all);
    const now_tried = tried_parameters(sweep, all);
    if (!table || now_tried.map((one) => one.path).join('\n') !== tried.map((one) => one.path).join('\n')) {
      tried = now_tried;
      table = trials_table(sweep, tried, {on_point: point});
      replace(table_place, table.element);
    }
    const {axes: wanted, left_out} = axes_of(sweep, all);
    axes.update(wanted, order.sorted.toReversed());
    axes_card.hidden = tried.length === 0 || all.length === 0;
    set_text(more_axes, left_out > 0 ? `the first ${wanted.length - 1} of ${tried.length} parameters` : '');
    show_filtered();
  };
  const more_axes = h('span', {class: 'note'});
  const axes_card =
    card('Parameters', {note: more_axes, tools: [note, reset]}, h('div', {class: 'card-body'}, axes.element));
  axes_card.classList.add('parallel-card');
  const draw = throttled(show_trials, kDrawMs);
  const filter_soon = throttled(() => show_filtered(), kFilterMs);

  const load = async () => {
    try {
      sweep = await get(path, {}, signal);
      for (let after = 0, total = 1; after < Math.min(total, kTrialsMax); after += kTrialsAnAnswer) {
        const answer = await get(`${path}/trials`, {after, limit: kTrialsAnAnswer}, signal);
        total = answer.total;
        for (const row of answer.trials) rows.set(row.trial, row);
      }
      show_head();
      show_trials();
    } catch (error) {
      fail(error);
    }
  };
  replace(main, head, warnings, figures, axes_card,
    card('Learning curves', {note: curves.note, tools: curves.log_button},
      h('div', {class: 'card-body'}, curves.element, curves_legend())),
    card('Trials', {note: table_note}, table_place));
  await load();
  if (signal.aborted) return null;
  follow({sweep: sweep.id, topics: 'sweep,trials'}, {
    sweep: (row) => {
      sweep = {...sweep, ...row};
      show_head();
      draw();
    },
    trials: ({trials}) => {
      for (const row of trials)
        if (rows.has(row.trial) || rows.size < kTrialsMax) rows.set(row.trial, row);
      draw();
    }
  },
    load);
  return {
    destroy: () => {
      draw.cancel();
      filter_soon.cancel();
      axes.destroy();
      curves.destroy();
    }
  };
}
