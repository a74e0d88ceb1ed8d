// The table of a sweep's trials.

import {h} from './dom.js';
import {duration, metric, or_unknown, seconds_of, unknown} from './format.js';
import {value_text} from './parallel_axes.js';
import {elapsed} from './parts.js';
import {state_badge} from './states.js';
import {cell, Table} from './table.js';

const kParametersMax = 10;
const kRowsMax = 1000;

export const run_href = (run) => `#/runs/${encodeURIComponent(run)}`;

function number_column(key, label, title, why, more = {}) {
  return {
    key,
    label,
    title,
    by: (row) => row[key],
    number: true,
    cell: (row) => cell(row[key], () => or_unknown(metric(row[key]), why)),
    ...more
  };
}

function parameter_column({path}) {
  return {
    key: `p:${path}`,
    label: path,
    by: (row) => {
      const value = row.parameters?.[path];
      return typeof value === 'number' ? value : value_text(value);
    },
    cell: (row) => {
      const text = value_text(row.parameters?.[path]);
      return cell(text,
        () => text === null ? unknown('this trial has no value for it')
                            : h('span', {class: 'trial-value', title: text}, text));
    }
  };
}

function length_of(trial) {
  const began = seconds_of(trial.began);
  if (began === null) return unknown('not known');
  if (trial.state === 'running') return elapsed(began);
  const ended = seconds_of(trial.ended);
  return ended === null ? unknown('its end was not recorded') : duration(ended - began);
}

/// Options: on_point(trial or null). `sweep.best_trial` marks a row.
export function trials_table(sweep, parameters, {on_point}) {
  const shown = parameters.slice(0, kParametersMax);
  const time = sweep.time_attribute ?? 'Reports';
  let best = null;
  const columns = [
    {
      key: 'trial',
      label: 'Trial',
      wide: true,
      by: (row) => row.trial,
      cell: (row) => cell(`${row.run}${row.cause}${row.from}${row.trial === best}`,
        () => [h('a', {class: 'run-name', href: run_href(row.run)}, `Trial ${row.trial}`), ' ',
          row.trial === best && h('span', {class: 'tag best'}, 'best'), ' ',
          row.from !== null &&
            h('span',
              {class: 'tag', title: 'it took over the checkpoint and the values of that trial, and changed some'},
              `from ${row.from}`),
          row.cause && row.state !== 'stopped' && h('div', {class: 'cause', title: row.cause}, row.cause)])
    },
    {
      key: 'state',
      label: 'State',
      by: (row) => row.state,
      cell: (row) => cell(row.state + row.cause, () => h('span', {title: row.cause}, state_badge(row.state)))
    },
    number_column('best', `Best ${sweep.metric ?? 'metric'}`, 'The best value that the trial has reported',
      'it has not reported the metric'),
    number_column('value', 'Last', 'The newest value', 'it has not reported the metric', {hide: 'm'}),
    number_column(
      'time', time[0].toUpperCase() + time.slice(1), 'How far the trial has come', 'it has not reported the metric'),
    {
      key: 'duration',
      label: 'Duration',
      number: true,
      by: (row) => (seconds_of(row.ended) ?? Infinity) - (seconds_of(row.began) ?? 0),
      cell: (row) => cell(`${row.began}${row.ended}${row.state}`, () => length_of(row))
    },
    ...shown.map(parameter_column),
  ];
  const table = new Table(columns, {
    caption: 'Trials',
    kind: 'cards trials',
    key: (row) => row.trial,
    sort: {key: 'best', descending: sweep.mode === 'max'},
    limit: kRowsMax,
    row_class: (row) => (row.trial === best ? 'best-row'
        : row.state === 'stopped'           ? 'quiet-row'
                                            : ''),
    on_row: (row) => on_point(row?.trial ?? null),
    empty: () => [h('p', {class: 'strong'}, 'No trial to show.'),
      h('p', {}, 'Trials appear here when they begin; ranges on the axes above leave some out.')]
  });
  return {
    element: table.element,
    left_out: parameters.length - shown.length,
    rows_max: kRowsMax,
    update: (rows, best_trial) => {
      best = best_trial;
      table.update(rows);
    }
  };
}
