// The run's datasets: how fast rows come, which operator holds them up, and which ranks starve.

import {get, run_path} from './api.js';
import {h, replace, throttled} from './dom.js';
import {bytes_per_s, count, or_unknown, per_s, percent} from './format.js';
import {card, meter} from './parts.js';
import {cell, Table} from './table.js';

const kNoSamples = 'not measured: the workers’ samples say nothing about data yet';
const kLiveMs = 2000;

const shown = (text, why = kNoSamples) => cell(text ?? `?${why}`, () => or_unknown(text, why));

const operator_columns = [
  {key: 'name', label: 'Operator', cell: (one) => one.name},
  {key: 'rows', label: 'Rows', number: true, cell: (one) => shown(per_s(one.rows_per_s, 'rows'))},
  {key: 'bytes', label: 'Bytes', number: true, cell: (one) => shown(bytes_per_s(one.bytes_per_s))},
  {
    key: 'busy',
    label: 'Busy',
    number: true,
    cell: (one) => cell(one.busy_ratio, () => meter(one.busy_ratio, undefined, kNoSamples))
  },
  {key: 'queue', label: 'Ready batches', number: true, cell: (one) => shown(count(one.queue))},
  {key: 'wait', label: 'Waiting', number: true, cell: (one) => shown(percent(one.wait_ratio))},
];
const rank_columns = (run) => [{
  key: 'rank',
  label: 'Rank',
  by: (one) => one.rank,
  cell: (one) =>
    cell(one.rank, () => h('a', {href: `#/runs/${encodeURIComponent(run.id)}/workers/${one.rank}`}, String(one.rank)))
},
  {
    key: 'wait',
    label: 'Waits for data',
    number: true,
    by: (one) => one.wait_ratio,
    cell: (one) => cell(one.wait_ratio, () => meter(one.wait_ratio, undefined, kNoSamples))
  },
  {
    key: 'rows',
    label: 'Rows',
    number: true,
    by: (one) => one.rows_per_s,
    cell: (one) => shown(per_s(one.rows_per_s, 'rows'))
  },
  {
    key: 'bytes',
    label: 'Bytes',
    number: true,
    by: (one) => one.bytes_per_s,
    cell: (one) => shown(bytes_per_s(one.bytes_per_s))
  },
  {
    key: 'ready',
    label: 'Ready batches',
    number: true,
    by: (one) => one.ready_batches,
    cell: (one) => shown(count(one.ready_batches))
  },
];

function dataset(run, one) {
  const tile = (label, value, why, small) =>
    h('div', {class: 'tile'}, h('dt', {}, label), h('dd', {}, or_unknown(value, why), small && h('small', {}, small)));
  const starving = one.starving_ranks ?? [];
  const node = h('section', {class: 'card dataset', 'aria-label': `Dataset ${one.name}`},
    h('div', {class: 'card-head'}, h('h2', {}, one.name), one.format && h('span', {class: 'tag'}, one.format),
      h('span', {class: 'note break mono'}, one.path ?? '')),
    h('dl', {class: 'tiles flat'}, tile('Rows', per_s(one.rows_per_s, 'rows'), kNoSamples),
      tile('Bytes', bytes_per_s(one.bytes_per_s), kNoSamples),
      tile('Ranks wait', percent(one.wait_ratio), kNoSamples, 'of their time'),
      tile('Epoch', count(one.epoch), 'no checkpoint says', 'of the newest checkpoint'),
      tile('Consumed', count(one.rows), 'no checkpoint says', 'rows in that epoch')),
    starving.length > 0 &&
      h('p', {class: 'card-body starving'}, h('span', {class: 'tag warn'}, 'starving'),
        ` ${starving.length === 1 ? 'rank' : 'ranks'} ${starving.join(', ')}`));
  if (one.operators?.length) {
    const table = new Table(operator_columns, {caption: `Operators of ${one.name}`, key: (operator) => operator.name});
    table.update(one.operators);
    node.append(table.element);
  }
  if (one.ranks?.length) {
    const table = new Table(rank_columns(run), {
      caption: `Ranks of ${one.name}`,
      key: (rank) => rank.rank,
      sort: {key: 'wait', descending: true},
      row_class: (rank) => (starving.includes(rank.rank) ? 'marked' : '')
    });
    table.element.classList.add('capped');
    table.update(one.ranks);
    node.append(h('details', {open: starving.length > 0},
      h('summary', {class: 'card-head'}, `By rank (${one.ranks.length})`), table.element));
  }
  return node;
}

export async function mount({body, run, signal, fail}) {
  const load = async () => {
    try {
      const {datasets} = await get(`${run_path(run.id)}/data`, {}, signal);
      const open = [...body.querySelectorAll('details')].map((one) => one.open);
      replace(body,
        datasets.length ? datasets.map((one) => dataset(run, one))
                        : card('Data', {},
                            h('div', {class: 'empty'}, h('p', {class: 'strong'}, 'This job names no dataset.'),
                              h('p', {}, 'Put it under ', h('code', {}, 'datasets:'), ' in the spec, and read it with ',
                                h('code', {}, 'train::get_dataset_shard()'), '.'))));
      body.querySelectorAll('details').forEach((one, index) => open[index] !== undefined && (one.open = open[index]));
    } catch (error) {
      fail(error);
    }
  };
  const load_soon = throttled(load, kLiveMs);
  await load();
  return {reload: load, handlers: {ranks: load_soon, events: load_soon}, destroy: () => load_soon.cancel()};
}
