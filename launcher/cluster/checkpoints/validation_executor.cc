#include "launcher/cluster/checkpoints/validation_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "lib/base/secrets.h"
#include "lib/net/blocking.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "lib/wire/reports.h"

namespace train {
namespace {

constexpr std::size_t kReportedBytesMax = 2u << 20;  // of a frame's 4 MiB

std::string_view status_of(const KnownCheckpoint& known,
                           const std::set<std::uint64_t>& unvalidated) {
  if (known.validation) return to_string(*known.validation);
  return unvalidated.contains(known.info.number) ? "pending_validation" : "committed";
}

/// Write the run's copy of what the process printed. Return its path, or "" if the process printed
/// nothing or the copy cannot be written.
std::string write_log(const RunFolder& folder, Attempt attempt, const ValidationEnded& message) {
  if (message.output.empty()) return "";
  const std::filesystem::path path =
      std::filesystem::path(folder.attempt(attempt)) / "validation" /
      (checkpoint_name(CheckpointNumber{message.checkpoint}) + ".log");
  std::error_code ec;
  std::filesystem::create_directories(path.parent_path(), ec);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  return file << message.output && file.flush() ? path.string() : "";
}

}  // namespace

RunValidation validation_message(const ValidationConfig& validation, const Validate& action) {
  return {.checkpoint = action.checkpoint.number,
          .dir = action.checkpoint.path,
          .command = validation.command,
          .timeout_ms = std::chrono::duration_cast<milliseconds>(validation.timeout).count(),
          .use_gpu = validation.use_gpu};
}

ReportedCheckpoints reported_message(const AskCheckpoints& ask,
                                     const std::vector<KnownCheckpoint>& known,
                                     const std::set<std::uint64_t>& unvalidated) {
  ReportedCheckpoints message{.rank = ask.rank, .request = ask.request, .checkpoints = {}};
  std::size_t bytes = 0;
  for (auto one = known.rbegin(); one != known.rend(); ++one) {
    AnsweredCheckpoint reported{.number = one->info.number,
                                .path = one->info.path,
                                .status = std::string(status_of(*one, unvalidated)),
                                .metrics = {},
                                .error = one->error};
    append_report(0, true, one->metrics, reported.metrics);
    bytes += reported.metrics.size() + reported.path.size() + reported.error.size() + 100;
    if (bytes > kReportedBytesMax) break;
    message.checkpoints.push_back(std::move(reported));
  }
  std::reverse(message.checkpoints.begin(), message.checkpoints.end());
  return message;
}

ValidationRecord validation_record(const ValidationEnded& ended, const std::string& now) {
  ValidationRecord record{
      .checkpoint = CheckpointNumber{ended.checkpoint},
      .status = parse_validation_status(ended.status).value_or(ValidationStatus::Failed),
      .metrics = {},
      .error = redacted(ended.error),
      .took_ms = ended.took_ms,
      .ended = now};
  if (record.status != ValidationStatus::Validated) return record;
  auto metrics = parse_validation_result(ended.result_json);
  if (metrics) {
    record.metrics = std::move(*metrics);
  } else {
    record.status = ValidationStatus::Failed;
    record.error = "its result is not a JSON object of metrics: " + metrics.error().message;
  }
  return record;
}

void ValidationExecutor::ended(Attempt attempt, ValidationEnded message) {
  const bool wanted = unvalidated().contains(message.checkpoint);
  if (!wanted || !writing_.insert(message.checkpoint).second) return;  // it is already known
  scope_.spawn("validation", write_down(attempt, std::move(message)));
}

asio::awaitable<void> ValidationExecutor::write_down(Attempt attempt, ValidationEnded message) {
  const ValidationRecord record = validation_record(message, format_utc(context_.clock.wall()));
  struct Written {
    Result<CheckpointManager::Validated> outcome;
    std::string log;
  };
  auto writing = run_on<Written>(context_.disk, [&, pinned = pinned()]() -> Result<Written> {
    std::string log = write_log(folder_, attempt, message);
    return Written{context_.manager.validated(record, pinned), std::move(log)};
  });
  const auto written = co_await std::move(writing);
  if (written->outcome)
    context_.observer.validated(record, *written->outcome, written->log);
  else
    messages_.warn(fmt::format("the validation of {} is lost: {}",
                               checkpoint_name(record.checkpoint),
                               written->outcome.error().describe()));
  writing_.erase(message.checkpoint);
  context_.events.feed(ValidationFinished{message.checkpoint, written->outcome
                                                                  ? written->outcome->removed
                                                                  : std::vector<std::uint64_t>{}});
  look_again();
}

void ValidationExecutor::asked(NodeId node, Attempt attempt, const AskCheckpoints& ask) {
  waiting_.push_back(
      {node, attempt, ask, ask.validated ? unvalidated() : std::set<std::uint64_t>()});
  look_again();
}

void ValidationExecutor::look_again() {
  const std::set<std::uint64_t> open = unvalidated();
  std::vector<Waiting> still;
  for (Waiting& one : waiting_) {
    const bool waits = std::any_of(one.until.begin(), one.until.end(),
                                   [&](std::uint64_t number) { return open.contains(number); });
    if (waits)
      still.push_back(std::move(one));
    else
      scope_.spawn("reported checkpoints", answer(std::move(one)));
  }
  waiting_ = std::move(still);
}

asio::awaitable<void> ValidationExecutor::answer(Waiting to) {
  auto looking = run_on<std::vector<KnownCheckpoint>>(
      context_.disk,
      [this]() -> Result<std::vector<KnownCheckpoint>> { return context_.manager.known(); });
  const auto known = co_await std::move(looking);
  links_.send(to.node, encode(reported_message(to.ask, *known, unvalidated()), to.attempt));
}

std::set<std::uint64_t> ValidationExecutor::unvalidated() const {
  const std::vector<std::uint64_t> numbers = controller_.unvalidated();
  return {numbers.begin(), numbers.end()};
}

CheckpointManager::Pinned ValidationExecutor::pinned() const {
  CheckpointManager::Pinned pinned;
  for (const std::uint64_t number : controller_.unvalidated())
    if (!writing_.contains(number)) pinned.insert(CheckpointNumber{number});
  return pinned;
}

}  // namespace train
