#include "cmd/train-run/ask_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "cmd/train-run/run_life.h"
#include "launcher/cluster/checkpoints/remote_run.h"
#include "launcher/report/rank_set.h"
#include "lib/base/exit_code.h"
#include "lib/base/print.h"
#include "lib/storage/posix_file_system.h"
#include "lib/storage/run_lock.h"

namespace train {

namespace {

/// Return the launcher that has the run, if that is known.
std::optional<LockHolder> launcher_of(const RunFolder& folder) {
  PosixFileSystem files;
  return read_lock_holder(files, folder.lock());
}

}  // namespace

Result<RunFolder> folder_to_ask(const RunReference& reference) {
  TRY(RunFolder folder, folder_of(reference));
  if (!is_running(folder))
    return Error{Errc::Unavailable, folder.path() + " is not running: it has no workers"};
  if (const std::string host = running_elsewhere(folder); !host.empty())
    return Error{Errc::Unavailable,
                 fmt::format("{} runs on {}, which has its folder", folder.path(), host),
                 "run this command there"};
  return folder;
}

Result<std::string> answer_of(PendingRequest request, const RunFolder& folder,
                              std::chrono::milliseconds within, const std::string& what) {
  TRY(const RequestAnswer answer, request_answer(std::move(request), folder, within, what));
  return join_path(folder.path(), answer.path);
}

Result<RequestAnswer> request_answer(PendingRequest request, const RunFolder& folder,
                                     std::chrono::milliseconds within, const std::string& what,
                                     OfLauncher of) {
  using SteadyClock = std::chrono::steady_clock;
  const auto asked = launcher_of(folder);
  Life life;
  bool goes_on = true;
  for (const auto until = SteadyClock::now() + within; goes_on && SteadyClock::now() < until;) {
    goes_on = life.goes_on(folder);  // looked at first: an answer may be the last that it writes
    if (const auto answer = request.take_answer()) {
      if (!answer->error.empty()) return Error{Errc::Unavailable, answer->error};
      return *answer;
    }
    if (const auto now = launcher_of(folder);
        of == OfLauncher::Same && asked && now && *now != *asked)
      return Error{Errc::Unavailable,
                   fmt::format("{}: no {} came: another train-run has taken the run over",
                               folder.path(), what),
                   "ask again"};
    if (goes_on) std::this_thread::sleep_for(kPollEvery);
  }
  return Error{Errc::Unavailable,
               fmt::format("{}: no {} came: {}", folder.path(), what,
                           goes_on ? "its train-run does not answer" : "the run has ended")};
}

Result<std::vector<Rank>> named_ranks(const std::string& text) {
  constexpr std::int32_t kRanksMax = 65536;
  std::vector<Rank> ranks;
  if (text.empty()) return ranks;
  TRY(const RankSet set, RankSet::parse(text));
  for (std::int32_t rank = 0; rank < kRanksMax; ++rank)
    if (set.contains(rank)) ranks.push_back(Rank{rank});
  return ranks;
}

Result<std::string> ask_for_stacks(const RunFolder& folder, const std::vector<Rank>& ranks) {
  constexpr auto kAnswerWithin = std::chrono::seconds(40);  // train-run waits 15 s for the nodes
  TRY(PendingRequest request, PendingRequest::leave(folder, StacksRequest{ranks}));
  return answer_of(std::move(request), folder, kAnswerWithin, "stacks");
}

std::string json_beside(std::string text_path) {
  return text_path.replace(text_path.size() - 4, 4, ".json");
}

int not_answered(const Error& error) {
  const int code = failed(error);
  return error.code == Errc::Unavailable ? exit_code::kUnavailable : code;
}

void print_lines(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    print_out("{}\n", text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace train
