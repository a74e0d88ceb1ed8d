// What one may ask a live run to do, where the dashboard allows it (--allow-actions).

import {get, post, run_path} from './api.js';
import {confirmed, toast} from './dialogs.js';
import {button, h} from './dom.js';

const kPollMs = 500;
const kPollMax = 1300;  // longer than a launcher tries anything

/// Wait until a task of the run is done, and return it. It fails with the task's error.
export async function finished_task(run, task, signal) {
  let state = task;
  for (let tries = 0; state.state === 'running' && tries < kPollMax; ++tries) {
    await new Promise((resolve) => setTimeout(resolve, kPollMs));
    state = await get(`${run_path(run)}/tasks/${encodeURIComponent(task.task)}`, {}, signal);
  }
  if (state.state === 'failed') throw new Error(state.error ?? 'it failed, and nobody said why');
  if (state.state === 'running') throw new Error('no answer for ten minutes; it may still come');
  return state;
}

/// Ask the run for something and wait for it, with the button disabled meanwhile and a message at the end. What this
/// run's launcher cannot do stays disabled, and says why.
export async function ask(run, what, body, node, done) {
  node.disabled = true;
  node.setAttribute('aria-busy', 'true');
  let possible = true;
  try {
    const task = await finished_task(run, await post(`${run_path(run)}/${what}`, body));
    if (done.text) toast(done.text);
    return task;
  } catch (error) {
    possible = error.code !== 'unavailable';
    if (!possible) node.title = error.message;
    toast(`${done.failed}: ${error.message}${error.hint ? ` (${error.hint})` : ''}`, 'bad');
    return null;
  } finally {
    node.disabled = !possible;
    node.removeAttribute('aria-busy');
  }
}

async function stop(run, node) {
  const agreed = await confirmed({
    title: `Stop ${run.name}?`,
    text: 'Its workers make a checkpoint, if the program can, and leave. train-run resume takes the run up again.',
    action: 'Stop the run'
  });
  if (agreed)
    await ask(run.id, 'stop', {}, node, {text: 'The run has been asked to stop.', failed: 'The run was not stopped'});
}

async function checkpoint_now(run, node) {
  const task = await ask(run.id, 'checkpoint', {}, node, {failed: 'No checkpoint was made'});
  if (task) toast(`${task.checkpoint} is kept.`);
}

/// The buttons of a run's head; none where actions are not allowed.
export function actions_of(run) {
  if (!run.can_stop) return null;
  const stop_button = button('Stop', {icon: 'stop', kind: 'danger', on_click: () => stop(run, stop_button)});
  const checkpoint_button =
    button('Checkpoint now', {icon: 'save', on_click: () => checkpoint_now(run, checkpoint_button)});
  return h('div', {class: 'buttons'}, checkpoint_button, stop_button);
}
