#include "sdk/client/validation.h"

#include <fmt/format.h>
#include <train/validation.h>

#include <boost/json/serialize.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "lib/storage/manifest.h"
#include "lib/storage/posix_file_system.h"
#include "lib/wire/reports.h"
#include "sdk/client/checkpoint_impl.h"
#include "sdk/client/crash_report.h"
#include "sdk/client/failure.h"
#include "sdk/client/metrics_dict.h"

namespace train {
namespace {

using Validate = std::function<Dict(const Checkpoint&, const Config&)>;

/// Return the program's function, which may be set before its session exists.
Validate& registered() {
  static Validate validate;
  return validate;
}

std::string value_text(const MetricValue& value) {
  if (const auto* number = std::get_if<double>(&value);
      number != nullptr && !std::isfinite(*number))
    return std::isnan(*number) ? "NaN" : *number > 0 ? "Infinity" : "-Infinity";
  return std::visit([](const auto& plain) { return to_json(Value(plain)); }, value);
}

/// Write the error in torchelastic's format, as Python's @record does.
void leave_error(const UserError& error) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr) return;
  std::ofstream(path) << to_json(
      Dict{{"message",
            Dict{{"message", error.what}, {"extraInfo", Dict{{"py_callstack", error.stack}}}}}});
}

int failed(const UserError& error) {
  std::fprintf(stderr, "trainrun: the validation failed: %s%s%s\n", error.type.c_str(),
               error.type.empty() ? "" : ": ", error.what.c_str());
  if (!error.stack.empty())
    std::fprintf(stderr, "thrown at, innermost first:\n%s", error.stack.c_str());
  leave_error(error);
  return 1;
}

CheckpointStatus status_of(const std::string& word) {
  if (word == "validated") return CheckpointStatus::Validated;
  if (word == "failed") return CheckpointStatus::ValidationFailed;
  if (word == "timeout") return CheckpointStatus::ValidationTimeout;
  return word == "pending_validation" ? CheckpointStatus::PendingValidation
                                      : CheckpointStatus::Committed;
}

ReportedCheckpoint to_reported(const AnsweredCheckpoint& answer) {
  const auto records = sdk::value_or_throw(
      read_reports({.rank = 0, .first_report_seq = 1, .count = 1, .data = answer.metrics}, 0));
  Checkpoint::Impl impl;
  impl.directory = answer.path;
  impl.files = std::make_shared<const sdk::CheckedFiles>(answer.path);
  impl.metrics = sdk::to_dict(records.front().metrics);
  PosixFileSystem files;
  // There is no manifest if the checkpoint is being removed right now, or if this node cannot see
  // it.
  if (const auto manifest = read_manifest(files, answer.path))
    impl.metadata = parse_json(boost::json::serialize(manifest->metadata)).as<Dict>();
  const Dict metrics = impl.metrics;
  return {Checkpoint(std::make_shared<Checkpoint::Impl>(std::move(impl))), answer.number, metrics,
          status_of(answer.status), answer.error};
}

}  // namespace

void validation(Validate validate) {
  if (!validate) throw Failure("invalid_argument", "train::validation: the function is empty");
  registered() = std::move(validate);
}

std::vector<ReportedCheckpoint> get_all_reported_checkpoints(const ReportedOptions& options) {
  std::vector<ReportedCheckpoint> reported;
  const bool validated = options.consistency == Consistency::Validated;
  for (const AnsweredCheckpoint& answer :
       sdk::current_session().reported_checkpoints(validated, options.timeout))
    reported.push_back(to_reported(answer));
  return reported;
}

namespace sdk {

bool validating() { return std::getenv("TRAINRUN_VALIDATE") != nullptr; }

void write_validation_result(const Dict& metrics) {
  const char* path = std::getenv("TRAINRUN_RESULT_FILE");
  if (!validating() || path == nullptr)
    throw Failure("unavailable", "this process was not started to validate a checkpoint");
  std::string text;
  for (const auto& [name, value] : flatten(metrics))
    text +=
        fmt::format("{}{}: {}", text.empty() ? "" : ", ", to_json(Value(name)), value_text(value));
  std::ofstream file(path, std::ios::trunc);
  if (!(file << "{" << text << "}\n") || !file.flush())
    throw Failure("io", fmt::format("cannot write '{}'", path));
}

int run_validation(WorkerSession& session) {
  if (!registered())
    return failed(
        {"the program was started to validate a checkpoint, and has registered no "
         "function for that (call train::validation before train::run, or give "
         "checkpoint_config.validation a command)",
         "", ""});
  try {
    const auto checkpoint = get_checkpoint();
    if (!checkpoint) throw Failure("not_found", "TRAINRUN_CHECKPOINT_DIR is not set");
    write_validation_result(registered()(*checkpoint, session.info().config));
    return 0;
  } catch (...) {
    return failed(describe_exception(std::current_exception()));
  }
}

}  // namespace sdk
}  // namespace train
