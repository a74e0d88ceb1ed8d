// The run at a glance: figures, attempts with their causes, goodput, the most telling metrics, checkpoints, events,
// facts.

import {get, run_path} from './api.js';
import {attempts_card} from './attempts.js';
import {h, replace, set_text, throttled} from './dom.js';
import {describe_event} from './events.js';
import {bytes, count, duration, metric, or_unknown, percent, plural, seconds_of, time_element, unknown} from './format.js';
import {MetricGrid} from './metric_grid.js';
import {run_href} from './page_run.js';
import {by_interest, card, elapsed, facts, goodput_bar, no_goodput} from './parts.js';
import {state_mark} from './states.js';
import {cell, Table} from './table.js';

const kCharts = 4;
const kEvents = 8;
const kSlowMs = 2000;

function tiles(run) {
  const began = seconds_of(run.began);
  const tile = (label, value, small) =>
    h('div', {class: 'tile'}, h('dt', {}, label), h('dd', {}, value, small && h('small', {}, small)));
  const length =
    run.live && began !== null ? elapsed(began) : or_unknown(duration(run.duration_s), 'its end was not recorded');
  return h('dl', {class: 'tiles'},
    tile(run.live ? 'Running for' : 'Duration', length, ['from ', time_element(run.began, 'it has not started')]),
    tile('Workers', or_unknown(count(run.workers), 'no attempt has begun'),
      run.nodes !== null && `on ${plural(run.nodes, 'node')}`),
    tile('Attempts', count(run.attempts), run.restarts ? plural(run.restarts, 'restart') : 'no restart'),
    tile('Reports', or_unknown(count(run.reports), 'rank 0 has reported nothing'),
      run.last_report ? ['last at ', time_element(run.last_report, '')] : 'none yet'),
    tile('Epoch', or_unknown(count(run.epoch), 'no report or checkpoint names an epoch')),
    tile('Goodput', or_unknown(percent(run.goodput_ratio), no_goodput(run.goodput)), 'of workers’ time'),
    tile('Checkpoint',
      or_unknown(run.checkpoint && run.checkpoint.replace('checkpoint_', '#').replace(/#0+(?=\d)/, '#'),
        'none has been committed'),
      run.checkpoint ? 'newest' : 'none yet'));
}

const checkpoint_columns = [
  {
    key: 'number',
    label: 'Checkpoint',
    number: false,
    by: (one) => one.number,
    cell: (one) => cell(JSON.stringify([one.name, one.latest, one.best, one.error]),
      () => [h('span', {class: 'mono', title: one.path}, one.name), ' ',
        one.best && h('span', {class: 'tag accent'}, 'best'), ' ', one.latest && h('span', {class: 'tag'}, 'latest'),
        one.error && h('div', {class: 'cause'}, one.error)])
  },
  {
    key: 'score',
    label: 'Score',
    number: true,
    by: (one) => one.score,
    cell: (one) => cell(one.score, () => or_unknown(metric(one.score), 'the run names no checkpoint_score_attribute'))
  },
  {
    key: 'epoch',
    label: 'Epoch',
    number: true,
    by: (one) => one.epoch,
    cell: (one) => cell(one.epoch, () => or_unknown(count(one.epoch), 'the report named no epoch'))
  },
  {
    key: 'bytes',
    label: 'Size',
    number: true,
    by: (one) => one.bytes,
    cell: (one) => cell(one.bytes, () => or_unknown(bytes(one.bytes), 'it cannot be read'))
  },
  {
    key: 'created',
    label: 'Created',
    number: true,
    by: (one) => one.created,
    cell: (one) => cell(one.created, () => time_element(one.created, 'it cannot be read'))
  },
  {
    key: 'validation',
    label: 'Validation',
    by: (one) => one.validation,
    cell: (one) => cell(`${one.validation}${one.validation_error}`,
      () => one.validation ? h('span', {title: one.validation_error}, state_mark(one.validation))
                           : unknown('not validated'))
  },
];

function results_card(run) {
  const known = (run.results ?? []).map((result, rank) => [rank, result]).filter(([, result]) => result !== null);
  if (known.length === 0) return null;
  return card('Results', {note: 'what set_result() left'},
    h('div', {class: 'card-body'},
      known.slice(0, 16).map(
        ([rank, result]) => h('div', {class: 'result'}, h('span', {class: 'muted'}, `rank ${rank}`),
          h('pre', {class: 'code'}, typeof result === 'string' ? result : JSON.stringify(result, null, 2))))));
}

function facts_card(run) {
  const {launcher, exit} = run;
  return card(
    'About this run', {}, h('div', {class: 'card-body'}, facts([
      ['Command', run.command && h('code', {}, run.command.join(' ')), 'the spec cannot be read'],
      ['Working directory', run.working_dir && h('code', {}, run.working_dir)],
      ['Owner', run.owner],
      [
        'Launcher', launcher && `pid ${launcher.pid} on ${launcher.host}${launcher.build ? `, ${launcher.build}` : ''}`,
        'no launcher has it'
      ],
      ['Generation', count(run.generation)],
      ['Run id', run.run_id && h('code', {}, run.run_id)],
      exit && ['Exit code', exit.code === null ? null : `${exit.code}${exit.outcome ? ` (${exit.outcome})` : ''}`],
      exit?.root_rank !== null && exit &&
        [
          'First to fail',
          `rank ${exit.root_rank}${exit.node ? ` on ${exit.node}` : ''}${
            exit.signal ? `, ${exit.signal}`
              : exit.exit_code !== null ? `, exit code ${exit.exit_code}`
                                        : ''}`
        ],
    ])));
}

export async function mount({body, run: first, signal, fail}) {
  let run = first;
  const path = run_path(run.id);
  const figures = h('div', {});
  const attempts = h('div', {});
  const goodput = h('div', {class: 'card-body'});
  const charts = card('Metrics', {tools: h('a', {href: run_href(run.id, 'metrics')}, 'All metrics')});
  const grid = new MetricGrid(
    [{run: run.id, label: run.name, color: 0}], [], {signal, toolbar: false, limit: kCharts, on_error: fail});
  const no_metrics = h('div', {class: 'empty'}, h('p', {class: 'strong'}, 'No metrics yet.'),
    h('p', {}, 'They appear when rank 0 calls ', h('code', {}, 'train::report()'), ' with numbers.'));
  charts.append(h('div', {class: 'card-body'}, grid.element, no_metrics));
  const checkpoints = new Table(checkpoint_columns, {
    caption: 'Checkpoints',
    key: (one) => one.number,
    sort: {key: 'number', descending: true},
    row_class: (one) => (one.error ? 'marked' : ''),
    empty: () => [h('p', {class: 'strong'}, 'No checkpoint exists.'),
      h('p', {}, 'A report with a checkpoint makes one: ', h('code', {}, 'train::report(metrics, checkpoint)'), '.')]
  });
  const checkpoint_note = h('span', {class: 'note'});
  const events = h('ol', {class: 'events compact'});
  const about = h('div', {});
  const results = h('div', {});
  replace(body, figures, attempts, charts,
    h('div', {class: 'columns'},
      h('div', {class: 'stack'}, card('Goodput', {note: 'what the workers’ seconds were used for'}, goodput), about),
      card('Events', {tools: h('a', {href: run_href(run.id, 'events')}, 'All events')},
        h('div', {class: 'card-body'}, events))),
    card('Checkpoints', {note: checkpoint_note}, checkpoints.element), results);

  const guarded = (load) => async () => {
    try {
      await load();
    } catch (error) {
      fail(error);
    }
  };
  const load_attempts =
    guarded(async () => replace(attempts, attempts_card((await get(`${path}/attempts`, {}, signal)).attempts, run)));
  const load_checkpoints = guarded(async () => {
    const answer = await get(`${path}/checkpoints`, {}, signal);
    set_text(checkpoint_note,
      `${count(answer.checkpoints.length)} kept of ${count(answer.committed)}${
        answer.score_attribute ? `, scored by ${answer.score_attribute}` : ''}`);
    checkpoints.update(answer.checkpoints);
  });
  const load_events = guarded(async () => {
    const answer = await get(`${path}/events`, {last: kEvents}, signal);
    replace(events, answer.events.toReversed().map(describe_event));
  });
  const load_keys = guarded(async () => {
    const {keys} = await get(`${path}/metrics/keys`, {}, signal);
    const numbers = by_interest(keys.filter((one) => one.kind === 'number').map((one) => one.key))
                      .filter((key) => key !== 'epoch' || keys.length === 1);
    no_metrics.hidden = numbers.length > 0;
    if (numbers.join('\n') !== grid.keys.join('\n')) grid.set_keys(numbers);
  });
  const show_run = () => {
    replace(figures, tiles(run));
    replace(goodput, goodput_bar(run.goodput));
  };
  const show_about = () => {
    replace(about, facts_card(run));
    replace(results, results_card(run));
  };
  const slow = throttled(() => Promise.all([load_attempts(), load_checkpoints(), load_events()]), kSlowMs);
  const metrics = throttled(() => (grid.keys.length ? grid.refresh() : load_keys()), kSlowMs / 2);

  show_run();
  show_about();
  const reload = () => Promise.all([load_attempts(), load_checkpoints(), load_events(), load_keys()]);
  await reload();
  return {
    reload,
    handlers: {events: slow, metrics},
    on_run: (row) => {
      const ended = run.live !== row.live;
      run = row;
      show_run();
      if (ended) show_about();
    },
    destroy: () => {
      slow.cancel();
      metrics.cancel();
      grid.destroy();
    },
  };
}
