// One EventSource for the page that is shown. It is closed while the tab is hidden (a browser has six connections to a
// host), and the bar at the top always says whether what one sees is live.

import {query, server_now} from './api.js';
import {set_text} from './dom.js';
import {clock_time} from './format.js';

const kRetryFirstMs = 1000;
const kRetryMaxMs = 15000;

let current = null;

function say(link, text) {
  const node = document.getElementById('link-state');
  node.dataset.link = link;
  set_text(node, text);
}

class Live {
  constructor(parameters, handlers, reload) {
    Object.assign(this, {
      parameters,
      handlers,
      reload,
      source: null,
      timer: null,
      retry_ms: kRetryFirstMs,
      seen_s: server_now(),
      missed: false
    });
  }
  open() {
    this.source = new EventSource(`api/v1/stream${query(this.parameters)}`);
    this.source.onopen = () => {
      this.retry_ms = kRetryFirstMs;
      this.seen_s = server_now();
      say('live', 'Live');
      if (this.missed) this.reload();
      this.missed = false;
    };
    this.source.onerror = () => this.lost();
    for (const [topic, handler] of Object.entries(this.handlers))
      this.source.addEventListener(topic, (event) => {
        this.seen_s = server_now();
        handler(JSON.parse(event.data));
      });
    this.source.addEventListener('reset', () => this.reload());
  }
  lost() {
    this.close();
    this.missed = true;
    say('lost', `As of ${clock_time(this.seen_s)}: the dashboard does not answer`);
    this.timer = setTimeout(() => this.open(), this.retry_ms);
    this.retry_ms = Math.min(2 * this.retry_ms, kRetryMaxMs);
  }
  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }
  hide() {
    this.close();
    this.missed = true;
    say('paused', `Paused: as of ${clock_time(server_now())}`);
  }
}

/// Follow the topics of `handlers` until the next page is shown. `reload` is called when something was missed.
export function follow(parameters, handlers, reload) {
  stop_following();
  current = new Live(parameters, handlers, reload);
  if (document.visibilityState === 'hidden')
    current.hide();
  else
    current.open();
}

export function stop_following() {
  current?.close();
  current = null;
  say('', '');
}

document.addEventListener('visibilitychange', () => {
  if (!current) return;
  if (document.visibilityState === 'hidden')
    current.hide();
  else
    current.open();
});
addEventListener('pagehide', () => current?.close());
