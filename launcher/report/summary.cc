#include "launcher/report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "launcher/report/goodput_text.h"
#include "lib/base/terminal_text.h"

namespace train {
namespace {

constexpr std::size_t kLinesShown = 20;  // of the root rank's output; the file has all of them
constexpr std::size_t kAttemptsShown = 10;

std::string plural(std::size_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

std::string short_value(const MetricValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{:.6g}", *number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return std::get<std::string>(value);
}

/// Return "ranks 0-3, 7".
std::string ranks_text(std::vector<std::int32_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) text += ", ";
    text += last == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]);
    i = last + 1;
  }
  return text;
}

/// The block of text: "  label        what", further lines below it.
class Block {
 public:
  explicit Block(TextStyle style) : style_(style) {}

  void heading(std::string_view text, std::string_view color) {
    text_ += style_.color ? fmt::format("\x1b[1;{}m{}\x1b[0m\n", color, terminal_safe(text))
                          : terminal_safe(text) + "\n";
  }
  void gap() { text_ += '\n'; }
  void row(std::string_view label, std::string_view what) {
    std::string_view rest = what;
    std::string_view shown_label = label;
    do {  // an error's text may have several lines
      const auto newline = rest.find('\n');
      text_ += what.empty() ? fmt::format("  {}\n", terminal_safe(label))
                            : fmt::format("  {:<12} {}\n", shown_label,
                                          terminal_safe(rest.substr(0, newline)));
      rest = newline == std::string_view::npos ? "" : rest.substr(newline + 1);
      shown_label = "";
    } while (!rest.empty());
  }
  void quoted(std::string_view line) { text_ += fmt::format("    | {}\n", terminal_safe(line)); }
  std::string take() && { return std::move(text_); }

 private:
  TextStyle style_;
  std::string text_;
};

std::string size_text(const RunSummary& summary) {
  std::string text = plural(static_cast<std::size_t>(summary.world_size), "worker");
  if (summary.nnodes > 1) text += fmt::format(" on {} nodes", summary.nnodes);
  return text;
}

void put_heading(Block& block, const RunSummary& summary) {
  const std::string time = format_duration(summary.duration);
  switch (summary.outcome) {
    case Outcome::Succeeded:
      block.heading(fmt::format("{} finished: {}, {}", summary.run, size_text(summary), time),
                    "32");
      break;
    case Outcome::Failed:
      block.heading(fmt::format("{} failed after {}: {}", summary.run, time,
                                summary.root ? summary.root->text.cause : summary.reason),
                    "31");
      break;
    case Outcome::Interrupted:
      block.heading(fmt::format("{} was stopped by {} after {}", summary.run, summary.reason, time),
                    "33");
      break;
    case Outcome::Preempted:
      block.heading(fmt::format("{} was preempted by {} after {}: please run it again", summary.run,
                                summary.reason, time),
                    "33");
      break;
    case Outcome::Refused:
      block.heading(fmt::format("{} did not start: {}", summary.run,
                                summary.error ? summary.error->message : summary.reason),
                    "31");
      break;
    case Outcome::Replaced:
      block.heading(
          fmt::format("{} continues without this train-run, which another one replaced after {}",
                      summary.run, time),
          "33");
      break;
  }
}

/// Return the last lines of the worker's output, without the SDK's line about what was thrown: the
/// summary already contains that.
std::vector<std::string> without_what_is_known(const WorkerFailure& worker) {
  std::vector<std::string> lines = worker.end.last_lines;
  if (worker.thrown().empty()) return lines;
  const std::string known = fmt::format("trainrun: rank {}: the training loop threw ", worker.rank);
  std::erase_if(lines, [&](const std::string& line) { return line.starts_with(known); });
  return lines;
}

void put_root_cause(Block& block, const RootCause& root) {
  block.row("known from", root.text.how_known);
  if (root.collateral > 0) {
    block.row("collateral",
              fmt::format("{} ended because of it",
                          plural(static_cast<std::size_t>(root.collateral), "other worker")));
  }
  if (!root.lines.empty()) {
    block.row("output", fmt::format("the last {}", plural(root.lines.size(), "line")));
    for (const std::string& line : root.lines) block.quoted(line);
  }
  if (!root.worker) return;
  const WorkerFailure& worker = *root.worker;
  const UserError error = worker.end.error.value_or(UserError{});
  if (error.what.find('\n') != std::string::npos) block.row("error", error.what);
  if (!error.stack.empty()) {
    block.row("stack", "");
    for (std::string_view rest = error.stack; !rest.empty();) {
      const auto newline = rest.find('\n');
      block.quoted(rest.substr(0, newline));
      rest = newline == std::string_view::npos ? "" : rest.substr(newline + 1);
    }
  }
  if (!worker.end.core.empty()) block.row("core dump", worker.end.core);
  const std::vector<std::string> lines = without_what_is_known(worker);
  if (lines.empty()) {
    block.row("output", fmt::format("rank {} wrote nothing{}", worker.rank,
                                    worker.end.last_lines.empty() ? "" : " else"));
    return;
  }
  const std::size_t shown = std::min(lines.size(), kLinesShown);
  block.row("output",
            fmt::format("the last {} of rank {}",
                        shown == 1 ? "line" : fmt::format("{} lines", shown), worker.rank));
  for (auto line = lines.end() - static_cast<std::ptrdiff_t>(shown); line != lines.end(); ++line) {
    block.quoted(*line);
  }
}

void put_attempts(Block& block, const std::vector<AttemptSummary>& attempts) {
  if (attempts.size() < 2) return;
  const std::size_t shown = std::min(attempts.size(), kAttemptsShown);
  std::string label = "attempts";
  if (shown < attempts.size()) {
    block.row(label, fmt::format("{}, the last {} of them", attempts.size(), shown));
    label.clear();
  }
  for (std::size_t i = attempts.size() - shown; i < attempts.size(); ++i) {
    const AttemptSummary& attempt = attempts[i];
    std::string text = fmt::format("{}: {}, {}", attempt.attempt, format_duration(attempt.duration),
                                   attempt.cause.empty() ? "done" : attempt.cause);
    if (attempt.lost > Duration::zero()) {
      text += fmt::format("; lost {} and {}", format_duration(attempt.lost),
                          plural(static_cast<std::size_t>(attempt.redone), "report"));
    }
    block.row(label, text);
    label.clear();
  }
}

void put_goodput(Block& block, const TimeAccounts& time) {
  const std::string text = goodput_text(time);
  if (text.empty()) return;
  block.row("goodput", text);
  const std::string advice = goodput_advice(time);
  if (!advice.empty()) block.row("", advice);
}

std::string checkpoint_text(const CheckpointSummary& checkpoint, std::string_view which) {
  if (!checkpoint.score) return fmt::format("{} ({})", checkpoint.path, which);
  return fmt::format("{} ({}, {} {:.6g})", checkpoint.path, which, checkpoint.score_metric,
                     *checkpoint.score);
}

void put_checkpoints(Block& block, const RunSummary& summary) {
  const bool one = summary.best && summary.latest && summary.best->name == summary.latest->name;
  if (summary.best)
    block.row("checkpoint", checkpoint_text(*summary.best, one ? "best and latest" : "best"));
  if (summary.latest && !one)
    block.row(summary.best ? "" : "checkpoint", checkpoint_text(*summary.latest, "latest"));
  if (!summary.best && !summary.latest && summary.outcome != Outcome::Refused &&
      summary.outcome != Outcome::Replaced) {
    block.row("checkpoint", "none was kept");
  }
  if (summary.lost_steps.value_or(0) > 0) {
    block.row("lost", fmt::format("{} after the latest checkpoint",
                                  plural(static_cast<std::size_t>(*summary.lost_steps), "report")));
  }
}

void put_result(Block& block, const RunSummary& summary) {
  if (summary.outcome == Outcome::Succeeded && !summary.reason.empty())
    block.row("stopped as", summary.reason);
  std::string metrics;
  for (const auto& [name, value] : summary.metrics) {
    metrics += fmt::format("{}{} {}", metrics.empty() ? "" : ", ", name, short_value(value));
  }
  if (!metrics.empty())
    block.row(summary.outcome == Outcome::Succeeded ? "result" : "last report", metrics);
  if (!summary.results.empty() && !summary.results.front().empty())
    block.row("returned", summary.results.front());
}

}  // namespace

RootCause root_cause_of(WorkerFailure failure, int collateral) {
  RootCause root{.text = failure_text(failure),
                 .node = failure.node,
                 .worker = std::nullopt,
                 .collateral = collateral};
  root.worker = std::move(failure);
  return root;
}

RootCause root_cause_of_lost_node(std::string node, const std::vector<std::int32_t>& ranks,
                                  std::string detail, int collateral) {
  const std::string with = ranks.empty() ? "" : fmt::format(", with {},", ranks_text(ranks));
  return {.text = {fmt::format("{}{} was lost: {}", node, with, detail),
                   "silence of its daemon; its workers may still be running there"},
          .node = std::move(node),
          .worker = std::nullopt,
          .collateral = collateral};
}

std::string ingest_text(const IngestSummary& ingest, bool live) {
  std::string text =
      fmt::format("{} for {}", plural(static_cast<std::size_t>(ingest.workers), "ingest worker"),
                  ingest.dataset);
  if (live && ingest.serving < ingest.workers)
    text += fmt::format(" ({} {})", ingest.serving, ingest.serving == 1 ? "serves" : "serve");
  if (ingest.deaths > 0)
    text += fmt::format(", {}", plural(static_cast<std::size_t>(ingest.deaths), "death"));
  return text;
}

int exit_code_of(const RunSummary& summary) {
  Ending ending{.outcome = summary.outcome, .root = std::nullopt, .error = std::nullopt};
  if (summary.root && summary.root->worker) ending.root = summary.root->worker;
  if (summary.error) ending.error = summary.error->code;
  return exit_code_of(ending);
}

std::string summary_text(const RunSummary& summary, TextStyle style) {
  Block block(style);
  put_heading(block, summary);
  block.gap();
  if (summary.error && !summary.error->hint.empty()) block.row("what to do", summary.error->hint);
  if (summary.root) put_root_cause(block, *summary.root);
  if (summary.root && !summary.reason.empty()) block.row("gave up", summary.reason);
  put_result(block, summary);
  put_checkpoints(block, summary);
  put_attempts(block, summary.attempts);
  put_goodput(block, summary.time);
  if (summary.data) block.row("data", data_verdict_text(*summary.data));
  for (const IngestSummary& ingest : summary.ingest) block.row("ingest", ingest_text(ingest));
  if (!summary.logs.empty()) block.row("logs", summary.logs);
  if (!summary.path.empty()) block.row("everything", summary.path);
  for (const std::string& warning : summary.warnings) block.row("warning", warning);
  if (!summary.resume_command.empty()) block.row("resume with", summary.resume_command);
  block.row("exit code", fmt::format("{}", exit_code_of(summary)));
  return std::move(block).take();
}

}  // namespace train
