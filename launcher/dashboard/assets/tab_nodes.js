// The nodes of the run: each traind with its room, load and GPUs, and why one is not used.

import {get, run_path} from './api.js';
import {h, replace, throttled} from './dom.js';
import {bytes, bytes_per_s, cores, count, metric, or_unknown, percent, plural, time_element, unknown} from './format.js';
import {card, facts, freshness, meter} from './parts.js';
import {state_badge, state_word} from './states.js';
import {cell, Table} from './table.js';

const kNoSamples = 'not measured: no sample of this node has come';
const kLiveMs = 2000;

const kNvml = 'NVML does not tell';
const gpu_columns = [
  {
    key: 'index',
    label: 'GPU',
    number: false,
    cell: (gpu) => cell(`${gpu.index}${gpu.name}`, () => h('span', {title: gpu.name}, String(gpu.index)))
  },
  {
    key: 'rank',
    label: 'Rank',
    cell: (gpu) => cell(gpu.rank, () => or_unknown(count(gpu.rank), 'no rank of this run uses it'))
  },
  {
    key: 'use',
    label: 'Use',
    number: true,
    cell: (gpu) => cell(gpu.utilization_ratio, () => meter(gpu.utilization_ratio, undefined, kNvml))
  },
  {
    key: 'memory',
    label: 'Memory',
    number: true,
    cell: (gpu) => cell(gpu.memory_used_bytes,
      () => gpu.memory_used_bytes === null
        ? unknown(kNvml)
        : `${bytes(gpu.memory_used_bytes)} of ${bytes(gpu.memory_total_bytes) ?? '?'}`)
  },
  {
    key: 'power',
    label: 'Power',
    number: true,
    cell: (gpu) => cell(gpu.power_watts,
      () => or_unknown(gpu.power_watts === null
          ? null
          : `${gpu.power_watts.toFixed(0)} W${
              gpu.power_limit_watts === null ? '' : ` of ${gpu.power_limit_watts.toFixed(0)}`}`,
        kNvml))
  },
  {
    key: 'temperature',
    label: 'Temp.',
    number: true,
    cell: (gpu) => cell(gpu.temperature_celsius,
      () => or_unknown(gpu.temperature_celsius === null ? null : `${gpu.temperature_celsius.toFixed(0)} °C`, kNvml))
  },
  {
    key: 'errors',
    label: 'Errors',
    cell: (gpu) => cell(`${gpu.ecc_errors} ${gpu.xid}`,
      () => [gpu.xid !== null && h('span', {class: 'tag warn', title: 'The newest Xid error'}, `Xid ${gpu.xid}`), ' ',
        or_unknown(gpu.ecc_errors === null ? null
            : gpu.ecc_errors === 0         ? 'no ECC'
                                           : `${count(gpu.ecc_errors)} ECC`,
          kNvml)])
  },
  {
    key: 'foreign',
    label: 'Others',
    title: 'Processes that are not of this run',
    cell: (gpu) => cell(gpu.foreign_processes,
      () => gpu.foreign_processes ? h('span', {class: 'tag warn'}, count(gpu.foreign_processes))
                                  : or_unknown(gpu.foreign_processes === 0 ? 'none' : null, kNvml))
  },
];

function share(used, total, text) {
  return used === null || total === null || total === 0 ? unknown(kNoSamples) : meter(used / total, text);
}

const less = (total, free) => (total === null || free === null ? null : total - free);

function cpu_of(node) {
  const all = count(node.cpu_count);
  if (node.cpu_used_cores === null) return all && `${all} cores`;
  return share(node.cpu_used_cores, node.cpu_count, `${cores(node.cpu_used_cores)} of ${all ?? '?'} cores`);
}

function memory_of(node) {
  const total = bytes(node.memory_total_bytes);
  const used = less(node.memory_total_bytes, node.memory_available_bytes);
  return used === null ? total : share(used, node.memory_total_bytes, `${bytes(used)} of ${total}`);
}

function disk_of(node) {
  const used = less(node.disk_total_bytes, node.disk_free_bytes);
  return used === null ? null : share(used, node.disk_total_bytes, `${bytes(node.disk_free_bytes)} free`);
}

function network_of(node) {
  const received = bytes_per_s(node.receive_bytes_per_s);
  return received && `${received} in, ${bytes_per_s(node.send_bytes_per_s) ?? '–'} out`;
}

function facts_of(node) {
  const slots = count(node.slots);
  const leases = count(node.leases) ?? '–';
  return facts([
    ['CPU', cpu_of(node), kNoSamples],
    ['Load', metric(node.load1), kNoSamples],
    ['Memory', memory_of(node), kNoSamples],
    ['Disk', disk_of(node), kNoSamples],
    ['Network', network_of(node), kNoSamples],
    ['Workers', count(node.workers), 'no attempt has used it'],
    ['Slots, leases', slots && `${slots} slots, ${leases} leases`, 'its traind does not tell the run'],
    node.failures > 0 && ['Failures', plural(node.failures, 'failed attempt')],
    ['traind', node.version, 'not recorded'],
  ]);
}

function use_of(node) {
  if (!node.in_use) return h('span', {class: 'tag'}, 'not in use');
  return h('span', {class: 'note'}, node.ranks === null ? 'in use' : `ranks ${node.ranks}`);
}

function node_card(node) {
  const head = h('div', {class: 'card-head'}, h('h2', {}, node.name), state_badge(node.state), use_of(node));
  head.append(h('span', {class: 'grow'}), h('span', {class: 'note mono'}, node.address ?? ''));
  const element = h('section', {class: 'card node', 'aria-label': `Node ${node.name}`}, head);
  if (node.reason)
    element.append(h('p', {class: 'card-body node-reason'}, h('b', {}, `${state_word(node.state)}: `), node.reason,
      node.state_since && h('span', {class: 'note'}, [' since ', time_element(node.state_since, '')])));
  element.append(h('div', {class: 'card-body'}, facts_of(node)));
  if (node.gpus?.length) {
    const table = new Table(gpu_columns, {
      caption: `GPUs of ${node.name}`,
      key: (gpu) => gpu.index,
      row_class: (gpu) => (gpu.xid !== null || gpu.foreign_processes ? 'marked' : '')
    });
    table.update(node.gpus);
    element.append(table.element);
  }
  return element;
}

export async function mount({body, run: first, signal, fail}) {
  let run = first;
  const load = async () => {
    try {
      const {nodes, as_of} = await get(`${run_path(run.id)}/nodes`, {}, signal);
      const busy = nodes.reduce(
        (sum, node) => sum + (node.gpus ?? []).reduce((use, gpu) => use + (gpu.utilization_ratio ?? 0), 0), 0);
      const gpus = nodes.reduce((sum, node) => sum + (node.gpus ?? []).length, 0);
      if (nodes.length === 0)
        return replace(body,
          card('Nodes', {},
            h('div', {class: 'empty'}, h('p', {class: 'strong'}, 'No node yet.'),
              h('p', {}, run.cause ?? 'The run’s nodes appear when an attempt is placed.'))));
      const scroll = scrollY;
      replace(body,
        h('div', {class: 'tools'},
          h('span', {class: 'muted'},
            `${nodes.filter((node) => node.in_use).length} in use of ${nodes.length}${
              gpus ? `, ${gpus} GPUs ${percent(busy / gpus)} busy` : ''}`),
          h('span', {class: 'grow'}), freshness(as_of, run.live)),
        h('div', {class: 'node-grid'}, nodes.map(node_card)));
      return scrollTo({top: scroll, behavior: 'instant'});
    } catch (error) {
      return fail(error);
    }
  };
  const load_soon = throttled(load, kLiveMs);
  await load();
  return {
    reload: load,
    handlers: {ranks: load_soon, events: load_soon},
    on_run: (row) => (run = row),
    destroy: () => load_soon.cancel()
  };
}
