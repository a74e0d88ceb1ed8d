#include "lib/profile/sampling/profiled_processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <utility>

#include "lib/profile/profile_builder.h"
#include "lib/stacks/proc_files.h"

namespace train {
namespace {

// A sample of each thread has room: one that only waits is copied once a batch.
constexpr std::size_t kBatchSamples = kCapturedThreadsMax;
constexpr std::size_t kBatchBytes = 8u << 20;
constexpr Duration kUnsampledMax = 2 * kListEvery;  // of CPU time, which no note tells

}  // namespace

std::optional<Duration> cpu_time_of(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0)
    return std::nullopt;
  return seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

void note_unsampled_time(ProfileFacts& facts, std::uint64_t samples, bool with_kernel) {
  const Duration sampled = facts.period * static_cast<std::int64_t>(samples);
  const Duration unsampled = facts.cpu_time - std::min(facts.cpu_time, sampled);
  if (unsampled < kUnsampledMax || unsampled < facts.cpu_time / 5) return;
  add_note(facts,
           fmt::format("{} % of the CPU time has no samples: most likely, it was used {}by "
                       "threads that lived for less than {}",
                       100 * unsampled / facts.cpu_time, with_kernel ? "" : "in the kernel, or ",
                       format_duration(2 * kListEvery)));
}

ProfiledProcesses::Process::Process(const ProfiledProcess& what, std::size_t stack_bytes_max)
    : pid(what.pid), other_process(what.other_process), reader(what.pid, stack_bytes_max) {
  cpu_first = cpu_last = cpu_time_of(pid).value_or(Duration{0});
}

bool ProfiledProcesses::update() {
  const std::vector<ProfiledProcess> listed = list_();
  for (auto entry = processes_.begin(); entry != processes_.end();) {
    Process& process = entry->second;
    const bool lives = std::any_of(listed.begin(), listed.end(), [&](const ProfiledProcess& one) {
      return one.pid == process.pid;
    });
    if (lives) {
      ++entry;
      continue;
    }
    flush(process);
    cpu_of_ended_ += process.cpu_last - process.cpu_first;
    entry = processes_.erase(entry);
  }
  for (const ProfiledProcess& one : listed) processes_.try_emplace(one.pid, one, stack_bytes_max_);
  for (auto& [pid, process] : processes_) {
    process.cpu_last = cpu_time_of(pid).value_or(process.cpu_last);
    if (process.reader.is_outdated()) {
      flush(process);
      process.reader = ProcessReader(pid, stack_bytes_max_);
    }
    update_threads(process);
  }
  return !processes_.empty();
}

void ProfiledProcesses::update_threads(Process& process) const {
  const auto listed = threads_of(process.pid);
  std::map<pid_t, Thread> threads;
  for (std::size_t i = 0; listed && i < std::min(listed->size(), kCapturedThreadsMax); ++i) {
    const pid_t tid = (*listed)[i];
    const auto known = process.threads.find(tid);
    Thread thread = known == process.threads.end() ? Thread{} : std::move(known->second);
    std::string name = read_proc_text(fmt::format("/proc/{}/task/{}/comm", process.pid, tid), 64);
    while (!name.empty() && name.back() == '\n') name.pop_back();
    if (!name.empty()) thread.name = std::move(name);
    threads.emplace(tid, std::move(thread));
  }
  process.threads = std::move(threads);
}

std::optional<std::uint64_t> ProfiledProcesses::run_ns(pid_t pid, pid_t tid) {
  const std::string text = read_proc_text(fmt::format("/proc/{}/task/{}/schedstat", pid, tid), 128);
  std::uint64_t ns = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), ns).ec != std::errc{})
    return std::nullopt;
  return ns;
}

void ProfiledProcesses::add(Process& process, ThreadCapture capture, std::uint32_t samples) {
  const auto thread = process.threads.find(capture.facts.tid);
  if (thread != process.threads.end()) {
    capture.facts.name = thread->second.name;
    thread->second.batch = process.batch;
    thread->second.place = process.samples.samples.size();
  }
  samples_ += samples;
  process.bytes += capture.stack.size();
  process.samples.samples.push_back(samples);
  process.samples.process.threads.push_back(std::move(capture));
  if (process.samples.samples.size() >= kBatchSamples || process.bytes >= kBatchBytes)
    flush(process);
}

bool ProfiledProcesses::repeat(Process& process, const Thread& thread, std::uint32_t samples) {
  if (thread.batch != process.batch) return false;
  process.samples.samples[thread.place] += samples;
  return true;
}

void ProfiledProcesses::flush() {
  for (auto& [pid, process] : processes_) flush(process);
}

void ProfiledProcesses::flush(Process& process) {
  SampleBatch batch = std::exchange(process.samples, {});
  process.bytes = 0;
  ++process.batch;
  if (batch.samples.empty()) return;
  process.reader.read_mappings();  // it may have loaded more code
  auto threads = std::move(batch.process.threads);
  batch.process = process.reader.describe();
  batch.process.threads = std::move(threads);
  batch.other_process = process.other_process;
  std::uint64_t samples = 0;
  for (const std::uint64_t one : batch.samples) samples += one;
  if (!queue_.push(std::move(batch))) lost_ += samples;
}

Duration ProfiledProcesses::cpu_time() const {
  Duration time = cpu_of_ended_;
  for (const auto& [pid, process] : processes_) time += process.cpu_last - process.cpu_first;
  return time;
}

}  // namespace train
