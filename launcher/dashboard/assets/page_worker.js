// One rank: what it does now, its charts, its output live, its stacks and profiles, its environment, and how it failed.

import {ask} from './actions.js';
import {file_href, file_path, get, get_file, run_path, server_now} from './api.js';
import {button, choice, h, icon, replace, throttled} from './dom.js';
import {FlameGraph, read_profile} from './flame_graph.js';
import {bytes, bytes_per_s, cores, count, duration, metric, or_unknown, percent, plural, seconds_of, time_element} from './format.js';
import {follow} from './live.js';
import {LogView} from './log_view.js';
import {SampleCharts} from './metric_grid.js';
import {run_href, tabs_of} from './page_run.js';
import {card, elapsed, facts, freshness} from './parts.js';
import {state_badge} from './states.js';

const kNoSamples = 'no sample of this rank has come';
const kLiveMs = 1500;
const kListed = 12;
const kShownEnding = {
  stacks: '.txt',
  profile: '.speedscope.json'
};  // of the files of each, the one that is shown here

const kProfileNames = {
  cpu: 'CPU',
  wall: 'Wall',
  memory: 'Memory'
};

const kFields = [
  {field: 'cpu_cores', title: 'CPU (cores)', format: cores},
  {field: 'rss_bytes', title: 'Resident memory', format: bytes, binary: true},
  {field: 'step_s', title: 'Step time', format: duration},
  {
    field: ['data_wait_ratio', 'collective_wait_ratio'],
    names: ['data', 'collectives'],
    title: 'Waiting, share of time',
    format: percent
  },
  {
    field: ['read_bytes_per_s', 'write_bytes_per_s'],
    names: ['read', 'written'],
    title: 'Disk',
    format: bytes_per_s,
    binary: true
  },
  {field: 'gpu_utilization_ratio', title: 'GPU use', format: percent},
  {field: 'gpu_memory_bytes', title: 'GPU memory', format: bytes, binary: true},
  {field: 'threads', title: 'Threads', format: count},
];

function now_tiles(one, live) {
  const tile = (label, value, why, small) =>
    h('div', {class: 'tile'}, h('dt', {}, label), h('dd', {}, or_unknown(value, why), small && h('small', {}, small)));
  return h('dl', {class: 'tiles'},
    tile('Phase', one.phase, kNoSamples,
      one.phase_since && live ? ['for ', elapsed(seconds_of(one.phase_since))] : one.phase_text),
    tile('Step', count(one.step), kNoSamples, one.step_s !== null && `${duration(one.step_s)} a step`),
    tile('CPU', one.cpu_cores === null ? null : `${cores(one.cpu_cores)} cores`, kNoSamples,
      one.threads !== null && plural(one.threads, 'thread')),
    tile('Memory', bytes(one.rss_bytes), kNoSamples,
      one.rss_limit_bytes !== null ? `of ${bytes(one.rss_limit_bytes)}` : 'no limit'),
    tile('GPU', percent(one.gpu_utilization_ratio), one.gpus?.length ? kNoSamples : 'this worker was given no GPU',
      one.gpus?.length ? `GPU ${one.gpus.join(', ')}` : ''),
    tile('Waits for data', percent(one.data_wait_ratio), kNoSamples, 'of its time'),
    one.straggler && tile('Straggler', `+${percent(one.behind_ratio)}`, '', 'for its own part of a step'),
    tile('Reports', count(one.reports), 'it has reported nothing in this attempt',
      one.last_report && ['last at ', time_element(one.last_report, '')]));
}

function error_card(error) {
  return h('section', {class: 'notice', data: {kind: 'bad'}, 'aria-label': 'How it failed'}, icon('cross'),
    h('div', {}, h('p', {class: 'strong'}, error.cause ?? error.type ?? 'It failed'),
      error.what && h('p', {}, error.what), error.stack && h('pre', {class: 'code'}, error.stack)));
}

/// Stacks and profiles: the list of files, the one that is open, and the buttons that make new ones.
class Inspection {
  constructor(run, rank, {signal, fail}) {
    Object.assign(this, {run, rank, signal, fail});
    this.view = h('div', {class: 'inspection'});
    this.list = h('ul', {class: 'files'});
    this.note = h('div', {});
    const buttons = run.can_stop ? this.buttons()
                                 : h('span', {class: 'note'},
                                     run.live ? 'Start the dashboard with --allow-actions to take new ones.'
                                              : 'The run is over: these are what it left.');
    this.element = card('Stacks and profiles', {tools: buttons}, h('div', {class: 'card-body'}, this.list, this.view));
  }
  buttons() {
    let seconds = '5';
    const profile = (kind, label, name) => {
      const node = button(label, {
        icon: name,
        kind: 'small',
        on_click: () => this.take('profile', {rank: this.rank, kind, seconds: Number(seconds)}, node)
      });
      return node;
    };
    const stacks = button('Stacks now',
      {icon: 'stack', kind: 'small', on_click: () => this.take('stacks', {ranks: String(this.rank)}, stacks)});
    return h('div', {class: 'tools'}, stacks,
      choice('for', [['5', '5 s'], ['15', '15 s'], ['60', '60 s']], seconds, (value) => (seconds = value)),
      profile('cpu', 'CPU profile', 'flame'), profile('wall', 'Wall profile', 'hourglass'),
      profile('memory', 'Memory profile', 'memory'));
  }
  async take(what, wanted, node) {
    const progress = h('div', {class: 'progress', role: 'status'},
      what === 'stacks' ? 'Taking stacks… ' : `Sampling rank ${this.rank} for ${wanted.seconds} s… `,
      elapsed(server_now()));
    replace(this.view, progress);
    const task =
      await ask(this.run.id, what, wanted, node, {text: '', failed: what === 'stacks' ? 'No stacks' : 'No profile'});
    progress.remove();
    if (!task) return;
    await this.load();
    const made = this.files.find((file) => task.files.includes(file.id));
    if (made) await this.open(made);
  }
  async load() {
    try {
      const answers = await Promise.all(
        ['stacks', 'profile'].map((kind) => get(`${run_path(this.run.id)}/files`, {kind}, this.signal)));
      const all = answers.flatMap(({files}) => files).filter((file) => file.rank === null || file.rank === this.rank);
      this.all = all;
      this.files =
        all.filter((file) => file.id.endsWith(kShownEnding[file.kind])).toSorted((a, b) => b.t.localeCompare(a.t));
      replace(this.list, this.files.slice(0, kListed).map((file) => this.item(file, all)),
        this.files.length === 0 &&
          h('li', {class: 'empty'}, 'None yet. They are taken when a rank hangs, by ',
            h('code', {}, 'train-run stacks'), ', or here.'));
    } catch (error) {
      this.fail(error);
    }
  }
  /// An entry for what was taken: its file that is shown here, and all of its files to download.
  item(file, all) {
    const name = file.id.slice(0, -kShownEnding[file.kind].length);
    const downloads =
      all.filter((one) => one.id.startsWith(`${name}.`))
        .map((one) => h('a', {href: file_href(this.run.id, one.id), title: bytes(one.bytes), download: true},
               one.id.slice(name.length)));
    const label = file.kind === 'stacks' ? 'Stacks' : `${kProfileNames[file.why] ?? 'CPU'} profile`;
    return h('li', {}, icon(file.kind === 'stacks' ? 'stack' : 'flame'),
      h('button', {type: 'button', class: 'link', on: {click: () => this.open(file)}}, label),
      h('span', {class: 'note'}, time_element(file.t, '')),
      file.kind === 'stacks' && file.why && h('span', {class: 'tag'}, file.why.replace(/-.*/, '')),
      h('span', {class: 'note'}, 'download ', downloads.flatMap((link, index) => (index ? [' ', link] : [link]))));
  }
  /// Show below a flame graph what its text says: how the samples were taken, and what they lack.
  async describe(profile) {
    const name = `${profile.id.slice(0, -kShownEnding.profile.length)}.txt`;
    if (!this.all.some((file) => file.id === name)) return;
    const text = await (await get_file(file_path(this.run.id, name), this.signal)).text();
    this.view.append(h('pre', {class: 'code', tabindex: 0, 'aria-label': 'About the profile'}, text));
  }
  async open(file) {
    replace(this.view, h('p', {class: 'note'}, 'Loading…'));
    try {
      const response = await get_file(file_path(this.run.id, file.id), this.signal);
      if (file.kind === 'profile') {
        const graph = new FlameGraph(await read_profile(response, file.id));
        replace(this.view, graph.element);
        await this.describe(file);
      } else {
        const text = await response.text();
        replace(this.view, h('pre', {class: 'code', tabindex: 0, 'aria-label': 'Stacks'}, text));
      }
      this.view.scrollIntoView({block: 'nearest'});
    } catch (error) {
      if (error.name !== 'AbortError')
        replace(this.view, h('p', {class: 'stale', role: 'alert'}, `This file cannot be shown: ${error.message}`));
    }
  }
}

const variable_list = (variables) => h('dl', {class: 'facts mono variables'},
  variables.map(([name, value]) => [h('dt', {}, name), h('dd', {}, String(value))]));

async function environment_card(run, one, attempt, signal) {
  const {variables} = await get(`${run_path(run.id)}/attempts/latest/ranks/${one.rank}/environment`, {}, signal);
  if (variables)
    return card('Environment', {note: 'what the process began with, without secrets'},
      h('div', {class: 'card-body'}, variable_list(Object.entries(variables))));
  const {fields} = await get(`${run_path(run.id)}/spec`, {}, signal);
  const of_job =
    Object.entries(fields).filter(([key]) => key.startsWith('env.')).map(([key, value]) => [key.slice(4), value]);
  const of_rank = [['RANK', one.rank], ['LOCAL_RANK', one.local_rank], ['WORLD_SIZE', attempt.world_size]].filter(
    ([, value]) => value !== null);
  return card('Environment', {note: 'what the job and train-run set'},
    h('div', {class: 'card-body'}, variable_list([...of_rank, ...of_job])));
}

export async function show({main, parts, signal, fail, set_crumbs}) {
  const rank = Number(parts.rank);
  let run = await get(run_path(parts.run), {}, signal);
  const path = `${run_path(run.id)}/attempts/latest/ranks`;
  let one = await get(`${path}/${rank}`, {}, signal);
  const attempt = await get(path, {limit: 1}, signal);
  set_crumbs(
    [['Runs', '#/runs'], [run.name, run_href(run.id)], ['Workers', run_href(run.id, 'workers')], [`Rank ${rank}`, '']]);
  const head = h('div', {class: 'head'});
  const tiles = h('div', {});
  const failed = h('div', {});
  let as_of = attempt.as_of;
  const go = (to, label, name) => (to >= 0 && to < attempt.world_size
      ? h('a', {class: 'button', href: `${run_href(run.id, 'workers')}/${to}`, 'aria-label': label}, icon(name))
      : null);
  const show_now = () => {
    replace(head, h('h1', {}, `Rank ${rank}`), state_badge(one.state),
      one.straggler && h('span', {class: 'tag warn'}, 'straggler'), freshness(as_of, run.live),
      h('div', {class: 'buttons'}, go(rank - 1, 'Previous rank', 'left'), go(rank + 1, 'Next rank', 'arrow')),
      h('p', {class: 'sub'}, [
        one.node && `on ${one.node}`, one.local_rank !== null && `local rank ${one.local_rank}`,
        one.role && `role ${one.role}`, one.pid !== null && `pid ${one.pid}`, one.cpus && `on CPUs ${one.cpus}`,
        one.epoch !== null && `epoch ${metric(one.epoch)}`, one.attempts > 1 && plural(one.attempts - 1, 'restart')
      ].filter(Boolean).join(' · ')));
    replace(tiles, now_tiles(one, run.live));
    replace(failed, one.error && error_card(one.error));
  };
  show_now();
  const shown_fields = kFields.filter(({field}) => one.gpus?.length || !String(field).startsWith('gpu_'));
  const samples = new SampleCharts(run.id, {rank}, shown_fields, {signal, on_error: fail});
  const logs = new LogView({run: run.id, rank, sources: false, attempts: run.attempts, live: run.live, signal, fail});
  const inspection = new Inspection(run, rank, {signal, fail});
  replace(main, head, h('div', {}, tabs_of(run, 'workers')), failed, tiles,
    card('Output', {}, h('div', {class: 'log-card'}, logs.element)), inspection.element, samples.element,
    h('div', {class: 'environment'}));
  await Promise.all([
    logs.load(), inspection.load(),
    environment_card(run, one, attempt, signal).then((node) => main.querySelector('.environment')?.replaceWith(node))
  ]);

  const load = async () => {
    try {
      one = await get(`${path}/${rank}`, {}, signal);
      show_now();
    } catch (error) {
      fail(error);
    }
  };
  const load_soon = throttled(load, kLiveMs);
  const handlers = {
    run: (row) => {
      run = {...run, ...row};
      logs.live = run.live;
      load_soon();
    },
    ranks: (frame) => {
      as_of = frame.as_of;
      load_soon();
      samples.refresh();
    },
    logs: () => logs.more_soon(),
  };
  if (signal.aborted) {
    samples.destroy();
    logs.destroy();
    return null;
  }
  const ages = setInterval(() => head.querySelector('.note')?.replaceWith(freshness(as_of, run.live)), 1000);
  follow({run: run.id, topics: Object.keys(handlers).join(','), rank}, handlers, () => {
    load();
    logs.load();
    samples.refresh();
  });
  return {
    destroy: () => {
      clearInterval(ages);
      load_soon.cancel();
      samples.destroy();
      logs.destroy();
    }
  };
}
