#include "launcher/cluster/run/run_news.h"

#include <fmt/format.h>

#include <filesystem>

#include "launcher/core/run_history.h"

namespace train {

void RunNews::committed(const Commit& action, const CheckpointManager::Outcome& outcome) {
  for (const std::string& warning : outcome.warnings) screen_.warn(warning);
  const CheckpointInfo& info = outcome.committed.info;
  const std::uint64_t report_seq = action.shards.front().report_seq;
  journal_.remember(checkpoint_record(action.attempt, action.checkpoint_seq, report_seq, info));
  summary_.checkpoint_committed(outcome, action.attempt, report_seq);
  const CheckpointNews news{.name = std::filesystem::path(info.path).filename(),
                            .path = info.path,
                            .score = scored_ ? outcome.committed.score : std::nullopt,
                            .attempt = action.attempt.value,
                            .report_seq = report_seq};
  screen_.show([&](Progress& p, Moment at) { return p.checkpoint(news, at); });
  notifier_.checkpoint_committed(action.attempt);
}

void RunNews::validated(const ValidationRecord& record, const CheckpointManager::Validated& outcome,
                        const std::string& log) {
  journal_.remember({{"event", "checkpoint_validated"},
                     {"checkpoint", record.checkpoint.value},
                     {"status", to_string(record.status)},
                     {"took_ms", record.took_ms}});
  summary_.best_is(outcome.best);
  const ValidationNews news{.name = checkpoint_name(record.checkpoint),
                            .status = std::string(to_string(record.status)),
                            .metrics = record.metrics,
                            .took = milliseconds(record.took_ms)};
  screen_.show([&](Progress& p, Moment at) { return p.validated(news, at); });
  if (record.status != ValidationStatus::Validated)
    screen_.warn(fmt::format("{} was not validated: {}{}", news.name, record.error,
                             log.empty() ? "" : fmt::format(" (its output: {})", log)));
  for (const std::string& warning : outcome.warnings) screen_.warn(warning);
}

}  // namespace train
