// The C interface: each function calls its C++ counterpart, and turns exceptions into codes. No
// exception passes through C.
#include <train/train.h>
#include <train/train_c.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sdk/client/c_guard.h"
#include "sdk/client/memory/language_profiler.h"
#include "sdk/client/validation.h"

struct trainrun_checkpoint {
  train::Checkpoint checkpoint;
  std::string directory, value, metadata, metrics;  // the texts that were returned
};

struct trainrun_answer {
  train::Value result;
  std::string kind, error;  // kind empty: there is a result
};

struct trainrun_memory_stacks {
  train::sdk::NamedStacks& stacks;
};

namespace {

using train::Dict;
using train::Failure;
using train::Value;
using train::sdk::given;
using train::sdk::guarded;
using train::sdk::last_error;

/// Return a number of the context; −1 on failure.
template <class Read>
int number(Read&& read) {
  int value = -1;
  guarded([&] { value = read(); });
  return value;
}

/// Store a text in `kept` (which belongs to this thread, or to a handle) and return it; NULL on
/// failure.
template <class Read>
const char* text(std::string& kept, Read&& read) {
  return guarded([&] { kept = read(); }) == TRAINRUN_OK ? kept.c_str() : nullptr;
}

/// Call a function of the program that returns 0, or writes why it has failed. Return why, or "".
template <class Call>
std::string why_it_failed(Call&& call) {
  char error[1024] = "";
  const int code = call(error, sizeof(error));
  if (code == 0) return "";
  error[sizeof(error) - 1] = '\0';
  return *error != '\0' ? error : "the function returned " + std::to_string(code);
}

Dict dict_of(const char* json, const char* name) {
  const Value value = train::parse_json(given(json, name));
  if (!value.is_dict())
    throw Failure("invalid_argument", std::string(name) + " is not a JSON object");
  return value.as<Dict>();
}

/// Return the phases that this thread has begun, the innermost last.
std::vector<std::unique_ptr<train::PhaseScope>>& phases() {
  thread_local std::vector<std::unique_ptr<train::PhaseScope>> begun;
  return begun;
}

/// Return `value` with NaN for each null of its dicts: a number that JSON has no word for comes as
/// null from JavaScript, and from trainrun_reduce.
Value with_nan(const Value& value) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  const auto* dict = std::get_if<Dict>(&value.storage());
  if (dict == nullptr) return value;
  Dict copy;
  for (const auto& [name, item] : *dict) copy.emplace(name, with_nan(item));
  return copy;
}

Dict metrics_of(const char* json) { return with_nan(dict_of(json, "metrics_json")).as<Dict>(); }

train::Reduce reduction(const char* how) {
  constexpr std::pair<const char*, train::Reduce> kNames[] = {{"mean", train::Reduce::Mean},
                                                              {"sum", train::Reduce::Sum},
                                                              {"min", train::Reduce::Min},
                                                              {"max", train::Reduce::Max}};
  for (const auto& [name, value] : kNames) {
    if (std::strcmp(given(how, "how"), name) == 0) return value;
  }
  throw Failure("invalid_argument",
                "reduce: unknown '" + std::string(how) + "' (known: mean, sum, min, max)");
}

const char* word_of(train::CheckpointStatus status) {
  switch (status) {
    case train::CheckpointStatus::Committed:
      return "committed";
    case train::CheckpointStatus::PendingValidation:
      return "pending_validation";
    case train::CheckpointStatus::Validated:
      return "validated";
    case train::CheckpointStatus::ValidationTimeout:
      return "timeout";
    case train::CheckpointStatus::ValidationFailed:
      return "failed";
  }
  return "";
}

template <class Make>
trainrun_checkpoint* made(Make&& make) {
  trainrun_checkpoint* handle = nullptr;
  guarded([&] { handle = new trainrun_checkpoint{make(), {}, {}, {}, {}}; });
  return handle;
}

void report_checkpoint(const char* metrics_json, const trainrun_checkpoint* checkpoint,
                       train::Upload upload) {
  if (checkpoint == nullptr) throw Failure("invalid_argument", "checkpoint is NULL");
  train::report(metrics_of(metrics_json), checkpoint->checkpoint, {.upload = upload});
}

}  // namespace

extern "C" {

int trainrun_start(void) {
  return guarded([] { train::get_context(); });
}

int trainrun_finish(const char* error) {
  if (error != nullptr) return trainrun_finish_error(error, nullptr, nullptr);
  return guarded([] { train::sdk::current_session().finish(); });
}
int trainrun_finish_error(const char* error, const char* type, const char* stack) {
  return guarded([&] {
    train::sdk::WorkerSession& session = train::sdk::current_session();
    session.send_error({.what = given(error, "error"),
                        .type = type == nullptr ? "" : type,
                        .stack = stack == nullptr ? "" : stack});
    session.finish();
  });
}

int trainrun_next_run(void) {
  int begun = 0;
  phases().clear();
  const int code = guarded([&] { begun = train::sdk::begin_next_run() ? 1 : 0; });
  return code == TRAINRUN_OK ? begun : -1;
}

const char* trainrun_last_error(void) { return last_error.text.c_str(); }
const char* trainrun_last_error_kind(void) { return last_error.kind.c_str(); }

int trainrun_world_size(void) {
  return number([] { return train::get_context().world_size(); });
}
int trainrun_world_rank(void) {
  return number([] { return train::get_context().world_rank(); });
}
int trainrun_local_rank(void) {
  return number([] { return train::get_context().local_rank(); });
}
int trainrun_local_world_size(void) {
  return number([] { return train::get_context().local_world_size(); });
}
int trainrun_node_rank(void) {
  return number([] { return train::get_context().node_rank(); });
}
int trainrun_node_count(void) {
  return number([] { return train::get_context().node_count(); });
}
int trainrun_attempt(void) {
  return number([] { return train::get_context().attempt(); });
}
int trainrun_supervised(void) {
  return number([] { return train::get_context().supervised() ? 1 : 0; });
}
int trainrun_start_epoch(void) {
  return number([] { return train::start_epoch(); });
}

int trainrun_restored_world_size(void) {
  return number([] { return train::restored_world_size(); });
}

const char* trainrun_role(void) {
  thread_local std::string kept;
  return text(kept, [] { return train::get_context().role(); });
}
const char* trainrun_run_name(void) {
  thread_local std::string kept;
  return text(kept, [] { return train::get_context().run_name(); });
}
const char* trainrun_run_id(void) {
  thread_local std::string kept;
  return text(kept, [] { return train::get_context().run_id(); });
}
const char* trainrun_storage_path(void) {
  thread_local std::string kept;
  return text(kept, [] { return train::get_context().storage_path(); });
}
const char* trainrun_config_json(void) {
  thread_local std::string kept;
  return text(kept, [] { return train::to_json(train::get_context().config().values()); });
}
const char* trainrun_metadata_json(void) {
  thread_local std::string kept;
  return text(kept, [] { return train::to_json(train::get_context().metadata()); });
}

int trainrun_report(const char* metrics_json) {
  return guarded([&] { train::report(metrics_of(metrics_json)); });
}
int trainrun_report_directory(const char* metrics_json, const char* directory,
                              const char* metadata_json) {
  return guarded([&] {
    train::Checkpoint checkpoint = train::Checkpoint::from_directory(given(directory, "directory"));
    if (metadata_json != nullptr) checkpoint.set_metadata(dict_of(metadata_json, "metadata_json"));
    train::report(metrics_of(metrics_json), checkpoint);
  });
}
int trainrun_report_checkpoint(const char* metrics_json, const trainrun_checkpoint* checkpoint) {
  return guarded([&] { report_checkpoint(metrics_json, checkpoint, train::Upload::Async); });
}
int trainrun_report_checkpoint_sync(const char* metrics_json,
                                    const trainrun_checkpoint* checkpoint) {
  return guarded([&] { report_checkpoint(metrics_json, checkpoint, train::Upload::Sync); });
}
int trainrun_report_checkpoint_no_upload(const char* metrics_json,
                                         const trainrun_checkpoint* checkpoint) {
  return guarded([&] { report_checkpoint(metrics_json, checkpoint, train::Upload::None); });
}

int trainrun_histogram(const char* name, const double* values, size_t count, int bins) {
  return guarded([&] {
    if (values == nullptr && count > 0) throw Failure("invalid_argument", "values is NULL");
    train::HistogramOptions options;
    if (bins != 0) options.bins = bins;
    train::histogram(given(name, "name"), std::span(values, count), options);
  });
}

int trainrun_wait_for_checkpoint(const char** out) {
  thread_local std::string kept;
  return guarded([&] {
    const auto folder = train::wait_for_checkpoint();
    if (folder) kept = folder->string();
    *out = folder ? kept.c_str() : nullptr;
  });
}
trainrun_checkpoint* trainrun_checkpoint_from_directory(const char* directory) {
  return made([&] { return train::Checkpoint::from_directory(given(directory, "directory")); });
}
trainrun_checkpoint* trainrun_checkpoint_open(const char* directory) {
  return made([&] { return train::Checkpoint::open(given(directory, "directory")); });
}
trainrun_checkpoint* trainrun_checkpoint_from_json(const char* value_json) {
  return made([&] {
    return train::Checkpoint::from_json(train::parse_json(given(value_json, "value_json")));
  });
}
int trainrun_checkpoint_set_metadata(trainrun_checkpoint* checkpoint, const char* metadata_json) {
  return guarded(
      [&] { checkpoint->checkpoint.set_metadata(dict_of(metadata_json, "metadata_json")); });
}
int trainrun_get_checkpoint(trainrun_checkpoint** out) {
  return guarded([&] {
    *out = nullptr;
    auto found = train::get_checkpoint();
    if (!found) return;
    (void)found->as_directory();  // verifies its files
    *out = new trainrun_checkpoint{std::move(*found), {}, {}, {}, {}};
  });
}
const char* trainrun_checkpoint_directory(trainrun_checkpoint* checkpoint) {
  return text(checkpoint->directory,
              [&] { return checkpoint->checkpoint.as_directory().string(); });
}
const char* trainrun_checkpoint_value_json(trainrun_checkpoint* checkpoint) {
  return text(checkpoint->value, [&] { return train::to_json(checkpoint->checkpoint.to_value()); });
}
const char* trainrun_checkpoint_metadata_json(trainrun_checkpoint* checkpoint) {
  return text(checkpoint->metadata,
              [&] { return train::to_json(checkpoint->checkpoint.metadata()); });
}
const char* trainrun_checkpoint_metrics_json(trainrun_checkpoint* checkpoint) {
  return text(checkpoint->metrics,
              [&] { return train::to_json(checkpoint->checkpoint.metrics()); });
}
void trainrun_checkpoint_free(trainrun_checkpoint* checkpoint) { delete checkpoint; }

int trainrun_validating(void) { return train::sdk::validating() ? 1 : 0; }
int trainrun_validation_result(const char* metrics_json) {
  return guarded([&] { train::sdk::write_validation_result(metrics_of(metrics_json)); });
}
int trainrun_reported_checkpoints(int validated, int64_t timeout_ms, const char** out_json) {
  thread_local std::string kept;
  return guarded([&] {
    const auto timeout =
        timeout_ms < 0 ? std::chrono::milliseconds::max() : std::chrono::milliseconds(timeout_ms);
    train::List list;
    for (const train::ReportedCheckpoint& one : train::get_all_reported_checkpoints(
             {.consistency = validated != 0 ? train::Consistency::Validated
                                            : train::Consistency::Committed,
            .timeout = timeout}))
      list.push_back(Dict{{"number", one.number},
                          {"directory", one.checkpoint.as_directory().string()},
                          {"status", word_of(one.status)},
                          {"metrics", one.metrics},
                          {"error", one.error}});
    kept = train::to_json(list);
    *out_json = kept.c_str();
  });
}

int trainrun_phase_begin(const char* name, int64_t limit_ms) {
  return guarded([&] {
    if (limit_ms < 0) throw Failure("invalid_argument", "limit_ms is negative");
    phases().push_back(std::make_unique<train::PhaseScope>(
        given(name, "name"), train::PhaseOptions{.limit = std::chrono::milliseconds(limit_ms)}));
  });
}
int trainrun_phase_say(const char* text) {
  return guarded([&] {
    if (phases().empty()) throw Failure("invalid_argument", "this thread has begun no phase");
    phases().back()->say(given(text, "text"));
  });
}
int trainrun_phase_end(void) {
  return guarded([&] {
    if (phases().empty()) throw Failure("invalid_argument", "this thread has begun no phase");
    phases().pop_back();
  });
}
int trainrun_step(void) {
  return guarded([] { train::step(); });
}

int trainrun_checkpoint_requested(void) {
  return number([] { return train::checkpoint_requested() ? 1 : 0; });
}

int trainrun_should_stop(void) {
  return number([] { return train::should_stop() ? 1 : 0; });
}
int trainrun_on_stop(trainrun_stop_function make, void* user) {
  return guarded([&] {
    if (make == nullptr) return train::on_stop({});
    train::on_stop([make, user] {
      const std::unique_ptr<trainrun_checkpoint> handle(make(user));
      if (!handle) throw Failure("unavailable", "on_stop: the function made no checkpoint");
      return std::move(handle->checkpoint);
    });
  });
}
int trainrun_serve(const char* name, int at_once, trainrun_served_function f, void* user) {
  return guarded([&] {
    if (f == nullptr) throw Failure("invalid_argument", "f is NULL");
    const auto call = [f, user](const train::Value& argument) {
      trainrun_answer answer;
      f(user, train::to_json(argument).c_str(), &answer);
      if (answer.kind == "stopped") throw train::Stopped(answer.error);
      if (!answer.kind.empty()) throw Failure(answer.kind, answer.error);
      return std::move(answer.result);
    };
    train::serve(given(name, "name"), call,
                 at_once != 0 ? train::ServeWhen::AtOnce : train::ServeWhen::AtReport);
  });
}
int trainrun_answer_result(trainrun_answer* answer, const char* result_json) {
  return guarded([&] {
    given(answer, "answer")->result = train::parse_json(given(result_json, "result_json"));
  });
}
int trainrun_answer_error(trainrun_answer* answer, const char* kind, const char* text) {
  return guarded([&] {
    given(answer, "answer")->error = given(text, "text");
    answer->kind = *given(kind, "kind") == '\0' ? "error" : kind;
  });
}
int trainrun_poll(double seconds, size_t* served) {
  return guarded([&] {
    constexpr double kSecondsMax = 365 * 24 * 3600.0;
    const double wait = seconds > 0 ? std::min(seconds, kSecondsMax) : 0;  // also of NaN
    const std::size_t count =
        train::poll(std::chrono::milliseconds(static_cast<std::int64_t>(wait * 1000)));
    if (served != nullptr) *served = count;
  });
}
int trainrun_once_per_node(const char* name, trainrun_once_function f, void* user) {
  return guarded([&] {
    if (f == nullptr) throw Failure("invalid_argument", "f is NULL");
    train::once_per_node(given(name, "name"), [&] {
      const std::string why =
          why_it_failed([&](char* error, std::size_t size) { return f(user, error, size); });
      if (!why.empty()) throw Failure("unavailable", why);
    });
  });
}
int trainrun_memory_profiler(const char* name, trainrun_memory_begin_function begin,
                             trainrun_memory_end_function end, void* user) {
  return guarded([&] {
    if (begin == nullptr) return train::sdk::offer_language_profiler({});
    if (end == nullptr) throw Failure("invalid_argument", "end is NULL");
    train::sdk::offer_language_profiler(
        {.engine = given(name, "name"),
         .begin =
             [begin, user] {
               return why_it_failed(
                   [&](char* error, std::size_t size) { return begin(user, error, size); });
             },
         .end =
             [end, user](train::sdk::NamedStacks& stacks) {
               trainrun_memory_stacks out{stacks};
               return why_it_failed(
                   [&](char* error, std::size_t size) { return end(user, &out, error, size); });
             }});
  });
}
void trainrun_memory_stack(trainrun_memory_stacks* out, const char* frames, uint64_t allocated,
                           uint64_t live, uint64_t allocations) {
  guarded([&] {
    if (out != nullptr && frames != nullptr) out->stacks.add(frames, allocated, live, allocations);
  });
}
int trainrun_set_result(const char* value_json) {
  return guarded([&] { train::set_result(train::parse_json(given(value_json, "value_json"))); });
}

int trainrun_barrier(int64_t timeout_ms) {
  using std::chrono::milliseconds;
  return guarded(
      [&] { train::barrier(timeout_ms < 0 ? milliseconds::max() : milliseconds(timeout_ms)); });
}
int trainrun_broadcast_from_rank_zero(const char* value_json, const char** out_json) {
  thread_local std::string kept;
  return guarded([&] {
    const Value mine = value_json == nullptr ? Value() : train::parse_json(value_json);
    kept = train::to_json(train::broadcast_from_rank_zero(mine));
    *out_json = kept.c_str();
  });
}
int trainrun_all_gather(const char* value_json, const char** out_json) {
  thread_local std::string kept;
  return guarded([&] {
    kept = train::to_json(train::all_gather(train::parse_json(given(value_json, "value_json"))));
    *out_json = kept.c_str();
  });
}
int trainrun_reduce(const char* metrics_json, const char* how, const char** out_json) {
  thread_local std::string kept;
  return guarded([&] {
    kept = train::to_json(train::reduce(metrics_of(metrics_json), reduction(how)));
    *out_json = kept.c_str();
  });
}

}  // extern "C"
