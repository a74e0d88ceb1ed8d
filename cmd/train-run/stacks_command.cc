// stacks: asks the train-run that controls a run for the stacks of its workers, through the run's
// folder, and prints what it writes there.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "cmd/train-run/commands.h"
#include "cmd/train-run/run_life.h"
#include "launcher/cluster/checkpoints/remote_run.h"
#include "launcher/cluster/run/run_requests.h"
#include "launcher/report/rank_set.h"
#include "lib/base/print.h"
#include "lib/base/text_file.h"
#include "lib/storage/run_folder.h"

namespace train {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr auto kAnswerWithin = std::chrono::seconds(40);  // train-run waits 15 s for the nodes
constexpr int kRanksMax = 65536;
constexpr std::size_t kShownWholeMax = 4;  // ranks; of more, the classes suffice

/// Return the ranks that the option names; none: all.
Result<std::vector<Rank>> named_ranks(const std::string& text) {
  std::vector<Rank> ranks;
  if (text.empty()) return ranks;
  TRY(const RankSet set, RankSet::parse(text));
  for (std::int32_t rank = 0; rank < kRanksMax; ++rank)
    if (set.contains(rank)) ranks.push_back(Rank{rank});
  return ranks;
}

int no_stacks(const Error& why) {
  print_error(why);
  return exit_code::kUnavailable;
}

void print_lines(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    print_out("{}\n", text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

int show(const std::string& text_path, const StacksCommand& options, std::size_t ranks) {
  if (options.json) {
    std::string json = text_path;
    json.replace(json.size() - 4, 4, ".json");
    print_lines(read_text(json));
    return 0;
  }
  const std::string text = read_text(text_path);
  const std::size_t classes_end = text.find("\n\n");
  const bool whole =
      options.all_threads || (ranks > 0 && ranks <= kShownWholeMax) || classes_end == text.npos;
  print_lines(whole ? text : text.substr(0, classes_end + 1));
  if (!whole) print_out("all threads: {}\n", text_path);
  return 0;
}

}  // namespace

int stacks_command(const RunReference& reference, const StacksCommand& options) {
  const auto ranks = named_ranks(options.ranks);
  if (!ranks) {
    print_error(ranks.error());
    return exit_code::kUsage;
  }
  const auto folder = folder_of(reference);
  if (!folder) return failed(folder.error());
  if (!is_running(*folder))
    return no_stacks({Errc::Unavailable, folder->path() + " is not running: it has no workers"});
  if (const std::string host = running_elsewhere(*folder); !host.empty())
    return no_stacks({Errc::Unavailable,
                      fmt::format("{} runs on {}, which has its folder", folder->path(), host),
                      "run this command there"});
  auto request = PendingRequest::leave(*folder, {*ranks});
  if (!request) return failed(request.error());
  Life life;
  for (const auto until = SteadyClock::now() + kAnswerWithin; SteadyClock::now() < until;) {
    if (const auto answer = request->take_answer()) {
      if (!answer->error.empty()) return no_stacks({Errc::Unavailable, answer->error});
      return show(join_path(folder->path(), answer->path), options, ranks->size());
    }
    if (!life.goes_on(*folder)) break;
    std::this_thread::sleep_for(kPollEvery);
  }
  return no_stacks({Errc::Unavailable, folder->path() +
                                           ": no stacks came: the run has ended, or its "
                                           "train-run does not answer"});
}

}  // namespace train
