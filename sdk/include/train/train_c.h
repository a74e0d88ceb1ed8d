/* trainrun for other languages: the SDK of <train/train.h> behind C functions. Dicts and values are
 * JSON texts (UTF-8).
 *
 * Any thread may call any function. Unless a comment says otherwise, functions that return int
 * return 0 or a TRAINRUN_… code; trainrun_last_error() is the text of the calling thread's last
 * failure. Returned strings stay valid until the same thread calls the same function again. The
 * child of a fork must not call any function. Link with libtrainrun.so, or in C++ programs with the
 * static library. */
#ifndef TRAIN_TRAIN_C_H_
#define TRAIN_TRAIN_C_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  TRAINRUN_OK = 0,
  /* trainrun_last_error() says why, trainrun_last_error_kind() returns its stable name */
  TRAINRUN_FAILED = 1,
  /* the run is being stopped gracefully: leave the loop, then call trainrun_finish(NULL) */
  TRAINRUN_STOPPED = 2,
};

/* A checkpoint that is about to be reported, or was restored. */
typedef struct trainrun_checkpoint trainrun_checkpoint;

/* Connect to the supervisor, or become a world of one. Optional: the first call of another function
 * does this, too. */
int trainrun_start(void);
/* Hand over everything that was reported (up to 30 s), and end the session. `error`: NULL, or a
 * text that says what went wrong, which becomes this rank's cause. The program then exits with a
 * code of its own, which must not be 0 after an error. At exit(), the SDK calls this for programs
 * that have not. */
int trainrun_finish(const char* error);
/* Do the same after an error that has a type ("ValueError") and a stack, which is kept with the
 * cause; either may be NULL. `error` is not. */
int trainrun_finish_error(const char* error, const char* type, const char* stack);

/* End this process's run, as trainrun_finish(NULL) does, and become a worker of the next one, if
 * the run keeps its workers (docs/driver.md, "Several runs by the same workers"): wait until there
 * is one. Return 1: all facts about this worker, its run and its configuration are those of the
 * next run. Return 0: there is none, the program ends. −1 on failure. Call this on the loop's
 * thread. */
int trainrun_next_run(void);

const char* trainrun_last_error(void);
const char* trainrun_last_error_kind(void);

/* Return a fact about this worker; −1 on failure: see trainrun_last_error. */
int trainrun_world_size(void);
int trainrun_world_rank(void);
int trainrun_local_rank(void);
int trainrun_local_world_size(void);
int trainrun_node_rank(void);
int trainrun_node_count(void);
int trainrun_attempt(void);
int trainrun_supervised(void); /* 1 or 0 */
int trainrun_start_epoch(void);
int trainrun_restored_world_size(void); /* of the checkpoint to start from; 0: no checkpoint */
/* Return a text about this worker; NULL on failure: see trainrun_last_error. */
const char* trainrun_role(void); /* ROLE_NAME: of whose workers the ranks above are */
const char* trainrun_run_name(void);
const char* trainrun_run_id(void);
const char* trainrun_storage_path(void);
const char* trainrun_config_json(void); /* train_loop_config */
const char* trainrun_metadata_json(void);

/* Report metrics, a JSON dict. NaN, Infinity and -Infinity, which Python writes, are numbers; null
 * is NaN. With a directory, also report a checkpoint: the directory's files are copied before the
 * call returns; `metadata_json` may be NULL. */
int trainrun_report(const char* metrics_json);
int trainrun_report_directory(const char* metrics_json, const char* directory,
                              const char* metadata_json);
/* Report metrics with a checkpoint made by trainrun_checkpoint_from_json or _from_directory. The
 * checkpoint may be freed afterwards. */
int trainrun_report_checkpoint(const char* metrics_json, const trainrun_checkpoint* checkpoint);
/* Do the same, but return once the checkpoint is committed or given up (the run reports why). */
int trainrun_report_checkpoint_sync(const char* metrics_json,
                                    const trainrun_checkpoint* checkpoint);
/* Report metrics with a checkpoint whose directory is already in the run's storage: it is moved,
 * and nothing is copied (Upload::None in <train/report.h>). The directory is gone from its place
 * afterwards. */
int trainrun_report_checkpoint_no_upload(const char* metrics_json,
                                         const trainrun_checkpoint* checkpoint);

/* Count `count` values into a histogram that TensorBoard shows, with the next report
 * (<train/histogram.h>). bins 0: 30. */
int trainrun_histogram(const char* name, const double* values, size_t count, int bins);

/* Wait until every checkpoint that this rank has reported is committed or given up. Set *out to the
 * folder of the newest one, or to NULL when that one was given up or none was reported. */
int trainrun_wait_for_checkpoint(const char** out);

/* Make a checkpoint of a directory's files, or of a JSON value. Return NULL on failure: see
 * trainrun_last_error. Free it with trainrun_checkpoint_free. */
trainrun_checkpoint* trainrun_checkpoint_from_directory(const char* directory);
trainrun_checkpoint* trainrun_checkpoint_from_json(const char* value_json);
/* Open a committed checkpoint of any run: `directory` is one of its checkpoint_... folders. Needs
 * no run: any program may call it. Return NULL on failure ("corrupt": it is incomplete). */
trainrun_checkpoint* trainrun_checkpoint_open(const char* directory);
int trainrun_checkpoint_set_metadata(trainrun_checkpoint* checkpoint, const char* metadata_json);
/* Set *out to the checkpoint to resume from, after verifying all of its files, or to NULL when
 * there is none. Free it with trainrun_checkpoint_free. */
int trainrun_get_checkpoint(trainrun_checkpoint** out);
/* Return a text of a restored checkpoint; NULL on failure: see trainrun_last_error. The text is
 * valid until the checkpoint is freed, or until the same function is called for it again. */
const char* trainrun_checkpoint_directory(trainrun_checkpoint* checkpoint);
const char* trainrun_checkpoint_value_json(trainrun_checkpoint* checkpoint);
const char* trainrun_checkpoint_metadata_json(trainrun_checkpoint* checkpoint);
const char* trainrun_checkpoint_metrics_json(trainrun_checkpoint* checkpoint);
void trainrun_checkpoint_free(trainrun_checkpoint* checkpoint);

/* With checkpoint_config.validation, the supervisor may start the program once more for a committed
 * checkpoint, beside the workers. There, trainrun_validating() returns 1 and
 * trainrun_get_checkpoint() gets that checkpoint. The program passes the resulting metrics (a JSON
 * dict) to trainrun_validation_result, and exits with 0. */
int trainrun_validating(void); /* 1 or 0 */
int trainrun_validation_result(const char* metrics_json);
/* List the checkpoints of the run that are kept, oldest first, as a JSON list of {"number",
 * "directory", "status", "metrics", "error"}; status: committed, pending_validation, validated,
 * timeout or failed. `validated`: 1 waits until no committed checkpoint is pending validation, 0
 * does not. timeout_ms < 0: no timeout. */
int trainrun_reported_checkpoints(int validated, int64_t timeout_ms, const char** out_json);

/* Return 1 once the run is being stopped, else 0; −1 on failure. */
int trainrun_should_stop(void);
/* 1 where all ranks are to report a checkpoint, because somebody asked for one; 0; −1 on failure.
 */
int trainrun_checkpoint_requested(void);
/* Set the function that saves the last step. When the run stops gracefully at a report that
 * carried no checkpoint, the reporting thread calls `make` and keeps the checkpoint that it returns
 * (from any function above); the SDK frees it. When `make` returns NULL, there is no checkpoint,
 * and that report fails. A later call replaces the function; make = NULL removes it. */
typedef trainrun_checkpoint* (*trainrun_stop_function)(void* user);
int trainrun_on_stop(trainrun_stop_function make, void* user);
int trainrun_set_result(const char* value_json);

/* Let this rank's function be called by `train-run exec` and by drivers (train::serve in
 * <train/serve.h>): in trainrun_report() or trainrun_poll(), or with at_once = 1 on a thread of the
 * SDK. `f` gets the argument, a JSON value, and answers with one of the two calls below, before it
 * returns; without one the answer is null. Of an error, kind "stopped" also ends the loop: the
 * call in which `f` ran returns TRAINRUN_STOPPED. */
typedef struct trainrun_answer trainrun_answer;
typedef void (*trainrun_served_function)(void* user, const char* argument_json,
                                         trainrun_answer* answer);
int trainrun_serve(const char* name, int at_once, trainrun_served_function f, void* user);
int trainrun_answer_result(trainrun_answer* answer, const char* result_json);
int trainrun_answer_error(trainrun_answer* answer, const char* kind, const char* text);
/* Run the calls that have come; if there are none, wait for one, at most so many seconds. Sets
 * *served to how many were run. */
int trainrun_poll(double seconds, size_t* served);

/* Run `f` on one rank of each node while that node's other ranks wait; later calls with the same
 * name return at once. `f` returns 0; or, on failure, it writes the reason into `error` (a text of
 * at most error_size bytes, including the NUL at its end) and returns another number, and then the
 * call fails on all ranks of the node. */
typedef int (*trainrun_once_function)(void* user, char* error, size_t error_size);
int trainrun_once_per_node(const char* name, trainrun_once_function f, void* user);

/* Offer a profiler of memory that knows the functions of the program's language; `train-run profile
 * --kind memory` then uses it in place of the SDK's own, which knows native code only. The Python
 * package offers memray so. `begin` and `end` are called on one thread of the SDK, `end` up to 60 s
 * after `begin`; it tells what was seen by trainrun_memory_stack(). They return 0, or write the
 * reason as trainrun_once_function does. If `begin` fails, the SDK's own profiler is used, and the
 * profile has the reason as a note. begin = NULL withdraws it: the call waits until neither is at
 * work, so do not make it from one of them. */
typedef struct trainrun_memory_stacks trainrun_memory_stacks;
typedef int (*trainrun_memory_begin_function)(void* user, char* error, size_t error_size);
typedef int (*trainrun_memory_end_function)(void* user, trainrun_memory_stacks* out, char* error,
                                            size_t error_size);
int trainrun_memory_profiler(const char* name, trainrun_memory_begin_function begin,
                             trainrun_memory_end_function end, void* user);
/* Tell of one stack: the names of its frames, the innermost first, each on a line (at most 128 are
 * kept, and 512 bytes of each); how many bytes it has allocated, how many of them are not freed,
 * and in how many allocations. Call it in `end` only. */
void trainrun_memory_stack(trainrun_memory_stacks* out, const char* frames, uint64_t allocated,
                           uint64_t live, uint64_t allocations);

/* What the loop is doing (<train/progress.h>): the SDK marks batches, steps, reports, checkpoints
 * and collectives by itself. Only the first thread that marks anything marks phases. Phases may lie
 * within each other; each begin needs an end. limit_ms 0: the limits of the spec apply. */
int trainrun_phase_begin(const char* name, int64_t limit_ms);
int trainrun_phase_say(const char* text);
int trainrun_phase_end(void);
int trainrun_step(void); /* a step has ended */

/* Collectives: all ranks make the same calls in the same order. timeout_ms < 0: no timeout. */
int trainrun_barrier(int64_t timeout_ms);
/* Give rank 0's JSON value to every rank; ranks other than 0 may pass NULL. */
int trainrun_broadcast_from_rank_zero(const char* value_json, const char** out_json);
/* Give every rank's JSON value to every rank: a list, by rank. */
int trainrun_all_gather(const char* value_json, const char** out_json);
/* how: "mean", "sum", "min" or "max". */
int trainrun_reduce(const char* metrics_json, const char* how, const char** out_json);

#ifdef __cplusplus
}
#endif

#endif /* TRAIN_TRAIN_C_H_ */
