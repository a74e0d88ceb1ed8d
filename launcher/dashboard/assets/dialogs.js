// Questions before an action, and short messages after it.

import {h} from './dom.js';

const kToastMs = 8000;

/// Ask; resolve to whether the user agreed. Escape and Cancel do not.
export function confirmed({title, text, action, kind = 'danger'}) {
  return new Promise((resolve) => {
    const cancel = h('button', {type: 'button', class: 'button', on: {click: () => dialog.close('no')}}, 'Cancel');
    const agree =
      h('button', {type: 'button', class: `button ${kind}`, on: {click: () => dialog.close('yes')}}, action);
    const dialog = h('dialog', {
      'aria-labelledby': 'dialog-title',
      on: {
        close: () => {
          dialog.remove();
          resolve(dialog.returnValue === 'yes');
        }
      }
    },
      h('h2', {id: 'dialog-title'}, title), h('p', {}, text), h('div', {class: 'buttons'}, cancel, agree));
    document.body.append(dialog);
    dialog.showModal();
    cancel.focus();
  });
}

/// Say something for a few seconds; screen readers say it, too.
export function toast(text, kind = '') {
  const node = h('div', {class: 'toast', data: {kind}}, text);
  document.getElementById('toasts').append(node);
  setTimeout(() => node.remove(), kToastMs);
}

const kKeys = [
  ['/', 'Search or filter on this page'],
  ['1 … 8', 'Tabs of a run'],
  ['u', 'One level up'],
  ['t', 'Light or dark theme'],
  ['?', 'These keys'],
  ['← →', 'In a chart: move the cursor; with Shift farther'],
  ['+ −', 'In a chart: zoom at the cursor'],
  ['0', 'In a chart: whole range'],
  ['← → ↑ ↓', 'In the map of ranks: choose a rank; Enter opens it'],
];

export function show_keys() {
  if (document.querySelector('dialog')) return;
  const close = h('button', {type: 'button', class: 'button', on: {click: () => dialog.close()}}, 'Close');
  const dialog = h('dialog', {'aria-labelledby': 'dialog-title', on: {close: () => dialog.remove()}},
    h('h2', {id: 'dialog-title'}, 'Keys'),
    h('dl', {class: 'facts'}, kKeys.map(([key, text]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, text)])),
    h('div', {class: 'buttons'}, close));
  document.body.append(dialog);
  dialog.showModal();
}
