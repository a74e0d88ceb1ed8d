// The run's datasets: whether training waits for them, what each operator does, and which ranks starve.

import {get, run_path} from './api.js';
import {h, icon, replace, set_text, throttled} from './dom.js';
import {bytes, bytes_per_s, count, metric, or_unknown, per_s, percent} from './format.js';
import {SampleCharts} from './metric_grid.js';
import {card, meter} from './parts.js';
import {cell, Table} from './table.js';

const kNoSamples = 'not measured: the program does not read it with train::get_dataset_shard()';
const kOver = 'the run is over';
const kLiveMs = 2000;

const rate = (value) => (value >= 100 ? count(value) : metric(value));
const kFields = [
  {field: 'rows_per_s', title: 'Rows per second', format: rate},
  {
    field: ['wait_ratio', 'worst_wait_ratio'],
    names: ['all ranks', 'the one that waits most'],
    title: 'Waiting for data, share of time',
    format: percent
  },
];

const shown = (text, why = kNoSamples) => cell(text ?? `?${why}`, () => or_unknown(text, why));
const share = (ratio) => cell(ratio, () => meter(ratio, undefined, kNoSamples));

const operator_columns = [
  {key: 'name', label: 'Operator', cell: (one) => one.name},
  {key: 'rate', label: 'Rows/s', number: true, cell: (one) => shown(rate(one.rows_per_s))},
  {key: 'bytes', label: 'Bytes/s', number: true, hide: 'm', cell: (one) => shown(bytes_per_s(one.bytes_per_s))},
  {
    key: 'busy',
    label: 'Busy',
    title: 'Share of the time that it is at work',
    number: true,
    cell: (one) => share(one.busy_ratio)
  },
  {
    key: 'input',
    label: 'Waits for input',
    title: 'Share of the time that it waits for rows',
    number: true,
    cell: (one) => shown(percent(one.input_wait_ratio))
  },
  {
    key: 'room',
    label: 'Waits for room',
    title: 'Share of the time that it waits until somebody takes its rows',
    number: true,
    cell: (one) => shown(percent(one.room_wait_ratio))
  },
  {
    key: 'queue',
    label: 'Queued',
    title: 'Bytes that wait behind it now',
    number: true,
    hide: 'm',
    cell: (one) => (one.name === 'batch' ? shown(bytes(one.queue_bytes), kOver) : '')
  },
  {
    key: 'rows',
    label: 'Rows',
    title: 'So far, of all ranks',
    number: true,
    hide: 'm',
    cell: (one) => shown(count(one.rows))
  },
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
    cell: (one) => share(one.wait_ratio)
  },
  {
    key: 'operator',
    label: 'Held up by',
    by: (one) => one.operator,
    cell: (one) => shown(one.operator, 'no operator stands out')
  },
  {key: 'rows', label: 'Rows/s', number: true, by: (one) => one.rows_per_s, cell: (one) => shown(rate(one.rows_per_s))},
  {
    key: 'bytes',
    label: 'Bytes/s',
    number: true,
    hide: 'm',
    by: (one) => one.bytes_per_s,
    cell: (one) => shown(bytes_per_s(one.bytes_per_s))
  },
];

const tile = (label, value, why, small) =>
  h('div', {class: 'tile'}, h('dt', {}, label), h('dd', {}, or_unknown(value, why), small && h('small', {}, small)));

/// One dataset. Its tables and charts stay when its figures change.
class DatasetCard {
  constructor(run, one, {signal, fail}) {
    this.tiles = h('div');
    this.starving = h('p', {class: 'card-body starving', hidden: true});
    this.operators = new Table(operator_columns, {
      caption: `Operators of ${one.name}`,
      key: (operator) => operator.name,
      row_class: (operator) => (operator.name === this.bottleneck ? 'marked' : '')
    });
    this.ranks = new Table(rank_columns(run), {
      caption: `Ranks of ${one.name}`,
      key: (rank) => rank.rank,
      sort: {key: 'wait', descending: true},
      row_class: (rank) => (this.starves.has(rank.rank) ? 'marked' : '')
    });
    this.ranks.element.classList.add('capped');
    this.ranks_head = h('summary', {class: 'card-head'});
    this.by_rank = h('details', {}, this.ranks_head, this.ranks.element);
    this.charts = new SampleCharts(run.id, {dataset: one.name}, kFields, {signal, on_error: fail});
    this.chart_box = h('div', {class: 'dataset-charts'}, this.charts.element);
    this.element = h('section', {class: 'card dataset', 'aria-label': `Dataset ${one.name}`},
      h('div', {class: 'card-head'}, h('h2', {}, one.name), one.format && h('span', {class: 'tag'}, one.format),
        h('span', {class: 'note break mono'}, one.path ?? '')),
      this.tiles, this.starving, this.operators.element, this.chart_box, this.by_rank);
  }

  update(one, bound) {
    this.bottleneck = bound?.dataset === one.name ? bound.operator : null;
    this.starves = new Set(one.starving_ranks ?? []);
    replace(this.tiles,
      h('dl', {class: 'tiles flat'}, tile('Rows', per_s(one.rows_per_s, 'rows'), kNoSamples, 'all ranks'),
        tile('Bytes', bytes_per_s(one.bytes_per_s), kNoSamples, 'all ranks'),
        tile('Ranks wait', percent(one.wait_ratio), kNoSamples, 'of their time'),
        tile('Epoch', count(one.epoch), 'no checkpoint says', 'of the newest checkpoint'),
        tile('Consumed', count(one.rows), 'no checkpoint says', 'rows in that epoch')));
    this.starving.hidden = this.starves.size === 0;
    replace(this.starving, h('span', {class: 'tag warn'}, 'starving'),
      ` ${this.starves.size === 1 ? 'rank' : 'ranks'} ${[...this.starves].join(', ')}`);
    const measured = Boolean(one.operators?.length);
    this.operators.element.hidden = !measured;
    this.chart_box.hidden = !measured;
    if (measured) this.operators.update(one.operators);
    this.by_rank.hidden = !one.ranks?.length;
    set_text(this.ranks_head, `By rank (${one.ranks?.length ?? 0})`);
    if (one.ranks?.length) this.ranks.update(one.ranks);
    if (this.starves.size > 0 && !this.opened) this.by_rank.open = this.opened = true;
  }

  destroy() {
    this.charts.destroy();
  }
}

function verdict(bound, live) {
  if (!bound) return null;
  return h('section', {class: 'notice', data: {kind: 'warn'}, 'aria-label': 'Training waits for data'},
    icon('hourglass'),
    h('div', {}, h('p', {class: 'strong'}, bound.text),
      h('p', {class: 'hint'},
        live ? `Rank ${bound.rank} waits for “${bound.dataset}” for ${percent(bound.ratio)} of its time. `
             : `In the whole run, rank ${bound.rank} waited for “${bound.dataset}” for ${
                 percent(bound.ratio)} of its time. `,
        bound.operator ? `Of what prepares its batches, ${bound.operator} is at work most.` : '')));
}

const no_datasets = () => card('Data', {},
  h('div', {class: 'empty'}, h('p', {class: 'strong'}, 'This job names no dataset.'),
    h('p', {}, 'Put it under ', h('code', {}, 'datasets:'), ' in the spec, and read it with ',
      h('code', {}, 'train::get_dataset_shard()'), '.')));

export async function mount({body, run: first, signal, fail}) {
  let run = first;
  const notices = h('div', {class: 'notices'});
  const cards = new Map();
  const load = async () => {
    try {
      const {datasets, data_bound} = await get(`${run_path(run.id)}/data`, {}, signal);
      if (datasets.length === 0) return replace(body, no_datasets());
      replace(notices, verdict(data_bound, run.live));
      for (const one of datasets) {
        if (!cards.has(one.name)) cards.set(one.name, new DatasetCard(run, one, {signal, fail}));
        cards.get(one.name).update(one, data_bound);
      }
      const elements = [notices, ...[...cards.values()].map(({element}) => element)];
      if (elements.some((element) => element.parentNode !== body)) replace(body, elements);
      return null;
    } catch (error) {
      return fail(error);
    }
  };
  const load_soon = throttled(() => {
    load();
    cards.forEach(({charts}) => charts.refresh());
  }, kLiveMs);
  await load();
  return {
    reload: load,
    handlers: {ranks: load_soon, events: load_soon},
    on_run: (row) => {
      const ended = run.live && !row.live;
      run = row;
      if (ended) load_soon();  // its last event may have come before we knew
    },
    destroy: () => {
      load_soon.cancel();
      cards.forEach((one) => one.destroy());
    }
  };
}
