// logs, attach: the commands that print what workers have printed.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "cmd/train-run/commands.h"
#include "cmd/train-run/run_life.h"
#include "launcher/cluster/reports/run_logs.h"
#include "launcher/report/log_printer.h"
#include "launcher/report/since.h"
#include "lib/base/exit_code.h"
#include "lib/base/print.h"
#include "lib/base/rank_ranges.h"

namespace train {
namespace {

constexpr std::size_t kPrintBytes = 64u << 10;  // at once

struct LogsPlan {
  LogSelection selection;
  LogPrinterOptions printer;
};

/// Read the options. The error names the option that is wrong.
Result<LogsPlan> plan_of(const LogsCommand& options) {
  LogsPlan plan;
  const auto named = [](auto result, std::string_view option) {
    if (result.has_error()) return decltype(result)(std::move(result).error().with_context(option));
    return result;
  };
  bool one_rank = false;
  if (!options.ranks.empty()) {
    TRY(plan.selection.ranks, named(RankSet::parse(options.ranks), "--rank"));
    one_rank = plan.selection.ranks->single();
  }
  if (options.attempt >= 0) plan.selection.attempt = static_cast<std::uint32_t>(options.attempt);
  if (!options.stream.empty()) plan.selection.stream = options.stream == "out" ? 1 : 2;
  plan.printer.prefix = !one_rank;
  plan.printer.fold = options.merge && !options.no_fold && !one_rank;
  if (options.grep) {
    TRY(plan.printer.grep, named(LineFilter::parse(*options.grep), "--grep"));
  }
  if (options.since) {
    TRY(plan.printer.since,
        named(parse_since(*options.since, std::chrono::system_clock::now()), "--since"));
  }
  if (options.tail >= 0) plan.printer.tail = static_cast<std::size_t>(options.tail);
  return plan;
}

void print_taken(LogPrinter& printer) {
  const std::string text = printer.take();
  if (!text.empty()) print_out("{}", Lines{text});
}

/// Prints the lines of a run, in rounds.
class LogsLoop {
 public:
  LogsLoop(RunLogs& logs, LogPrinterOptions options, bool merge)
      : logs_(logs), printer_(std::move(options)), merge_(merge) {}

  /// Print what is new. Return whether there was anything.
  bool round(bool to_the_end) {
    logs_.find();
    const auto sink = [this](LogLine&& line) {
      printer_.line(line.attempt, line.rank, std::move(line.text), line.at);
      if (printer_.size() >= kPrintBytes) print_taken(printer_);
    };
    const bool any = merge_ ? logs_.merge(to_the_end, sink)
                            : logs_.read(to_the_end, sink, [this] { printer_.end_of_part(); });
    // The first round of a merge holds back what the second one gives.
    if (++rounds_ > (merge_ ? 1 : 0) || to_the_end) printer_.show_all();
    if (!any || to_the_end) {
      printer_.idle();
    } else {
      printer_.due();
    }
    print_taken(printer_);
    flush_out();
    return any;
  }

 private:
  RunLogs& logs_;
  LogPrinter printer_;
  const bool merge_;
  int rounds_ = 0;
};

void warn_of_unknown_times(RunLogs& logs, const LogsCommand& options) {
  for (const std::uint32_t attempt : logs.take_untimed()) {
    if (options.since || options.merge)
      print_err(
          "train-run: warning: when the output of attempt {} arrived is not known: all of it "
          "is shown, one stream after the other\n",
          attempt);
  }
}

/// Return the exit code if some rank that was asked for has no output.
int check_ranks(const RunFolder& folder, const RunLogs& logs, const LogSelection& selection) {
  const std::vector<std::int32_t> ranks = logs.ranks();
  if (ranks.empty() && !selection.ranks) {
    print_err("train-run: error: {} has no output{} yet\n", folder.path(),
              selection.attempt ? fmt::format(" of attempt {}", *selection.attempt) : "");
    return exit_code::kNotFound;
  }
  if (!selection.ranks) return 0;
  const auto missing = selection.ranks->first_missing(
      [&](std::int32_t rank) { return std::binary_search(ranks.begin(), ranks.end(), rank); });
  if (!missing) return 0;
  LogSelection all = selection;
  all.ranks.reset();
  RunLogs others(folder, std::move(all));
  others.find();
  const std::vector<std::int32_t> present = others.ranks();
  print_err("train-run: {}: {} has no output of rank {}{}\n", ranks.empty() ? "error" : "warning",
            folder.path(), *missing,
            present.empty()
                ? " yet"
                : fmt::format(" in attempt {}: it has ranks {}",
                              others.newest_attempt().value_or(0), rank_ranges(present)));
  return ranks.empty() ? exit_code::kNotFound : 0;
}

}  // namespace

int logs_command(const RunReference& reference, const LogsCommand& options) {
  auto plan = plan_of(options);
  if (!plan) return failed(plan.error());
  const auto folder = folder_of(reference);
  if (!folder) return failed(folder.error());
  if (const auto groups = groups_of(reference)) say_which_group(*groups);
  RunLogs logs(*folder, plan->selection);
  LogsLoop loop(logs, std::move(plan->printer), options.merge);
  Life life;
  for (;;) {
    const bool going_on = options.follow && life.goes_on(*folder);
    const bool any = loop.round(!going_on);
    warn_of_unknown_times(logs, options);
    if (!going_on || output_has_failed()) break;
    if (!any || options.merge) std::this_thread::sleep_for(kPollEvery);
  }
  return check_ranks(*folder, logs, plan->selection);
}

int attach_command(const RunReference& reference, bool fold) {
  if (const auto sweep = sweep_of(reference)) return attach_sweep_command(*sweep);
  const auto folder = folder_of(reference);
  if (!folder) return failed(folder.error());
  RunLogs logs(*folder, {});
  Life life;
  // `train-run logs` shows what was printed before.
  logs.find();
  logs.skip_to_end();
  if (const int shown = status_command(reference, false); shown != 0) return shown;
  flush_out();
  LogPrinterOptions options;
  options.fold = fold;
  LogsLoop loop(logs, std::move(options), true);
  for (;;) {
    const bool going_on = life.goes_on(*folder);
    loop.round(!going_on);
    if (!going_on || output_has_failed()) break;
    std::this_thread::sleep_for(kPollEvery);
  }
  print_out("\n");
  status_command(reference, false);
  const boost::json::object exit = read_json(folder->exit_json());
  const auto* code = exit.if_contains("code");
  return code != nullptr && code->is_int64() ? static_cast<int>(code->as_int64())
                                             : exit_code::kUnavailable;
}

}  // namespace train
