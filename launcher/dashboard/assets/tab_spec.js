// The job as it was given and as it ran.

import {get, run_path} from './api.js';
import {h, icon, replace, set_text} from './dom.js';
import {count} from './format.js';

export async function mount({body, run, signal}) {
  const spec = await get(`${run_path(run.id)}/spec`, {}, signal);
  let which = spec.resolved === null ? 'given' : 'resolved';
  let filter = '';
  const note = h('span', {class: 'note', role: 'status'});
  const text = h('pre', {class: 'code lines', tabindex: 0});
  const empty = {given: 'The run’s folder holds no job file.', resolved: 'The run’s folder holds no resolved spec.'};
  const kinds = [['resolved', 'As it ran'], ['given', 'As given']].map(([key, label]) => h('button', {
    type: 'button',
    class: 'button',
    'aria-pressed': String(key === which),
    on: {
      click: (event) => {
        which = key;
        for (const one of event.currentTarget.parentElement.children)
          one.setAttribute('aria-pressed', String(one === event.currentTarget));
        show();
      }
    }
  },
                                                                         label));
  const search = h('input', {
    type: 'search',
    class: 'field',
    placeholder: 'Find in the spec',
    'aria-label': 'Find in the spec',
    on: {
      input: () => {
        filter = search.value.trim().toLowerCase();
        show();
      }
    }
  });
  const show = () => {
    const lines = (spec[which] ?? '').replace(/\n$/, '').split('\n');
    let found = 0;
    replace(text, spec[which] === null ? h('span', {class: 'muted'}, empty[which]) : lines.map((line) => {
      const match = filter !== '' && line.toLowerCase().includes(filter);
      found += match ? 1 : 0;
      return h('span', {class: match ? 'line found' : 'line'}, `${line}\n`);
    }));
    set_text(note, filter ? `${count(found)} lines` : '');
    if (found > 0) text.querySelector('.found').scrollIntoView({block: 'nearest'});
  };
  replace(body,
    h('div', {class: 'tools'}, h('div', {class: 'segments', role: 'group', 'aria-label': 'Which spec'}, kinds),
      h('span', {class: 'search'}, icon('search'), search), note),
    h('section', {class: 'card'}, text));
  show();
  return {handlers: {}};
}
