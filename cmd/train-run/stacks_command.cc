// stacks: asks the train-run that controls a run for the stacks of its workers, through the run's
// folder, and prints what it writes there.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cmd/train-run/commands.h"
#include "cmd/train-run/run_life.h"
#include "launcher/cluster/checkpoints/remote_run.h"
#include "launcher/cluster/run/stack_requests.h"
#include "launcher/report/rank_set.h"
#include "lib/base/print.h"
#include "lib/base/text_file.h"

namespace train {
namespace {

namespace fs = std::filesystem;
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

/// Leave the request in the run's folder, under its name only once it is complete.
Result<Unit> leave_request(const RunFolder& folder, const std::string& id,
                           const std::vector<Rank>& ranks) {
  const std::string path = folder.path() + "/" + kStackRequestPrefix + id;
  const std::string draft = path + ".new";
  std::ofstream file(draft);
  file << stack_request_text(ranks) << std::flush;
  const bool written = file.good();
  file.close();
  if (written && ::rename(draft.c_str(), path.c_str()) == 0) return Unit{};
  return system_error(errno, "writing " + path);
}

/// Return the answer's text file, if it is there.
std::string find_answer(const RunFolder& folder, const std::string& id) {
  const std::string ending = "-request-" + id + ".txt";
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder.path() + "/attempts", error), end;
       !error && entry != end; entry.increment(error)) {
    if (entry.depth() == 1 && entry->path().filename() != "stacks")
      entry.disable_recursion_pending();
    if (entry->path().filename().string().ends_with(ending)) return entry->path().string();
  }
  return {};
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
  const std::string id =
      fmt::format("{:x}-{:x}", ::getpid(), SteadyClock::now().time_since_epoch().count());
  if (const auto left = leave_request(*folder, id, *ranks); !left) return failed(left.error());
  Life life;
  for (const auto until = SteadyClock::now() + kAnswerWithin; SteadyClock::now() < until;) {
    if (const std::string path = find_answer(*folder, id); !path.empty())
      return show(path, options, ranks->size());
    if (!life.goes_on(*folder)) break;
    std::this_thread::sleep_for(kPollEvery);
  }
  std::error_code ignored;
  fs::remove(folder->path() + "/" + kStackRequestPrefix + id, ignored);
  return no_stacks({Errc::Unavailable, folder->path() +
                                           ": no stacks came: the run has ended, or its "
                                           "train-run does not answer"});
}

}  // namespace train
