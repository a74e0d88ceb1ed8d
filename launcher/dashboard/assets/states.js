// States of runs, ranks and nodes: an icon, a word and a colour each; the colour alone never tells.

import {h, icon} from './dom.js';

//                     kind       icon         word
const kStates = {
  attaching: ['warn', 'hourglass', 'attaching'],
  scheduling: ['warn', 'hourglass', 'scheduling'],
  preparing: ['warn', 'dots', 'preparing'],
  starting: ['warn', 'dots', 'starting'],
  running: ['running', 'play', 'running'],
  pausing: ['warn', 'pause', 'pausing'],
  tearing_down: ['warn', 'dots', 'stopping workers'],
  finished: ['good', 'check', 'finished'],
  errored: ['bad', 'cross', 'failed'],
  stopped: ['quiet', 'stop', 'stopped'],
  interrupted: ['odd', 'bang', 'interrupted'],
  unknown: ['quiet', 'question', 'unknown'],
  // ranks
  slow: ['warn', 'bang', 'slow'],
  waiting: ['quiet', 'hourglass', 'waiting'],
  suspect: ['odd', 'question', 'suspect'],
  hung: ['bad', 'bang', 'hung'],
  ended: ['good', 'check', 'ended'],
  failed: ['bad', 'cross', 'failed'],
  // trials
  invalid: ['warn', 'bang', 'invalid'],
  // nodes
  up: ['good', 'check', 'up'],
  lost: ['bad', 'cross', 'lost'],
  drained: ['quiet', 'stop', 'drained'],
  quarantined: ['warn', 'bang', 'quarantined'],
  stuck: ['bad', 'bang', 'stuck'],
  // checkpoints
  validated: ['good', 'check', 'validated'],
  timeout: ['warn', 'hourglass', 'timed out'],
};
const of = (state) => kStates[state] ?? ['quiet', 'question', String(state)];

export const state_word = (state) => of(state)[2];
export const state_kind = (state) => of(state)[0];

/// Why a state with this name means what it means, as a tooltip.
const kMeaning = {
  interrupted: 'nobody controls the run, and it has not ended: train-run resume takes it up again',
  unknown: 'nothing in the folder says',
  invalid: 'its parameters make no sense: the program, or the spec, says so',
  scheduling: 'it waits for room on its nodes',
  waiting: 'in a collective call that another rank has not entered',
  suspect: 'half of its limit without a sign of life has passed',
  quarantined: 'three attempts failed there: it is used only if there is no room elsewhere',
  drained: 'its traind takes no new workers',
  lost: 'it does not answer',
  stuck: 'a worker there cannot be killed: the node is left out until that worker ends',
};

export function state_badge(state) {
  const [kind, name, word] = of(state);
  return h('span', {class: 'state', title: kMeaning[state], data: {kind, state}}, icon(name), word);
}

/// The state without a badge around it, for dense tables.
export function state_mark(state) {
  const [kind, name, word] = of(state);
  return h('span', {class: 'state-mark', title: kMeaning[state], data: {kind, state}}, icon(name), word);
}
