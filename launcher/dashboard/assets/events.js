// A record of the journal in words.

import {h, icon} from './dom.js';
import {exact_time, seconds_of, time} from './format.js';
import {state_word} from './states.js';

const kBad = /fail|lost|error|hung|killed|given_up|quarantin/;
const kOdd = /suspect|straggler|warn|reject/;
const kGood = /checkpoint|committed|finished|cleared|validated/;
const kHidden = new Set(
  ['seq', 't', 'generation', 'event', 'crc', 'state', 'reason', 'text', 'attempt', 'trigger', 'worker_seconds']);

function kind_of(event) {
  const name = `${event.event} ${event.state ?? ''} ${event.trigger ?? ''}`;
  if (event.state === 'errored' || kBad.test(name)) return ['bad', 'cross'];
  if (kOdd.test(name)) return ['odd', 'bang'];
  if (kGood.test(name)) return ['good', 'check'];
  return ['quiet', 'dots'];
}

const words = (name) => name.replaceAll('_', ' ');
function value_text(value) {
  if (typeof value !== 'object') return String(value);
  return value.number > 0 && value.path ? `checkpoint ${value.number}` : JSON.stringify(value);
}

/// An <li> with time, what happened, and the members of the record.
export function describe_event(event) {
  const [kind, name] = kind_of(event);
  const s = seconds_of(event.t);
  const title = event.event === 'node_state' ? `node ${event.node}: ${state_word(event.state)}`
    : event.event === 'state' ? `${state_word(event.state)}${event.trigger ? ` (${words(event.trigger)})` : ''}`
                                                                           : words(event.event);
  const said = event.reason || event.text || event.message;
  const members =
    Object.entries(event).filter(([key, value]) => !kHidden.has(key) && value !== null && value !== '').map(([
      key, value
    ]) => `${words(key)} ${value_text(value)}`);
  const attempt = event.attempt === undefined || event.attempt === null ? [] : [`attempt ${event.attempt}`];
  return h('li', {data: {kind}}, h('time', {class: 'note', datetime: event.t, title: exact_time(s)}, time(s)),
    h('span', {class: 'event-icon', data: {kind}}, icon(name)),
    h('div', {}, h('p', {}, h('b', {}, title), said && h('span', {}, ` ${said}`)),
      (members.length > 0 || attempt.length > 0) &&
        h('p', {class: 'note break event-details'}, [...attempt, ...members].join(' · '))));
}
