// The attempts of a run as a line of time and as a list: which ranks on which nodes, how long, why each ended, what it
// cost.

import {server_now} from './api.js';
import {h, icon} from './dom.js';
import {count, duration, exact_time, plural, seconds_of, time} from './format.js';
import {card, elapsed, goodput_line} from './parts.js';

const kLeastShare = 0.004;
const kListed = 20;

function kind_of(attempt, run) {
  if (attempt.ended === null) return run.live ? ['running', 'play', 'runs'] : ['odd', 'bang', 'no end recorded'];
  if (attempt.failed) return ['bad', 'cross', 'failed'];
  return run.state === 'stopped' ? ['quiet', 'stop', 'ended'] : ['good', 'check', 'ended'];
}

function timeline(attempts, run) {
  const begin = seconds_of(attempts[0].began) ?? seconds_of(run.began);
  const end = Math.max(
    begin + 1e-3, seconds_of(run.ended) ?? (run.live ? server_now() : seconds_of(attempts.at(-1).ended) ?? begin));
  const share = (s) => Math.min(1, Math.max(0, (s - begin) / (end - begin)));
  const bars = attempts.filter((attempt) => attempt.began).map((attempt) => {
    const [kind, name, word] = kind_of(attempt, run);
    const from = share(seconds_of(attempt.began));
    const to = share(seconds_of(attempt.ended) ?? end);
    return h('i', {
      class: 'timeline-bar',
      data: {kind},
      css: {left: `${from * 100}%`, width: `${Math.max(kLeastShare, to - from) * 100}%`},
      title: `attempt ${attempt.attempt} ${word}, ${duration(attempt.duration_s) ?? 'until now'}${
        attempt.cause ? `: ${attempt.cause}` : ''}`
    },
      icon(name), h('span', {}, String(attempt.attempt)));
  });
  return h('div', {class: 'timeline', 'aria-hidden': 'true'}, h('div', {class: 'timeline-track'}, bars),
    h('div', {class: 'timeline-axis'}, h('span', {title: exact_time(begin)}, time(begin)),
      h('span', {}, duration(end - begin)), h('span', {title: exact_time(end)}, run.live ? 'now' : time(end))));
}

function item(attempt, run) {
  const [kind, name, word] = kind_of(attempt, run);
  const began = seconds_of(attempt.began);
  const nodes = attempt.nodes.map((node) => `${node.name} (${node.workers})`).join(', ');
  const details = [
    plural(attempt.world_size, 'worker'),
    attempt.nodes.length > 0 &&
      h('span', {title: nodes},
        `on ${
          attempt.nodes.length <= 3 ? attempt.nodes.map((node) => node.name).join(', ')
                                    : plural(attempt.nodes.length, 'node')}`),
    attempt.restored && `from ${attempt.restored}`,
    attempt.checkpoints > 0 && plural(attempt.checkpoints, 'checkpoint'),
    attempt.failed && attempt.redone_reports > 0 && `${plural(attempt.redone_reports, 'report')} to redo`,
    attempt.lost_s > 0 && `${duration(attempt.lost_s)} lost`,
  ].filter(Boolean);
  return h('li', {}, h('span', {class: 'attempt-number', data: {kind}}, icon(name), `${attempt.attempt}`),
    h('div', {},
      h('p', {},
        h('b', {},
          attempt.ended === null && run.live && began !== null
            ? ['running for ', elapsed(began)]
            : `${word} after ${duration(attempt.duration_s) ?? 'an unknown time'}`),
        attempt.cause && h('span', {class: 'attempt-cause'}, attempt.cause)),
      h('p', {class: 'note'}, details.flatMap((detail, index) => (index ? [' · ', detail] : [detail]))),
      goodput_line(attempt.goodput)),
    h('time', {class: 'note', title: exact_time(began)}, began === null ? '' : time(began)));
}

export function attempts_card(attempts, run) {
  if (attempts.length === 0)
    return card('Attempts', {},
      h('div', {class: 'empty'}, h('p', {class: 'strong'}, 'No attempt has begun.'),
        h('p', {}, run.cause ?? 'The run waits for its nodes.')));
  const newest = attempts.toReversed();
  const rest = newest.slice(kListed);
  return card('Attempts', {note: plural(attempts.length, 'attempt')},
    h('div', {class: 'card-body'}, timeline(attempts, run),
      h('ol', {class: 'attempts'}, newest.slice(0, kListed).map((attempt) => item(attempt, run))),
      rest.length > 0 &&
        h('details', {}, h('summary', {}, `${count(rest.length)} earlier ones`),
          h('ol', {class: 'attempts'}, rest.map((attempt) => item(attempt, run))))));
}
