#include "lib/profile/sampling/take_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lib/profile/profile_builder.h"
#include "lib/profile/profile_codec.h"
#include "lib/profile/sampling/python_profile.h"
#include "lib/profile/sampling/unwound_profiles.h"
#include "lib/stacks/proc_files.h"
#include "lib/stacks/stacks_codec.h"
#include "lib/stacks/take_stacks.h"
#include "lib/stacks/unwinder_process.h"

namespace train {
namespace {

constexpr Duration kSamplerMargin = seconds{5};  // for /proc to answer at the end
constexpr Duration kNativeTimeMin = seconds{1};  // if py-spy has failed late

TimePoint now() { return std::chrono::steady_clock::now(); }

/// Say why perf events cannot be had, and what to do, in one line.
std::string without_perf(const Error& why) {
  return fmt::format(
      "sampled by stops of threads (ptrace), since perf_event_open is refused here: {}; "
      "kernel.perf_event_paranoid is {}: 2 or less allows it, in a container also CAP_PERFMON",
      why.describe(), perf_event_paranoid());
}

struct Begun {
  std::shared_ptr<Sampling> sampling;
  std::string note;
};

Result<Begun> begin_sampling(const SamplingOrder& order) {
  Begun begun{.sampling = std::make_shared<Sampling>(), .note = ""};
  if (order.kind == ProfileKind::Cpu) {
    const auto perf = begin_perf_sampling(order, begun.sampling);
    if (perf) return begun;
    if (perf.error().code != Errc::Permission) return perf.error();
    begun.note = without_perf(perf.error());
  }
  TRY_VOID(begin_ptrace_sampling(order, begun.sampling));
  return begun;
}

/// Pass on batches until none comes any more, and return how many samples they have. An unwinder
/// that does not take them ends with an error of its own; the rank is sampled to the end all the
/// same.
std::uint64_t pass_on(Sampling& sampling, UnwinderStream& unwinder, TimePoint deadline) {
  std::uint64_t samples = 0;
  bool takes = true;
  while (const auto batch = sampling.queue.pop(deadline)) {
    samples += std::accumulate(batch->samples.begin(), batch->samples.end(), std::uint64_t{0});
    if (!takes) continue;
    const std::string payload = encode_samples(*batch);
    takes = unwinder.write(stack_message_header(payload.size()), deadline).has_value() &&
            unwinder.write(payload, deadline).has_value();
  }
  return samples;
}

Result<Profile> take_native_profile(const SamplingOrder& order, const TakeProfileOptions& options) {
  const std::string program = options.unwinder.empty() ? find_unwinder() : options.unwinder;
  if (program.empty()) return Error{Errc::NotFound, "trainrun-unwind is not installed"};
  const auto listed = order.processes();
  if (listed.empty()) return Error{Errc::NotFound, "the worker has ended"};
  const std::string executable = executable_of(listed.front().pid);
  const TimePoint sampled_by = now() + order.time + kSamplerMargin;
  TRY(UnwinderStream unwinder, UnwinderStream::start(program, kUnwindProfile));
  TRY(const Begun begun, begin_sampling(order));
  const std::uint64_t passed = pass_on(*begun.sampling, unwinder, sampled_by);
  const UnwinderOutput output = unwinder.finish(now() + kUnwindWithin);
  if (!begun.sampling->queue.closed()) {
    begun.sampling->queue.close();  // a sampler that still hangs ends in vain
    return Error{Errc::Timeout, "/proc did not answer in time"};
  }
  ProfileBuilder all;
  ProfileFacts& facts = all.facts();
  facts = begun.sampling->found();
  facts.kind = order.kind;
  facts.pid = listed.front().pid;
  facts.executable = executable;
  if (!begun.note.empty()) add_note(facts, begun.note);
  if (facts.lasted + kListEvery < order.time) add_note(facts, "the worker ended meanwhile");
  const std::uint64_t merged = add_unwound_profiles(output.messages, all);
  facts.lost += passed - std::min(merged, passed);
  if (!output.trouble.empty())
    add_note(facts, "some samples have no stacks: the program that unwinds them " + output.trouble);
  return std::move(all).take();
}

}  // namespace

Result<Profile> take_profile(const SamplingOrder& order, const TakeProfileOptions& options) {
  const auto listed = order.processes();
  if (listed.empty()) return Error{Errc::NotFound, "the worker has ended"};
  const TimePoint began = now();
  auto python = take_python_profile(order, listed.front().pid);
  if (python && *python) return std::move(**python);
  SamplingOrder native = order;
  native.time = std::max(order.time - (now() - began), std::min(order.time, kNativeTimeMin));
  auto profile = take_native_profile(native, options);
  if (profile && !python)
    add_note(profile->facts, "without the functions of Python: " + python.error().describe());
  return profile;
}

}  // namespace train
