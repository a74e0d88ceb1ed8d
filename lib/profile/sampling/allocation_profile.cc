#include "lib/profile/sampling/allocation_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "lib/base/size_text.h"
#include "lib/profile/profile_builder.h"
#include "lib/profile/profile_codec.h"
#include "lib/profile/sampling/unwound_profiles.h"
#include "lib/stacks/stacks_codec.h"
#include "lib/stacks/take_stacks.h"
#include "lib/stacks/unwinder_process.h"

namespace train {
namespace {

constexpr std::size_t kBatchAddresses = 256u << 10;

TimePoint now() { return std::chrono::steady_clock::now(); }

/// Sends stacks to the unwinder in batches that fit into its messages.
class Batches {
 public:
  Batches(const ProcessCapture& process, UnwinderStream& unwinder, TimePoint deadline)
      : empty_{.of_memory = true, .process = process}, unwinder_(unwinder), deadline_(deadline) {
    empty_.process.threads.clear();
    batch_ = empty_;
  }

  void add(const AllocationStack& stack, std::string_view what, std::uint64_t bytes) {
    if (bytes == 0) return;
    batch_.samples.push_back(bytes);
    batch_.process.threads.push_back(
        {.facts = {.name = std::string(what)}, .addresses = stack.addresses});
    addresses_ += stack.addresses.size();
    if (batch_.samples.size() == kCapturedThreadsMax || addresses_ >= kBatchAddresses) flush();
  }
  void flush() {
    if (batch_.samples.empty() || !takes_) return;
    const std::string payload = encode_samples(std::exchange(batch_, empty_));
    addresses_ = 0;
    takes_ = unwinder_.write(stack_message_header(payload.size()), deadline_).has_value() &&
             unwinder_.write(payload, deadline_).has_value();
  }

 private:
  SampleBatch empty_, batch_;
  UnwinderStream& unwinder_;
  TimePoint deadline_;
  std::size_t addresses_ = 0;
  bool takes_ = true;  // else it has ended, and says itself why
};

void note_unwatched(ProfileFacts& facts, const AllocationFacts& seen) {
  if (seen.unwatched > 0)
    add_note(facts, fmt::format("{} of the memory may have been freed: there was more than could "
                                "be watched",
                                size_text(seen.unwatched)));
}

ProfileFacts facts_of(const std::vector<AllocationStack>& stacks, const AllocationFacts& seen,
                      const std::string& engine) {
  ProfileFacts facts{.kind = ProfileKind::Memory,
                     .engine = engine,
                     .lasted = std::chrono::nanoseconds(std::min<std::uint64_t>(
                         seen.lasted_ns, std::uint64_t{3600} * 1'000'000'000)),
                     .sample_bytes = seen.sample_bytes};
  for (const AllocationStack& stack : stacks) facts.memory_samples += stack.samples;
  note_unwatched(facts, seen);
  return facts;
}

}  // namespace

Profile named_allocation_profile(const std::vector<AllocationStack>& stacks,
                                 const AllocationFacts& seen, const std::vector<std::string>& names,
                                 const std::string& engine) {
  ProfileBuilder all;
  all.facts() = facts_of(stacks, seen, engine);
  for (const AllocationStack& stack : stacks) {
    std::vector<ProfileFrame> frames(1);
    for (auto at = stack.addresses.rbegin(); at != stack.addresses.rend(); ++at)
      frames.push_back({.function = *at < names.size() ? names[*at] : "[unknown]"});
    const std::uint64_t live = std::min(stack.live, stack.allocated);
    for (const auto& [what, bytes] :
         {std::pair{kLiveMemory, live}, std::pair{kFreedMemory, stack.allocated - live}}) {
      frames.front().function = what;
      if (bytes > 0) all.add(frames, bytes);
    }
  }
  return std::move(all).take();
}

Result<Profile> allocation_profile(const std::vector<AllocationStack>& stacks,
                                   const AllocationFacts& seen, const ProcessCapture& process,
                                   const TakeProfileOptions& options) {
  const std::string program = options.unwinder.empty() ? find_unwinder() : options.unwinder;
  if (program.empty()) return Error{Errc::NotFound, "trainrun-unwind is not installed"};
  ProfileBuilder all;
  ProfileFacts& facts = all.facts();
  facts = facts_of(stacks, seen, "the SDK");
  facts.executable = process.executable;
  facts.pid = process.pid;
  const TimePoint deadline = now() + kUnwindWithin;
  TRY(UnwinderStream unwinder, UnwinderStream::start(program, kUnwindProfile));
  Batches batches(process, unwinder, deadline);
  std::uint64_t bytes = 0;
  for (const AllocationStack& stack : stacks) {
    const std::uint64_t live = std::min(stack.live, stack.allocated);
    batches.add(stack, kLiveMemory, live);
    batches.add(stack, kFreedMemory, stack.allocated - live);
    bytes += stack.allocated;
  }
  batches.flush();
  const UnwinderOutput output = unwinder.finish(deadline);
  const std::uint64_t merged = add_unwound_profiles(output.messages, all);
  if (!output.trouble.empty())
    add_note(facts, fmt::format("{} have no stacks: the program that unwinds them {}",
                                size_text(bytes - std::min(bytes, merged)), output.trouble));
  return std::move(all).take();
}

}  // namespace train
