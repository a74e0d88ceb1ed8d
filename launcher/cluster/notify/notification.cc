#include "launcher/cluster/notify/notification.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/base/json_text.h"
#include "lib/base/secrets.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr std::array<std::string_view, 7> kEvents{"started", "restarted", "hung",   "checkpoint",
                                                  "failed",  "finished",  "stopped"};

/// Return a fact as it may be sent: as text in UTF-8, of bounded length, and without secrets.
std::string sendable(std::string_view text) { return utf8_text(redacted(text), kFactBytesMax); }

std::string counted(int count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string group_text(const Notification& n) {
  return fmt::format("{} on {}", counted(n.world_size, "worker"), counted(n.nnodes, "node"));
}

std::string score_text(const CheckpointSummary& checkpoint) {
  if (!checkpoint.score) return "";
  return fmt::format(" ({} {:.6g})", checkpoint.score_metric, *checkpoint.score);
}

double seconds_of(Duration duration) { return std::chrono::duration<double>(duration).count(); }

/// Cut the texts among the metrics.
MetricValue sendable_value(const MetricValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? value : MetricValue(sendable(*text));
}

}  // namespace

std::string_view to_string(NotifiedEvent event) { return kEvents[static_cast<std::size_t>(event)]; }

std::string notification_text(const Notification& n) {
  const std::string because = n.cause.empty() ? "" : ": " + sendable(n.cause);
  switch (n.event) {
    case NotifiedEvent::Started:
      return fmt::format("run {} started with {}", n.run, group_text(n));
    case NotifiedEvent::Restarted:
      return fmt::format("run {} restarted with {}{}{}", n.run, group_text(n),
                         n.checkpoint ? " from " + n.checkpoint->name : "", because);
    case NotifiedEvent::Hung:
      return fmt::format("run {} hangs{}", n.run, because);
    case NotifiedEvent::Checkpoint:
      return fmt::format("run {} committed {}", n.run,
                         n.checkpoint ? n.checkpoint->name + score_text(*n.checkpoint) : "");
    case NotifiedEvent::Failed:
      return fmt::format("run {} failed after {}{}", n.run, format_duration(n.duration), because);
    case NotifiedEvent::Finished:
      return fmt::format("run {} finished after {}", n.run, format_duration(n.duration));
    case NotifiedEvent::Stopped:
      return fmt::format("run {} was stopped after {}{}", n.run, format_duration(n.duration),
                         because);
  }
  return "";
}

std::string notification_json(const Notification& n) {
  JsonWriter json;
  json.object();
  json.member("text", notification_text(n));
  json.member("event", to_string(n.event));
  json.member("id", fmt::format("{}-{}", n.run_id, n.number));
  json.member("time", format_utc(n.at));
  json.member("run", n.run);
  json.member("run_id", n.run_id);
  json.member("path", sendable(n.path));
  json.member("host", n.host);
  json.member("attempt", n.attempt);
  json.member("world_size", n.world_size);
  json.member("nnodes", n.nnodes);
  json.member("duration_s", seconds_of(n.duration));
  json.text_or_null("cause", sendable(n.cause));
  json.key("rank");
  n.rank ? json.value(*n.rank) : json.null();
  json.text_or_null("node", sendable(n.node));
  json.key("exit_code");
  n.exit_code ? json.value(*n.exit_code) : json.null();
  json.key("checkpoint");
  if (n.checkpoint) {
    json.object().member("name", n.checkpoint->name);
    json.member("path", sendable(n.checkpoint->path));
    json.text_or_null("score_metric", n.checkpoint->score_metric).key("score");
    n.checkpoint->score ? json.value(*n.checkpoint->score) : json.null();
    json.end();
  } else {
    json.null();
  }
  json.key("metrics").object();
  for (std::size_t i = 0; i < std::min(n.metrics.size(), kNotifiedMetricsMax); ++i)
    json.member(sendable(n.metrics[i].first), sendable_value(n.metrics[i].second));
  json.end();
  json.text_or_null("resume", sendable(n.resume_command));
  json.end();
  return std::move(json).take();
}

std::map<std::string, std::string> notification_environment(const Notification& n) {
  std::map<std::string, std::string> variables{
      {"TRAINRUN_EVENT", std::string(to_string(n.event))},
      {"TRAINRUN_TEXT", notification_text(n)},
      {"TRAINRUN_TIME", format_utc(n.at)},
      {"TRAINRUN_RUN", n.run},
      {"TRAINRUN_RUN_ID", n.run_id},
      {"TRAINRUN_RUN_PATH", sendable(n.path)},
      {"TRAINRUN_HOST", n.host},
      {"TRAINRUN_ATTEMPT", std::to_string(n.attempt)},
      {"TRAINRUN_WORLD_SIZE", std::to_string(n.world_size)},
      {"TRAINRUN_NNODES", std::to_string(n.nnodes)},
      {"TRAINRUN_DURATION_S", fmt::format("{:.3f}", seconds_of(n.duration))},
      {"TRAINRUN_CAUSE", sendable(n.cause)},
      {"TRAINRUN_RANK", n.rank ? std::to_string(*n.rank) : ""},
      {"TRAINRUN_NODE", sendable(n.node)},
      {"TRAINRUN_EXIT_CODE", n.exit_code ? std::to_string(*n.exit_code) : ""},
      {"TRAINRUN_CHECKPOINT", n.checkpoint ? sendable(n.checkpoint->path) : ""},
      {"TRAINRUN_RESUME", sendable(n.resume_command)}};
  for (auto& [name, value] : variables) std::erase(value, '\0');
  return variables;
}

Notification end_notification(const RunSummary& summary) {
  Notification n;
  switch (summary.outcome) {
    case Outcome::Succeeded:
      n.event = NotifiedEvent::Finished;
      break;
    case Outcome::Interrupted:
    case Outcome::Preempted:
      n.event = NotifiedEvent::Stopped;
      n.cause = summary.reason;
      break;
    case Outcome::Failed:
    case Outcome::Refused:
    case Outcome::Replaced:
      n.event = NotifiedEvent::Failed;
      n.cause = summary.root ? summary.root->text.cause : summary.reason;
      break;
  }
  n.world_size = summary.world_size;
  n.nnodes = summary.nnodes;
  n.duration = summary.duration;
  if (!summary.attempts.empty()) n.attempt = summary.attempts.back().attempt;
  if (summary.root) n.node = summary.root->node;
  if (summary.root && summary.root->worker) n.rank = summary.root->worker->rank;
  n.exit_code = exit_code_of(summary);
  n.checkpoint = summary.latest;
  n.metrics = summary.metrics;
  n.resume_command = summary.resume_command;
  return n;
}

}  // namespace train
