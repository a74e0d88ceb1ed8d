#include "daemon/supervisor/workers/profile_taker.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "daemon/supervisor/processes/process_sampler.h"
#include "lib/net/blocking.h"
#include "lib/profile/profile_builder.h"
#include "lib/profile/profile_codec.h"
#include "lib/profile/sampling/allocation_profile.h"
#include "lib/profile/sampling/take_profile.h"
#include "lib/stacks/proc_files.h"
#include "lib/stacks/process_reader.h"
#include "lib/stacks/py_spy.h"

namespace train {
namespace {

constexpr std::size_t kPieceBytes = 1u << 20;  // a quarter of a frame
// The Python package starts memray in the program. `memray attach` has a debugger stop the program
// and run code in it. If that is interrupted before Python 3.14, the program dies
// (docs/architecture.md), so we do not.
constexpr const char* kOfPython =
    "memray shows what Python allocates: install it in the worker's environment, and use the "
    "package trainrun there";
constexpr const char* kOfMemray =
    "shown is what there was when the program held most, and what was not freed at the end; "
    "of small objects, the blocks that Python keeps them in";

/// List the processes of a rank: the one that matters first. None, once the worker has ended.
ListProcesses processes_of(pid_t root, pid_t program) {
  return [root, program, began = process_began(root)] {
    std::vector<ProfiledProcess> found;
    if (began == 0 || process_began(root) != began) return found;
    for (const pid_t pid : process_tree(root)) {
      ProfiledProcess process{.pid = pid};
      if (pid != program) process.other_process = thread_facts(pid, pid).name;
      found.insert(pid == program ? found.begin() : found.end(), std::move(process));
    }
    return found;
  };
}

}  // namespace

Task<Profile> ProfileTaker::take_of(Rank rank, ProfileKind kind, Duration time) {
  const WorkerSlot& slot = slots_.at(rank);
  if (kind == ProfileKind::Memory) {
    auto of_memory = take_of_memory(rank, time);
    co_return co_await std::move(of_memory);
  }
  const auto root = static_cast<pid_t>(slot.pid);
  const auto program = static_cast<pid_t>(sample_processes(root, slot.program).pid);
  const SamplingOrder sampling{
      .kind = kind, .time = time, .processes = processes_of(root, program)};
  std::function<Result<Profile>()> work = [sampling] { return take_profile(sampling); };
  auto taking = run_unjoined<Profile>(std::move(work));
  co_return co_await std::move(taking);
}

Task<Profile> ProfileTaker::take_of_memory(Rank rank, Duration time) {
  const WorkerSlot& slot = slots_.at(rank);
  if (slot.said_goodbye) co_return Error{Errc::Unavailable, "the worker has left its loop"};
  const auto program =
      static_cast<pid_t>(sample_processes(static_cast<pid_t>(slot.pid), slot.program).pid);
  const bool python = runs_python(program);
  if (!slot.connected)
    co_return Error{
        Errc::Unavailable, "its program does not use trainrun's SDK, which alone sees its memory",
        python ? kOfPython : "call train::run(), or trainrun_start() of train_c.h, in it"};
  if (!slot.knows_memory_profiles)
    co_return Error{Errc::Unavailable,
                    "the program was built with an SDK that knows no profiles of memory",
                    "build it with the SDK of this version"};
  // Read before and after: it may end, or load code, meanwhile.
  const auto reader = std::make_shared<ProcessReader>(program, 0);
  auto asking = memory_.ask(rank, time);
  auto seen = co_await std::move(asking);
  if (seen.has_error()) co_return seen.error();
  std::function<Result<Profile>()> work = [reader, python,
                                           seen = std::move(*seen)]() -> Result<Profile> {
    reader->read_mappings();
    ProcessCapture process = reader->describe();
    process.ended = reader->is_outdated();
    if (!seen.engine.empty()) {
      Profile named = named_allocation_profile(seen.stacks, seen.facts, seen.names, seen.engine);
      named.facts.executable = process.executable;
      named.facts.pid = process.pid;
      if (seen.engine == "memray") add_note(named.facts, kOfMemray);
      return named;
    }
    auto profile = allocation_profile(seen.stacks, seen.facts, process);
    if (profile && python)
      add_note(profile->facts, fmt::format("without the functions of Python: {}",
                                           seen.note.empty() ? kOfPython : seen.note));
    return profile;
  };
  auto naming = run_unjoined<Profile>(std::move(work));
  co_return co_await std::move(naming);
}

asio::awaitable<void> ProfileTaker::take(TakeProfile order) {
  const Rank rank{order.rank};
  const auto slot = slots_.find(rank);
  const auto kind = profile_kind(order.kind);
  std::string refused;
  if (!kind)
    refused = fmt::format("this traind knows no profile of kind '{}'", order.kind);
  else if (slot == slots_.end() || slot->second.pid <= 0 || slot->second.exit)
    refused = fmt::format("rank {} has no worker now", order.rank);
  else if (busy_.contains(rank))
    refused = fmt::format("another profile of rank {} is being taken", order.rank);
  else if (busy_.size() >= kAtATime)
    refused = fmt::format("{} other profiles are being taken on its node", kAtATime);
  if (!refused.empty()) {
    uplink_.send(ProfileTaken{order.request, {}, true, refused});
    co_return;
  }
  busy_.insert(rank);
  const Duration time =
      std::clamp<Duration>(milliseconds(order.time_ms), milliseconds(1), kProfileTimeMax);
  auto taking = take_of(rank, *kind, time);
  const auto taken = co_await std::move(taking);
  busy_.erase(rank);
  const std::string bytes = taken ? encode_profile(*taken) : "";
  std::size_t at = 0;
  for (; bytes.size() - at > kPieceBytes; at += kPieceBytes)
    uplink_.send(ProfileTaken{order.request, bytes.substr(at, kPieceBytes), false, {}});
  uplink_.send(
      ProfileTaken{order.request, bytes.substr(at), true, taken ? "" : taken.error().describe()});
}

}  // namespace train
