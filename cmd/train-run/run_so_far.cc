#include "cmd/train-run/run_so_far.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "lib/storage/checkpoint_store.h"
#include "lib/storage/journal.h"
#include "lib/storage/posix_file_system.h"

namespace train {

RunSoFar run_so_far(const RunFolder& folder) {
  RunSoFar view;
  PosixFileSystem files;
  if (const auto replay = read_journal(files, folder.journal())) {
    for (const JournalRecord& record : replay->records) {
      const auto text = [&](std::string_view key) {
        const auto* value = record.event.if_contains(key);
        return value != nullptr && value->is_string() ? std::string(value->as_string())
                                                      : std::string();
      };
      const auto number = [&](std::string_view key) {
        const auto* value = record.event.if_contains(key);
        return value != nullptr && value->is_int64() ? value->as_int64() : 0;
      };
      view.ingest.add(record.event);
      const std::string event = text("event");
      if (event == "state") view.state = text("state");
      if (event == "state" && text("trigger") == "restart_decided") ++view.restarts;
      if (event == "attempt_started")
        view.attempt = number("attempt"), view.world_size = number("world_size");
      if (event == "checkpoint_committed")
        view.checkpoint =
            checkpoint_name(CheckpointNumber{static_cast<std::uint64_t>(number("checkpoint"))});
    }
  }
  (void)read_metrics_log(folder.metrics(), [&](ReportRecord&& record) {
    if (record.rank == 0) view.report = std::move(record);
    return true;
  });
  return view;
}

std::string metric_text(const MetricValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, double>)
          return fmt::format("{:.6g}", v);
        else
          return fmt::format("{}", v);
      },
      value);
}

}  // namespace train
