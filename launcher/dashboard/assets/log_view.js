// What workers or the launcher print, live: merged over ranks, searched on the server, with a bounded number of lines
// on the page. Lines are text. Colours that programs print for terminals are left out.

import {get, run_path} from './api.js';
import {choice, h, icon, replace, set_text, throttled} from './dom.js';
import {clock_time, count, exact_time, plural, seconds_of} from './format.js';

const kLines = 500;
const kKeptLines = 5000;
const kSearchMs = 250;
const kLiveMs = 500;
const kLauncherMs = 2000;  // the stream does not tell about the launcher's log
// Escape sequences of terminals: colours and cursor movements.
const kEscapes = /\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[@-Z\\-_]/g;

/// options: run, rank (fixed, or null: the user chooses), sources: offer the launcher's log, attempts, live, initial,
/// signal, fail.
export class LogView {
  constructor({run, rank = null, sources = true, attempts = 1, live, signal, fail, initial = {}}) {
    Object.assign(this, {run, live, signal, fail, fixed_rank: rank, after: null, shown: 0, following: true});
    this.selection =
      {source: initial.source ?? 'workers', rank: rank === null ? '' : String(rank), stream: '', grep: '', attempt: ''};
    this.list = h('ol', {
      class: 'log',
      tabindex: 0,
      role: 'log',
      'aria-label': 'Output',
      'aria-live': 'off',
      on: {scroll: () => this.on_scroll()}
    });
    this.note = h('span', {class: 'note', role: 'status'});
    this.problem = h('p', {class: 'log-problem', role: 'alert', hidden: true});
    this.to_end =
      h('button', {type: 'button', class: 'button small log-end', hidden: true, on: {click: () => this.follow_end()}},
        icon('down'), h('span', {}, 'Newest lines'));
    this.load_soon = throttled(() => this.load(), kSearchMs);
    this.more_soon = throttled(() => this.more(), kLiveMs);
    this.timer = setInterval(
      () => this.selection.source === 'launcher' && document.visibilityState === 'visible' && this.live && this.more(),
      kLauncherMs);
    this.element = h('div', {class: 'log-view'}, this.tools(sources, attempts), this.problem,
      h('div', {class: 'log-frame'}, this.list, this.to_end));
  }

  destroy() {
    clearInterval(this.timer);
    this.load_soon.cancel();
    this.more_soon.cancel();
  }

  tools(sources, attempts) {
    const change = (values) => {
      Object.assign(this.selection, values);
      this.load_soon();
    };
    const search = h('input', {
      type: 'search',
      class: 'field mono',
      placeholder: 'Search by regular expression',
      'aria-label': 'Search lines',
      on: {input: () => change({grep: search.value})}
    });
    const rank = h('input', {
      class: 'field short',
      placeholder: 'all',
      'aria-label': 'Ranks, such as 0-3,7',
      on: {input: () => change({rank: rank.value.replaceAll(' ', '')})}
    });
    const wrap = h('button', {
      type: 'button',
      class: 'button',
      'aria-pressed': 'true',
      on: {
        click: () => {
          const on = this.list.classList.toggle('unwrapped');
          wrap.setAttribute('aria-pressed', String(!on));
        }
      }
    },
      'Wrap');
    return h('div', {class: 'tools'}, h('span', {class: 'search'}, icon('search'), search),
      sources &&
        choice('Of', [['workers', 'Workers'], ['launcher', 'Launcher']], this.selection.source,
          (source) => change({source})),
      this.fixed_rank === null && h('label', {class: 'labelled'}, h('span', {}, 'Ranks'), rank),
      choice('Stream', [['', 'both'], ['out', 'stdout'], ['err', 'stderr']], '', (stream) => change({stream})),
      attempts > 1 &&
        choice('Attempt',
          [
            ['', 'newest'],
            ...Array.from(
              {length: attempts}, (_, index) => [String(attempts - 1 - index), String(attempts - 1 - index)])
          ],
          '', (attempt) => change({attempt})),
      wrap, this.note);
  }

  async load() {
    try {
      const answer = await get(`${run_path(this.run)}/logs`, {...this.selection, lines: kLines}, this.signal);
      this.problem.hidden = true;
      this.after = answer.after;
      this.shown = 0;
      replace(this.list,
        answer.skipped > 0 && h('li', {class: 'log-gap'}, `… ${plural(answer.skipped, 'earlier line')} left out`));
      if (answer.lines.length === 0)
        this.list.append(h('li', {class: 'empty'},
          this.selection.grep || this.selection.rank || this.selection.stream ? 'No line matches.'
                                                                              : 'Nothing has been printed yet.'));
      this.append(answer.lines);
      this.follow_end();
    } catch (error) {
      if (error.status === 400 || error instanceof SyntaxError) {
        this.problem.hidden = false;
        set_text(this.problem, `${error.message}${error.hint ? `: ${error.hint}` : ''}`);
      } else if (error.name !== 'AbortError') {
        this.fail(error);
      }
    }
  }

  /// Load what has come since. The stream only tells that there is something, so no line is lost or shown twice.
  async more() {
    if (this.after === null || this.busy) return;
    this.busy = true;
    try {
      for (let again = true; again;) {
        const {after, selection} = this;
        const answer = await get(`${run_path(this.run)}/logs`, {...selection, after, lines: kLines}, this.signal);
        if (this.after !== after) break;  // another selection was loaded meanwhile
        this.after = answer.after;
        this.append(answer.lines, answer.skipped);
        again = answer.more;
      }
    } catch (error) {
      if (error.status !== 400 && !(error instanceof SyntaxError)) this.fail(error);
    } finally {
      this.busy = false;
    }
  }

  /// Of the launcher's log, which the server does not search, the lines that match.
  matching(lines) {
    if (this.selection.source !== 'launcher' || this.selection.grep === '') return lines;
    const pattern = new RegExp(this.selection.grep);
    return lines.filter((line) => pattern.test(line.text));
  }

  append(all, skipped = 0) {
    const lines = this.matching(all);
    if (lines.length === 0 && skipped === 0) return;
    this.list.querySelector('.empty')?.remove();
    if (skipped > 0) this.list.append(h('li', {class: 'log-gap'}, `… ${plural(skipped, 'line')} left out`));
    this.list.append(...lines.map((line) => this.line(line)));
    this.shown += lines.length;
    for (let over = this.list.children.length - kKeptLines; over > 0; --over) this.list.firstChild.remove();
    set_text(this.note, `${count(Math.min(this.shown, kKeptLines))} lines`);
    if (this.following) this.list.scrollTop = this.list.scrollHeight;
  }

  line({t, rank, stream, text}) {
    const s = seconds_of(t);
    return h('li', {data: {stream}}, h('time', {title: exact_time(s)}, clock_time(s) ?? ''),
      this.fixed_rank === null &&
        h('span', {class: 'log-rank',
          title: stream === 'err' ? 'stderr'
            : stream === 'out'    ? 'stdout'
                                  : 'launcher'},
          rank === null ? '' : String(rank)),
      h('span', {class: 'log-text'}, text.replace(kEscapes, '')));
  }

  on_scroll() {
    this.following = this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < 40;
    this.to_end.hidden = this.following;
  }
  follow_end() {
    this.following = true;
    this.list.scrollTop = this.list.scrollHeight;
    this.to_end.hidden = true;
  }
}
