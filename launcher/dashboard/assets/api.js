// Calls of the JSON API (openapi.yaml), and the server's clock.

/// Why a call failed, in the words of the server.
export class Problem extends Error {
  constructor(status, code, message, hint) {
    super(message);
    Object.assign(this, {status, code, hint});
  }
}

let clock_offset_s = 0;  // the server's clock less ours
export const server_now = () => Date.now() / 1000 + clock_offset_s;

function keep_clock(answer) {
  const now = Date.parse(answer?.now ?? '');
  if (!Number.isNaN(now)) clock_offset_s = (now - Date.now()) / 1000;
}

async function call(path, options) {
  let response;
  try {
    response = await fetch(`api/v1${path}`, {credentials: 'same-origin', cache: 'no-store', ...options});
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0, 'unreachable', 'the dashboard does not answer',
      'train-run dashboard may have ended: start it again, and open the link that it prints');
  }
  if (response.ok) return response;
  let said = null;
  try {
    said = (await response.json()).error;
  } catch {
    // no JSON: the status has to do
  }
  throw new Problem(response.status, said?.code ?? 'http',
    said?.message ?? `the dashboard answered ${response.status} ${response.statusText}`, said?.hint ?? null);
}

/// A query from an object: lists repeat their key; null, undefined and '' are left out.
export function query(values) {
  const parts = [];
  for (const [key, value] of Object.entries(values))
    for (const one of Array.isArray(value) ? value : [value])
      if (one !== null && one !== undefined && one !== '')
        parts.push(`${encodeURIComponent(key)}=${encodeURIComponent(one)}`);
  return parts.length ? `?${parts.join('&')}` : '';
}

/// GET a JSON answer. Throws Problem; AbortError if `signal` aborts.
export async function get(path, values = {}, signal = undefined) {
  const answer = await (await call(path + query(values), {signal})).json();
  keep_clock(answer);
  return answer;
}

export const get_file = async (path, signal) => call(path, {signal});

/// POST, and return the Task of the answer.
export async function post(path, body = {}) {
  return (await call(path, {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(body)}))
    .json();
}

export const run_path = (run) => `/runs/${encodeURIComponent(run)}`;
export const file_path = (run, id) => `${run_path(run)}/files/${id.split('/').map(encodeURIComponent).join('/')}`;
export const file_href = (run, id) => `api/v1${file_path(run, id)}`;
