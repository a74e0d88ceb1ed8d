// What a table of ranks shows, and what a rank's value means for the map of ranks.

import {h} from './dom.js';
import {bytes, bytes_per_s, cores, count, duration, or_unknown, percent, seconds_of, unknown} from './format.js';
import {elapsed} from './parts.js';
import {state_mark} from './states.js';
import {cell} from './table.js';

const kNoSamples = 'no sample: the run is not live, or its supervisors send none';
const kNoSdk = 'the program marks no progress (it does not use the SDK), or no sample has come';
const kNoGpu = 'this worker has no GPU, or NVML does not tell';

const shown = (text, why) => cell(text ?? `?${why}`, () => or_unknown(text, why));

/// A column of the numbers `key`; `why`: why one is missing.
const figure = (key, label, format, why, title) =>
  ({key, label, title, number: true, by: (one) => one[key], cell: (one) => shown(format(one[key]), why)});

/// A column of bytes, with their limit.
const bytes_of = (key, limit, label, why, title) => ({
  ...figure(key, label, bytes, why, title),
  cell: (one) => cell(`${bytes(one[key])}${one[limit]}`,
    () => one[key] === null
      ? unknown(why)
      : h('span', {}, bytes(one[key]), one[limit] && h('span', {class: 'muted'}, ` of ${bytes(one[limit])}`)))
});

const plain = (value) => (value === null ? null : String(value));
const restarts = (attempts) => (attempts === null ? null : count(Math.max(0, attempts - 1)));

/// Step time against the median of all ranks: "0.42 s (+3 %)".
function step_time(rank, median) {
  if (rank.step_s === null) return unknown(kNoSdk);
  const against = median ? rank.step_s / median - 1 : null;
  return h('span', {}, duration(rank.step_s),
    against !== null && Math.abs(against) >= 0.01 &&
      h('span', {class: against > 0.1 ? 'stale' : 'muted'},
        ` ${against > 0 ? '+' : '−'}${Math.abs(against * 100).toFixed(0)} %`));
}

export function rank_columns(run_id, answer) {
  const href = (rank) => `#/runs/${encodeURIComponent(run_id)}/workers/${rank.rank}`;
  return [
    {
      key: 'rank',
      label: 'Rank',
      by: (one) => one.rank,
      cell: (one) => cell(one.rank, () => h('a', {href: href(one), class: 'strong'}, String(one.rank)))
    },
    {
      key: 'node',
      label: 'Node',
      by: (one) => one.node,
      cell: (one) => cell(`${one.node}${one.local_rank}${one.role}`,
        () => one.node === null ? unknown('no node has it')
                                : h('span', {title: `local rank ${one.local_rank}`}, one.node,
                                    one.role && h('span', {class: 'muted'}, ` ${one.role}`)))
    },
    figure('pid', 'Pid', plain, 'no process, or its pid was not recorded'),
    {
      key: 'gpus',
      label: 'GPU',
      by: (one) => one.gpus?.join(',') ?? null,
      cell: (one) => shown(one.gpus?.length ? one.gpus.join(', ') : null, 'this worker was given no GPU')
    },
    {
      key: 'state',
      label: 'State',
      by: (one) => one.state,
      cell: (one) => cell(`${one.state}${one.straggler}${one.behind_ratio}`,
        () => [state_mark(one.state),
          one.straggler &&
            [
              ' ',
              h('span', {
                class: 'tag warn',
                title: 'it needs so much longer for its own part of a step than the median of the others'
              },
                `straggler +${percent(one.behind_ratio)}`)
            ]])
    },
    {
      key: 'phase',
      label: 'Phase',
      by: (one) => one.phase,
      cell: (one) => cell(`${one.phase}${one.phase_since}${one.phase_text}`,
        () => one.phase === null
          ? unknown(kNoSdk)
          : h('span', {title: one.phase_text}, one.phase,
              one.phase_since && h('span', {class: 'muted'}, ' ', elapsed(seconds_of(one.phase_since)))))
    },
    figure('step', 'Step', count, kNoSdk),
    {
      key: 'step_s',
      label: 'Step time',
      number: true,
      title: 'Against the median of all ranks',
      by: (one) => one.step_s,
      cell: (one) => cell(`${one.step_s} ${answer().median_step_s}`, () => step_time(one, answer().median_step_s))
    },
    figure('data_wait_ratio', 'Data wait', percent, kNoSdk, 'Share of its time that it waits for data'),
    figure('cpu_cores', 'CPU cores', cores, kNoSamples),
    bytes_of('rss_bytes', 'rss_limit_bytes', 'Memory', kNoSamples, 'Resident memory, and its limit'),
    figure('read_bytes_per_s', 'Read', bytes_per_s, kNoSamples),
    figure('gpu_utilization_ratio', 'GPU use', percent, kNoGpu),
    bytes_of('gpu_memory_bytes', 'gpu_memory_total_bytes', 'GPU memory', kNoGpu),
    figure('reports', 'Reports', count, 'it has reported nothing in this attempt'),
    figure('attempts', 'Restarts', restarts, 'not recorded', 'Attempts of this rank before this one'),
  ];
}

/// What the map can show: value(rank, answer) from 0 (calm) to 1 (look here), and its text.
export const kHeat = [
  {key: 'state', label: 'State', scale: null, text: (one) => one.state},
  {
    key: 'step',
    label: 'Step time against the median',
    scale: ['as fast as the median', 'twice as slow'],
    value: (one, {median_step_s: median}) => (one.step_s === null || !median ? null : one.step_s / median - 1),
    text: (one) => duration(one.step_s)
  },
  {
    key: 'data',
    label: 'Waiting for data',
    scale: ['0 %', '100 %'],
    value: (one) => one.data_wait_ratio,
    text: (one) => percent(one.data_wait_ratio)
  },
  {
    key: 'memory',
    label: 'Memory against the limit',
    scale: ['0 %', '100 %'],
    value: (one) => (one.rss_bytes === null || !one.rss_limit_bytes ? null : one.rss_bytes / one.rss_limit_bytes),
    text: (one) => bytes(one.rss_bytes)
  },
  {
    key: 'gpu',
    label: 'GPU idle',
    scale: ['busy', 'idle'],
    value: (one) => (one.gpu_utilization_ratio === null ? null : 1 - one.gpu_utilization_ratio),
    text: (one) => percent(one.gpu_utilization_ratio)
  },
  {
    key: 'behind',
    label: 'Steps behind',
    scale: ['in front', '10 steps behind'],
    value: (one, {front}) => (one.step === null || !front ? null : (front - one.step) / 10),
    text: (one) => count(one.step)
  },
];
