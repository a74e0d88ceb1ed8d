// A row for each rank of the newest attempt; many ranks as a map. Stragglers and ranks that hang are marked, and come
// first.

import {ask} from './actions.js';
import {get, run_path} from './api.js';
import {button, choice, h, icon, replace, set_text, throttled} from './dom.js';
import {count, duration, plural} from './format.js';
import {HeatMap} from './heat_map.js';
import {behind_text, freshness} from './parts.js';
import {kHeat, rank_columns} from './rank_columns.js';
import {state_word} from './states.js';
import {Table} from './table.js';

const kManyRanks = 32;
const kTableRanks = 500;
const kLiveMs = 1500;
const kTroubled = new Set(['suspect', 'hung', 'failed', 'slow']);
const troubled = (rank) => rank.straggler || kTroubled.has(rank.state);

let chosen_heat = 'state';
let chosen_view = null;

function matches(rank, text) {
  if (!text) return true;
  return [
    `rank ${rank.rank}`, String(rank.rank), rank.node, rank.state, rank.phase, String(rank.pid),
    rank.straggler && 'straggler'
  ].some((one) => one && one.toLowerCase().includes(text));
}

export async function mount({body, run: first, signal, fail}) {
  let run = first;
  let answer = {ranks: [], median_step_s: null};
  let filter = '';
  const nobody = () => [h('p', {class: 'strong'}, 'No worker has started.'),
    h('p', {}, run.cause ?? 'Its ranks appear when an attempt begins.'),
  ];
  const table = new Table(rank_columns(run.id, () => answer), {
    caption: 'Ranks',
    kind: 'first-sticky dense',
    key: (one) => one.rank,
    sort: {key: 'rank', descending: false},
    row_class: (one) => (troubled(one) ? 'marked' : ''),
    empty: () => (filter ? 'No rank matches.' : nobody()),
  });
  const map = new HeatMap({
    describe: (one) => describe(one),
    open: (one) => (location.hash = `#/runs/${encodeURIComponent(run.id)}/workers/${one.rank}`)
  });
  const fresh = h('span', {});
  const summary = h('span', {class: 'note', role: 'status'});
  const note = h('p', {class: 'note card-body'});
  const table_card = h('section', {class: 'card', 'aria-label': 'Ranks'}, table.element, note);
  const heat_choice = choice('Colour', kHeat.map(({key, label}) => [key, label]), chosen_heat, (key) => {
    chosen_heat = key;
    show();
  });
  const map_card = h('section', {class: 'card', 'aria-label': 'Map of ranks'},
    h('div', {class: 'card-head'}, h('h2', {}, 'Map of ranks'), h('span', {class: 'grow'}), heat_choice),
    h('div', {class: 'card-body'}, map.element));
  const views = [['both', 'Map and table'], ['map', 'Map'], ['table', 'Table']].map(([key, label]) => h('button', {
    type: 'button',
    class: 'button',
    data: {view: key},
    on: {
      click: () => {
        chosen_view = key;
        show();
      }
    }
  },
                                                                                      label));
  const search = h('input', {
    type: 'search',
    class: 'field',
    placeholder: 'Rank, node, state, phase',
    'aria-label': 'Search ranks',
    on: {
      input: () => {
        filter = search.value.trim().toLowerCase();
        show();
      }
    }
  });
  const stacks = run.can_stop && button('Stacks of all ranks', {
    icon: 'stack',
    on_click: async () => {
      const task = await ask(run.id, 'stacks', {}, stacks, {text: '', failed: 'No stacks'});
      if (task?.files.length) location.hash = `#/runs/${encodeURIComponent(run.id)}/workers/0`;
    }
  });
  replace(body,
    h('div', {class: 'tools'}, h('span', {class: 'search'}, icon('search'), search),
      h('div', {class: 'segments', role: 'group', 'aria-label': 'View'}, views), summary, h('span', {class: 'grow'}),
      fresh, stacks || null),
    map_card, table_card);

  const describe = (one) => [`rank ${one.rank}`, one.node && `on ${one.node}`, state_word(one.state),
    one.straggler && `straggler, ${behind_text(one)}`, one.phase && `in ${one.phase}`,
    one.step !== null && `step ${count(one.step)}`, one.step_s !== null && `${duration(one.step_s)} a step`]
                              .filter(Boolean)
                              .join(', ');
  const show = () => {
    const view = chosen_view ?? (answer.ranks.length >= kManyRanks ? 'both' : 'table');
    for (const one of views) one.setAttribute('aria-pressed', String(one.dataset.view === view));
    const matching = answer.ranks.filter((one) => matches(one, filter));
    const trouble = answer.ranks.filter(troubled);
    map_card.hidden = view === 'table' || answer.ranks.length === 0;
    table_card.hidden = view === 'map' && answer.ranks.length > 0;
    const listed = matching.length > kTableRanks
      ? [...matching.filter(troubled), ...matching.filter((one) => !troubled(one))].slice(0, kTableRanks)
      : matching;
    table.table.classList.toggle('without-gpus', !answer.ranks.some((one) => one.gpus?.length));
    table.update(listed);
    note.hidden = listed.length === matching.length;
    set_text(note,
      `${count(listed.length)} of ${
        plural(matching.length, 'rank')} are listed, those in trouble first; search, or use the map, for others.`);
    map.update(matching, kHeat.find(({key}) => key === chosen_heat), answer);
    set_text(summary, [
      filter ? `${count(matching.length)} of ${plural(answer.ranks.length, 'rank')}`
             : plural(answer.ranks.length, 'rank'),
      trouble.length && `${count(trouble.length)} in trouble`
    ].filter(Boolean).join(', '));
    replace(fresh, freshness(answer.as_of, run.live));
  };
  const load = async () => {
    try {
      answer = await get(`${run_path(run.id)}/attempts/latest/ranks`, {}, signal);
    } catch (error) {
      if (error.status !== 404) return fail(error);
      answer = {ranks: [], median_step_s: null, as_of: null};  // no attempt yet
    }
    return show();
  };
  const load_soon = throttled(load, kLiveMs);
  const ages = setInterval(() => replace(fresh, freshness(answer.as_of, run.live)), 1000);
  await load();
  return {
    reload: load,
    handlers: {ranks: load_soon, events: load_soon, metrics: load_soon},
    on_run: (row) => {
      run = row;
    },
    destroy: () => {
      clearInterval(ages);
      load_soon.cancel();
      map.destroy();
    },
  };
}
