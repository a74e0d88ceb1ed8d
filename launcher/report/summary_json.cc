#include <fmt/format.h>

#include "launcher/report/goodput_text.h"
#include "launcher/report/summary.h"
#include "lib/base/json_text.h"

namespace train {
namespace {

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::Succeeded:
      return "succeeded";
    case Outcome::Failed:
      return "failed";
    case Outcome::Interrupted:
      return "interrupted";
    case Outcome::Preempted:
      return "preempted";
    case Outcome::Refused:
      return "refused";
    case Outcome::Replaced:
      return "replaced";
  }
  return "";
}

std::string_view to_string(EndKind kind) {
  switch (kind) {
    case EndKind::Exited:
      return "exited";
    case EndKind::Killed:
      return "killed";
    case EndKind::Lost:
      return "lost";
    case EndKind::StartFailed:
      return "start_failed";
    case EndKind::Hung:
      return "hung";
  }
  return "";
}

std::chrono::system_clock::time_point wall_of(std::int64_t wall_us) {
  return std::chrono::system_clock::time_point(std::chrono::microseconds(wall_us));
}

double seconds_of(Duration duration) { return std::chrono::duration<double>(duration).count(); }

/// Put "exit_code" and "signal". At most one of them has a value.
void put_status(JsonWriter& json, const WorkerFailure* worker) {
  json.key("exit_code");
  if (worker != nullptr && worker->kind == EndKind::Exited)
    json.value(worker->end.status);
  else
    json.null();
  const bool killed = worker != nullptr && worker->kind == EndKind::Killed;
  json.text_or_null("signal", killed ? signal_name(worker->end.status) : "");
}

void put_error(JsonWriter& json, const WorkerFailure& failure) {
  json.key("error");
  if (failure.thrown().empty()) {
    json.null();
    return;
  }
  const UserError& error = *failure.end.error;
  json.object().member("type", error.type).member("what", error.what);
  json.member("stack", error.stack).end();
}

void put_lines(JsonWriter& json, const std::vector<std::string>& lines) {
  json.key("last_lines").array();
  for (const std::string& line : lines) json.value(line);
  json.end();
}

void put_checkpoint(JsonWriter& json, std::string_view key,
                    const std::optional<CheckpointSummary>& checkpoint) {
  json.key(key);
  if (!checkpoint) {
    json.null();
    return;
  }
  json.object().member("name", checkpoint->name).member("path", checkpoint->path);
  json.text_or_null("score_metric", checkpoint->score_metric).key("score");
  (checkpoint->score ? json.value(*checkpoint->score) : json.null()).end();
}

std::string cause_of(const RunSummary& summary) {
  if (summary.root) return summary.root->text.cause;
  return summary.error ? summary.error->message : summary.reason;
}

void put_exit(JsonWriter& json, const RunSummary& summary) {
  const RootCause* root = summary.root ? &*summary.root : nullptr;
  const WorkerFailure* worker = root != nullptr && root->worker ? &*root->worker : nullptr;
  json.member("code", exit_code_of(summary))
      .member("outcome", to_string(summary.outcome))
      .member("run", summary.run);
  json.text_or_null("cause", cause_of(summary))
      .text_or_null("how_known", root != nullptr ? root->text.how_known : "");
  json.text_or_null("error", summary.error       ? std::string(to_string(summary.error->code))
                             : worker != nullptr ? worker->thrown()
                                                 : "");
  json.key("root_rank");
  if (worker != nullptr)
    json.value(worker->rank);
  else
    json.null();
  json.text_or_null("node", root != nullptr ? root->node : "");
  put_status(json, worker);
  json.member("collateral", root != nullptr ? root->collateral : 0).key("attempt");
  if (summary.attempts.empty())
    json.null();
  else
    json.value(summary.attempts.back().attempt);
  json.text_or_null("checkpoint", summary.latest ? summary.latest->path : "");
  json.text_or_null("best_checkpoint", summary.best ? summary.best->path : "").key("lost_steps");
  if (summary.lost_steps)
    json.value(*summary.lost_steps);
  else
    json.null();
  json.member("metrics", summary.metrics).key("result");
  if (!summary.results.empty() && !summary.results.front().empty())
    json.raw(summary.results.front());
  else
    json.null();
  json.member("duration_s", seconds_of(summary.duration))
      .member("ended", format_utc(summary.ended));
}

constexpr auto kIndented = JsonWriter::Layout::Indented;

}  // namespace

std::string exit_json(const RunSummary& summary) {
  JsonWriter json(kIndented);
  json.object();
  put_exit(json, summary);
  return std::move(json.end()).take();
}

std::string end_event(const RunSummary& summary) {
  JsonWriter json;
  json.object().member("event", "end").member("time", format_utc(summary.ended));
  put_exit(json, summary);
  if (summary.workers_stay) json.member("workers_stay", true);
  return std::move(json.end()).take() + "\n";
}

std::string refusal_event(int code, const Error& error) {
  JsonWriter json;
  json.object().member("event", "end").member("code", code).member("cause", error.message);
  return std::move(json.end()).take();
}

std::string workers_not_used_event(const Error& why) {
  JsonWriter json;
  json.object().member("event", "workers_not_used").member("cause", why.describe());
  return std::move(json.end()).take();
}

std::string exception_event(const ExceptionNews& news, std::chrono::system_clock::time_point at) {
  constexpr std::size_t kWhatBytesMax = 8u << 10, kStackBytesMax = 32u << 10;
  JsonWriter json;
  json.object().member("event", "exception").member("time", format_utc(at));
  json.member("attempt", news.attempt).member("cause", news.cause).key("ranks").array();
  std::size_t bytes = 0, shown = 0;
  for (const WorkerFailure& failure : news.ranks) {
    WorkerFailure cut = failure;
    if (cut.end.error) {
      cut.end.error->what.resize(std::min(cut.end.error->what.size(), kWhatBytesMax));
      cut.end.error->stack.resize(std::min(cut.end.error->stack.size(), kStackBytesMax));
    }
    JsonWriter rank;
    rank.object().member("rank", failure.rank).text_or_null("node", failure.node);
    rank.member("kind", to_string(failure.kind)).member("cause", failure_text(failure).cause);
    put_status(rank, &failure);
    put_error(rank, cut);
    const std::string text = std::move(rank.end()).take();
    bytes += text.size();
    if (bytes > kExceptionBytesMax) break;
    json.raw(text);
    ++shown;
  }
  json.end().member("omitted", news.ranks.size() - shown);
  return std::move(json.end()).take() + "\n";
}

std::string run_json(const RunSummary& summary) {
  JsonWriter json(kIndented);
  json.object()
      .member("run", summary.run)
      .member("path", summary.path)
      .member("outcome", to_string(summary.outcome));
  json.member("code", exit_code_of(summary)).text_or_null("cause", cause_of(summary));
  json.member("world_size", summary.world_size).member("nnodes", summary.nnodes);
  json.member("begun", format_utc(summary.begun)).member("ended", format_utc(summary.ended));
  json.member("duration_s", seconds_of(summary.duration)).member("metrics", summary.metrics);
  put_checkpoint(json, "best_checkpoint", summary.best);
  put_checkpoint(json, "latest_checkpoint", summary.latest);
  put_goodput(json, summary.time);
  put_data_bound(json, summary.data);
  json.key("ingest").array();
  for (const IngestSummary& ingest : summary.ingest)
    json.object()
        .member("dataset", ingest.dataset)
        .member("workers", ingest.workers)
        .member("deaths", ingest.deaths)
        .end();
  json.end();
  json.key("attempts").array();
  for (const AttemptSummary& attempt : summary.attempts) {
    json.object().member("attempt", attempt.attempt).member("world_size", attempt.world_size);
    json.member("nnodes", attempt.nnodes).member("begun", format_utc(attempt.begun));
    json.member("duration_s", seconds_of(attempt.duration))
        .text_or_null("cause", attempt.cause)
        .member("lost_s", seconds_of(attempt.lost))
        .member("redone_reports", attempt.redone);
    put_goodput(json, attempt.time);
    json.end();
  }
  json.end().key("results").array();
  for (const std::string& result : summary.results) {
    if (result.empty())
      json.null();
    else
      json.raw(result);
  }
  json.end().key("warnings").array();
  for (const std::string& warning : summary.warnings) json.value(warning);
  return std::move(json.end().end()).take();
}

std::string cause_json(const RootCause& cause, std::uint32_t attempt) {
  const WorkerFailure* worker = cause.worker ? &*cause.worker : nullptr;
  JsonWriter json(kIndented);
  json.object()
      .member("attempt", attempt)
      .member("cause", cause.text.cause)
      .member("how_known", cause.text.how_known);
  json.key("root_rank");
  if (worker != nullptr)
    json.value(worker->rank);
  else
    json.null();
  json.text_or_null("node", cause.node);
  json.text_or_null("kind", worker != nullptr ? to_string(worker->kind) : "lost");
  put_status(json, worker);
  json.member("core_dumped", worker != nullptr && worker->end.core_dumped);
  json.text_or_null("core", worker != nullptr ? worker->end.core : "");
  json.member("oom_killed", worker != nullptr && worker->end.oom_killed)
      .member("collateral", cause.collateral);
  json.text_or_null("time", worker != nullptr ? format_utc(wall_of(worker->end.wall_us)) : "");
  if (worker != nullptr) {
    put_error(json, *worker);
    put_lines(json, worker->end.last_lines);
  }
  return std::move(json.end()).take();
}

std::string error_json(const WorkerFailure& failure) {
  const WorkerEnd& end = failure.end;
  const FailureText text = failure_text(failure);
  const std::string thrown = failure.thrown();
  JsonWriter json(kIndented);
  json.object().key("message").object();
  json.member("message", thrown.empty() ? text.cause : thrown);
  json.key("extraInfo").object().member("py_callstack", end.error ? end.error->stack : "");
  json.member("timestamp", fmt::format("{}", end.wall_us / 1'000'000)).end();
  json.member("errorCode", failure.kind == EndKind::Killed ? -end.status : end.status).end();
  json.member("cause", text.cause).member("how_known", text.how_known).member("rank", failure.rank);
  json.text_or_null("node", failure.node)
      .member("attempt", failure.attempt)
      .member("kind", to_string(failure.kind));
  put_status(json, &failure);
  json.member("core_dumped", end.core_dumped).text_or_null("core", end.core);
  json.member("oom_killed", end.oom_killed);
  json.member("time", format_utc(wall_of(end.wall_us)));
  put_lines(json, end.last_lines);
  return std::move(json.end()).take();
}

}  // namespace train
