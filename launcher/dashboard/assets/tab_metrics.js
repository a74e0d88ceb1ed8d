// All metrics of the run as charts, and the newest value of those that are no numbers.

import {get, run_path} from './api.js';
import {choice, h, replace} from './dom.js';
import {count, metric, or_unknown, plural} from './format.js';
import {MetricGrid} from './metric_grid.js';
import {by_interest, card, facts} from './parts.js';

export async function mount({body, run, signal, fail}) {
  const path = run_path(run.id);
  const source = {run: run.id, label: run.name, color: 0, rank: 0};
  const place = h('div', {});
  const texts = h('div', {});
  const head = h('div', {class: 'tools', role: 'status'});
  let grid = null;
  let known = '';

  const load = async () => {
    try {
      const {keys, ranks, reports} = await get(`${path}/metrics/keys`, {rank: source.rank}, signal);
      const numbers = by_interest(keys.filter((one) => one.kind === 'number').map((one) => one.key));
      const others = keys.filter((one) => one.kind !== 'number');
      replace(head, h('span', {class: 'muted'}, `${plural(numbers.length, 'metric')} of ${plural(reports, 'report')}`),
        ranks.length > 1 &&
          choice('of rank', ranks.map((rank) => [String(rank), count(rank)]), String(source.rank), (rank) => {
            source.rank = Number(rank);
            known = '';
            load();
          }));
      replace(texts,
        others.length > 0 &&
          card('Texts and switches', {note: 'newest value'},
            h('div', {class: 'card-body'},
              facts(others.map((one) => [one.key, or_unknown(metric(one.last), 'no value')])))));
      if (numbers.join('\n') === known) return grid?.refresh();
      known = numbers.join('\n');
      grid?.destroy();
      grid = numbers.length ? new MetricGrid([source], numbers, {signal, extra: head, on_error: fail}) : null;
      return replace(place,
        grid
          ? grid.element
          : h('section', {class: 'card empty'}, h('p', {class: 'strong'}, 'No metrics yet.'),
              h('p', {}, 'They appear when the program calls ', h('code', {}, 'train::report()'), ' with numbers.')));
    } catch (error) {
      return fail(error);
    }
  };
  replace(body, place, texts);
  await load();
  return {reload: load, handlers: {metrics: () => (grid ? grid.refresh() : load())}, destroy: () => grid?.destroy()};
}
