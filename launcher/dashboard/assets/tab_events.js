// The run's journal, newest first, with a filter.

import {get, run_path} from './api.js';
import {h, icon, replace, set_text, throttled} from './dom.js';
import {describe_event} from './events.js';
import {count, plural} from './format.js';
import {card} from './parts.js';

const kPage = 1000;
const kShown = 500;

export async function mount({body, run, signal, fail}) {
  const path = `${run_path(run.id)}/events`;
  const list = h('ol', {class: 'events'});
  const note = h('span', {class: 'note', role: 'status'});
  const damaged = h('div', {});
  let events = [];
  let filter = '';
  const search = h('input', {
    type: 'search',
    class: 'field',
    placeholder: 'Search events',
    'aria-label': 'Search events',
    on: {
      input: () => {
        filter = search.value.trim().toLowerCase();
        show();
      }
    }
  });
  const show = () => {
    const matching = events.filter((event) => JSON.stringify(event).toLowerCase().includes(filter));
    set_text(
      note, filter ? `${count(matching.length)} of ${plural(events.length, 'event')}` : plural(events.length, 'event'));
    replace(list, matching.slice(-kShown).reverse().map(describe_event),
      matching.length === 0 &&
        h('li', {class: 'empty'}, filter ? 'No event matches.' : 'The journal holds nothing yet.'),
      matching.length > kShown && h('li', {class: 'empty'}, `The newest ${kShown} are shown; search for others.`));
  };
  const show_soon = throttled(show, 500);
  const load = async () => {
    try {
      const answer = await get(path, {after: events.at(-1)?.seq ?? 0, limit: kPage}, signal);
      events.push(...answer.events);
      replace(damaged,
        answer.damaged &&
          h('div', {class: 'notice', data: {kind: 'bad'}}, icon('cross'),
            h('div', {}, h('p', {class: 'strong'}, 'The journal is damaged'), h('p', {}, answer.damaged))));
      if (answer.more) return load();
      return show();
    } catch (error) {
      return fail(error);
    }
  };
  replace(body, h('div', {class: 'tools'}, h('span', {class: 'search'}, icon('search'), search), note), damaged,
    card('Events', {}, h('div', {class: 'card-body'}, list)));
  await load();
  return {
    reload: load,
    handlers: {
      events: ({events: more}) => {
        const last = events.at(-1)?.seq ?? 0;
        events.push(...more.filter((event) => event.seq > last));
        show_soon();
      }
    },
    destroy: () => show_soon.cancel(),
  };
}
