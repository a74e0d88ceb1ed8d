// The frame of all pages: which page an address shows, the bar at the top, keys, the theme, and what is shown when a
// page fails.
//
//   #/runs?q=…&state=…                      every run             #/compare?run=ID&run=ID    runs over each other
//   #/runs/ID[/metrics|workers|data|…]      one run, by tabs      #/runs/ID/workers/RANK     one worker
//   #/sweeps                                every sweep           #/sweeps/ID                one sweep

import {Problem, server_now} from './api.js';
import {show_keys} from './dialogs.js';
import {h, icon, replace, set_text} from './dom.js';
import {whole_seconds} from './format.js';
import {stop_following} from './live.js';

const kRoutes = [
  [/^\/?$/, () => import('./page_runs.js')],
  [/^\/runs$/, () => import('./page_runs.js')],
  [/^\/sweeps$/, () => import('./page_sweeps.js')],
  [/^\/sweeps\/(?<sweep>[^/]+)$/, () => import('./page_sweep.js')],
  [/^\/compare$/, () => import('./page_compare.js')],
  [/^\/runs\/(?<run>[^/]+)\/workers\/(?<rank>\d+)$/, () => import('./page_worker.js')],
  [/^\/runs\/(?<run>[^/]+)(?:\/(?<tab>[a-z]+))?$/, () => import('./page_run.js')],
];

const main = document.getElementById('main');
let page = null;  // {destroy?} of the page that is shown
let leave = new AbortController();

function parse(hash) {
  const [path, text = ''] = hash.replace(/^#/, '').split('?');
  for (const [pattern, load] of kRoutes) {
    const match = pattern.exec(path);
    if (match) {
      const parts = Object.fromEntries(
        Object.entries(match.groups ?? {}).filter(([, part]) => part !== undefined).map(([key,
          part]) => [key, decodeURIComponent(part)]));
      return {load, parts, query: new URLSearchParams(text)};
    }
  }
  return null;
}

function set_crumbs(crumbs) {
  replace(document.getElementById('crumbs'),
    crumbs.map(([text, href], index) => index === crumbs.length - 1
        ? h('span', {'aria-current': 'page', title: text}, text)
        : h('a', {href, title: text}, text)));
  document.title = crumbs.length ? `${crumbs.map(([text]) => text).reverse().join(' · ')} · trainrun` : 'trainrun';
}

/// Show why a page cannot be shown, or the login if the token is missing.
export function failure(error) {
  if (error instanceof Problem && error.status === 401) return login();
  const hint = error instanceof Problem ? error.hint : 'this is a fault of the page: please report it';
  const retry = h('button', {type: 'button', class: 'button', on: {click: () => show(true)}}, icon('reset'),
    h('span', {}, 'Try again'));
  return h('div', {class: 'notice', role: 'alert', data: {kind: 'bad'}}, icon('bang'),
    h('div', {}, h('p', {class: 'strong'}, error.message), hint && h('p', {class: 'hint'}, hint),
      h('p', {class: 'notice-action tools'}, retry, h('a', {href: '#/runs'}, 'All runs'))));
}

/// Ask for the token. It is tried before the page goes to the address that sets the cookie, so that a mistake is told
/// here.
function login() {
  const problem = h('p', {class: 'stale', role: 'alert'},
    new URLSearchParams(location.search).has('token')
      ? 'The token of this link is wrong: a dashboard makes a new one at each start.'
      : '');
  const token = h('input', {
    class: 'field mono',
    name: 'token',
    type: 'password',
    autocomplete: 'current-password',
    required: true,
    autofocus: true
  });
  const enter = async (event) => {
    event.preventDefault();
    const response = await fetch(
      'api/v1/about', {headers: {Authorization: `Bearer ${token.value.trim()}`},
        cache:
          'no-store'}).catch(() => null);
    if (response?.ok)
      location.assign(`./?token=${encodeURIComponent(token.value.trim())}`);
    else
      set_text(problem, response === null ? 'The dashboard does not answer.' : 'This token is wrong.');
  };
  return h('form', {class: 'card login', on: {submit: enter}}, h('h1', {}, 'Log in'),
    h('p', {class: 'muted'}, 'This dashboard needs its token: open the link that ',
      h('code', {}, 'train-run dashboard'), ' has printed, or paste the token here.'),
    h('label', {}, h('span', {}, 'Token'), token), problem,
    h('button', {class: 'button primary', type: 'submit'}, 'Log in'));
}

async function show(again = false) {
  const route = parse(location.hash);
  leave.abort();
  leave = new AbortController();
  const {signal} = leave;
  stop_following();
  page?.destroy?.();
  page = null;
  if (!route) {
    set_crumbs([['Not found']]);
    replace(main,
      h('div', {class: 'empty'}, h('p', {class: 'strong'}, 'There is no such page.'),
        h('p', {}, h('a', {href: '#/runs'}, 'All runs'))));
    return;
  }
  const fail = (error) => {
    if (error.name === 'AbortError' || signal.aborted) return;
    if (!(error instanceof Problem)) console.error(error);
    leave.abort();
    stop_following();
    page?.destroy?.();
    page = null;
    replace(main, failure(error));
  };
  try {
    const module = await route.load();
    const shown = await module.show({...route, main, signal, fail, set_crumbs});
    if (signal.aborted)
      shown?.destroy?.();
    else
      page = shown;
    // What had the focus has gone with the old page; a search that the user has reached meanwhile keeps it.
    if (!again && main.dataset.shown && document.activeElement === document.body) main.focus({preventScroll: true});
    main.dataset.shown = 'yes';
  } catch (error) {
    fail(error);
  }
}

function show_theme() {
  const dark = document.documentElement.dataset.theme === 'dark';
  const node = document.getElementById('theme');
  const label = dark ? 'Light theme' : 'Dark theme';
  replace(node, icon(dark ? 'sun' : 'moon'));
  node.title = `${label} (t)`;
  node.setAttribute('aria-label', label);
}

function on_key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.('input, textarea, select, dialog'))
    return;
  const tabs = [...document.querySelectorAll('.tabs a')];
  if (event.key === '/') {
    const search = document.querySelector('input[type="search"]');
    if (!search) return;
    event.preventDefault();
    search.focus();
    search.select();
  } else if (event.key === 't') {
    window.trainrunTheme.toggle();
  } else if (event.key === '?') {
    show_keys();
  } else if (event.key === 'u') {
    // Not one selector for both: the brand comes first on the page.
    (document.querySelector('.crumbs a:last-of-type') ?? document.querySelector('.brand')).click();
  } else if (/^[1-9]$/.test(event.key) && tabs[event.key - 1]) {
    tabs[event.key - 1].click();
  }
}

document.getElementById('theme').addEventListener('click', () => window.trainrunTheme.toggle());
document.getElementById('skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
document.addEventListener('themechange', show_theme);
document.addEventListener('keydown', on_key);
addEventListener('hashchange', () => show());
setInterval(() => {
  if (document.visibilityState === 'hidden') return;
  for (const node of document.querySelectorAll('[data-since]'))
    set_text(node, whole_seconds(server_now() - Number(node.dataset.since)));
}, 1000);
show_theme();
show();
