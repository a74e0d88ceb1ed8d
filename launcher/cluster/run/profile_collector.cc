#include "launcher/cluster/run/profile_collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "launcher/cluster/run/dated_files.h"
#include "lib/base/secrets.h"
#include "lib/base/utf8.h"
#include "lib/net/blocking.h"
#include "lib/profile/profile_codec.h"
#include "lib/profile/report/flame_graph.h"
#include "lib/profile/report/profile_formats.h"
#include "lib/wire/codec.h"

namespace train {
namespace {

constexpr Duration kAnswerWithin = seconds(30);  // after the last sample
constexpr std::size_t kErrorBytesMax = 4096;

/// Hide the values of secrets, which an executable's path or a note could hold.
void redact(Profile& profile) {
  profile.facts.executable = redacted(profile.facts.executable);
  for (std::string& note : profile.facts.notes) note = redacted(note);
  for (ProfileFrame& frame : profile.frames) {
    frame.function = redacted(frame.function);
    frame.file = redacted(frame.file);
  }
}

}  // namespace

std::string ProfileCollector::why_not(Rank rank) const {
  for (const auto& [number, other] : awaited_)
    if (other.rank == rank)
      return fmt::format("another profile of rank {} is being taken", rank.value);
  if (awaited_.size() >= kAtATime)
    return fmt::format("{} other profiles of this run are being taken", kAtATime);
  return "";
}

Task<RequestAnswer> ProfileCollector::collect(Attempt attempt, NodeId node,
                                              ProfileRequest request) {
  if (std::string refused = why_not(request.rank); !refused.empty())
    co_return RequestAnswer{.error = std::move(refused)};
  const std::uint64_t number = ++request_;
  awaited_.emplace(number, Awaited{.from = {attempt, node}, .rank = request.rank});
  const TakeProfile order{.request = number,
                          .rank = request.rank.value,
                          .kind = std::string(to_string(request.kind)),
                          .time_ms = static_cast<std::uint32_t>(
                              std::chrono::duration_cast<milliseconds>(request.time).count())};
  links_.send(node, encode(order, attempt));
  auto waiting = wait_for(number, request.time);
  auto answer = co_await std::move(waiting);
  awaited_.erase(number);
  if (answer.has_error()) co_return answer.error();
  if (!answer->error.empty()) co_return RequestAnswer{.error = answer->error};
  auto writing = write(std::move(*answer));
  co_return co_await std::move(writing);
}

Task<ProfileCollector::Awaited> ProfileCollector::wait_for(std::uint64_t number, Duration time) {
  const Duration within = time + kAnswerWithin;
  const TimePoint until = clock_.now() + within;
  Awaited& answer = awaited_.at(number);
  while (!answer.complete) {
    CO_TRY(const bool in_time, co_await changed_.wait_until(until));
    if (in_time) continue;
    answer.error = fmt::format("{}: no answer within {}", links_.name(answer.from.node),
                               format_duration(within));
    break;
  }
  co_return std::move(answer);
}

void ProfileCollector::received(const Sender& from, const ProfileTaken& message) {
  const auto found = awaited_.find(message.request);
  if (found == awaited_.end() || found->second.from != from || found->second.complete) return;
  Awaited& answer = found->second;
  if (!message.error.empty()) answer.error = utf8_text(redacted(message.error), kErrorBytesMax);
  answer.bytes += message.data;
  if (answer.bytes.size() > kEncodedProfileBytesMax) {  // a node must not fill our memory
    answer.error = fmt::format("the profile has more than {} MiB", kEncodedProfileBytesMax >> 20);
    answer.bytes.clear();
  }
  answer.complete = message.last || !answer.error.empty();
  changed_.notify();
}

void ProfileCollector::attempt_ended(Attempt attempt) {
  for (auto& [number, answer] : awaited_) {
    if (answer.from.attempt != attempt || answer.complete) continue;
    answer.error = fmt::format("attempt {} ended before the profile was complete", attempt.value);
    answer.complete = true;
  }
  changed_.notify();
}

Task<RequestAnswer> ProfileCollector::write(Awaited answer) {
  const ProfiledRank whom{.rank = answer.rank.value, .node = links_.name(answer.from.node)};
  std::function<Result<RequestAnswer>()> work =
      [this, whom, attempt = answer.from.attempt, taken = clock_.wall(),
       bytes = std::move(answer.bytes)]() -> Result<RequestAnswer> {
    TRY(Profile profile, decode_profile(bytes));
    redact(profile);
    const std::string what = fmt::format("rank-{:04}-{}", whom.rank, to_string(profile.facts.kind));
    const std::string stem = dated_stem(folder_.profiles(attempt), taken, what);
    TRY_VOID(write_dated_files(files_, stem,
                               {{".folded", folded_stacks(profile)},
                                {".speedscope.json", speedscope_json(profile, whom)},
                                {".html", flame_graph_html(profile, whom)},
                                {".txt", describe_profile(profile, whom)}}));
    return RequestAnswer{.path = stem + ".txt"};
  };
  auto writing = run_on<RequestAnswer>(disk_, std::move(work));
  auto written = co_await std::move(writing);
  if (written.has_error()) co_return RequestAnswer{.error = written.error().describe()};
  co_return *written;
}

}  // namespace train
