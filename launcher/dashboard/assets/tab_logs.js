// The output of all ranks in order of time, or the launcher's own log.

import {file_href, get, run_path} from './api.js';
import {h, replace} from './dom.js';
import {bytes, time_element} from './format.js';
import {LogView} from './log_view.js';
import {card} from './parts.js';

const kFiles = 64;

export async function mount({body, run, query: asked, signal, fail}) {
  const view = new LogView({
    run: run.id,
    attempts: run.attempts,
    live: run.live,
    signal,
    fail,
    initial: {source: asked.get('source') ?? 'workers'}
  });
  const files = h('div', {});
  replace(body, h('section', {class: 'card log-card', 'aria-label': 'Output'}, view.element), files);
  await view.load();
  const list = (await get(`${run_path(run.id)}/files`, {kind: 'log'}, signal)).files;
  replace(files,
    list.length > 0 &&
      card('Files', {note: 'the whole output, as the run’s folder holds it'},
        h('div', {class: 'card-body'},
          h('ul', {class: 'files'},
            list.slice(0, kFiles).map(
              (file) => h('li', {}, h('a', {href: file_href(run.id, file.id), download: true, class: 'mono'}, file.id),
                h('span', {class: 'note'}, bytes(file.bytes)),
                file.t && h('span', {class: 'note'}, time_element(file.t, ''))))))));
  return {
    reload: () => view.load(),
    handlers: {logs: () => view.more_soon()},
    on_run: (row) => {
      view.live = row.live;
    },
    destroy: () => view.destroy(),
  };
}
