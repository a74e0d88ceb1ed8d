#include "lib/profile/profile_builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/utf8.h"
#include "lib/stacks/function_names.h"

namespace train {
namespace {

constexpr std::size_t kTextBytesMax = 512;  // of each text of a frame
constexpr std::size_t kStackBytes = 16;     // of a stack, without its frames
constexpr std::size_t kFrameBytes = 16;

/// Return the text without what would end a frame, or a line, in the folded format.
std::string frame_text(std::string_view text) {
  std::string clean = utf8_text(text, kTextBytesMax);
  for (char& c : clean) {
    if (c == ';') c = ':';
    if (static_cast<unsigned char>(c) < ' ') c = '?';
  }
  return clean;
}

ProfileFrame frame_of(const StackFrame& frame) {
  return {.function = frame.function, .module = frame.module, .file = frame.file};
}

/// Say of a thread without frames where the kernel holds it.
std::string without_frames(const ThreadFacts& facts) {
  if (!facts.wchan.empty()) return fmt::format("[in the kernel: {}]", facts.wchan);
  if (!facts.syscall.empty()) return fmt::format("[in the kernel: {}]", facts.syscall);
  return "[no stack]";
}

}  // namespace

void ProfileBuilder::add(const std::vector<ProfileFrame>& frames, std::uint64_t samples) {
  add(
      frames.size(),
      [&](std::size_t place, std::size_t& bytes_left) {
        return index_of(frames[place], bytes_left);
      },
      samples);
}

void ProfileBuilder::add(std::size_t depth, const IndexAt& index_at, std::uint64_t samples) {
  if (samples == 0 || depth == 0) return;
  if (count(depth, index_at, samples, bytes_left_)) return;
  const IndexAt others = [&](std::size_t place, std::size_t& bytes_left) {
    return place == 0 ? index_at(0, bytes_left)
                      : index_of({.function = "[other stacks]"}, bytes_left);
  };
  if (count(2, others, samples, spare_bytes_))
    add_note(facts_, "there were more stacks than fit: the others are one");
  else
    facts_.lost += samples;
}

bool ProfileBuilder::count(std::size_t depth, const IndexAt& index_at, std::uint64_t samples,
                           std::size_t& bytes_left) {
  std::vector<std::uint32_t> stack;
  for (std::size_t place = 0; place < std::min(depth, kProfileDepthMax); ++place) {
    const auto index = index_at(place, bytes_left);
    if (!index) return false;
    stack.push_back(*index);
  }
  const std::size_t bytes = kStackBytes + stack.size() * sizeof(std::uint32_t);
  auto known = stacks_.find(stack);
  if (known == stacks_.end()) {
    if (bytes > bytes_left) return false;
    bytes_left -= bytes;
    known = stacks_.emplace(std::move(stack), 0).first;
  }
  known->second =
      std::min(known->second + std::min(samples, kProfileSamplesMax), kProfileSamplesMax);
  return true;
}

std::optional<std::uint32_t> ProfileBuilder::index_of(const ProfileFrame& frame,
                                                      std::size_t& bytes_left) {
  ProfileFrame clean{frame_text(frame.function), frame_text(frame.module), frame_text(frame.file)};
  const auto known = indices_.find(clean);
  if (known != indices_.end()) return known->second;
  const std::size_t bytes =
      kFrameBytes + clean.function.size() + clean.module.size() + clean.file.size();
  if (bytes > bytes_left) return std::nullopt;
  bytes_left -= bytes;
  const auto index = static_cast<std::uint32_t>(indices_.size());
  indices_.emplace(std::move(clean), index);
  return index;
}

void ProfileBuilder::add(const Profile& other) {
  // Each of its frames is looked up once, since many of its stacks share it.
  std::vector<std::optional<std::uint32_t>> ours(other.frames.size());
  for (const ProfileStack& stack : other.stacks) {
    const IndexAt index_at = [&](std::size_t place, std::size_t& bytes_left) {
      auto& index = ours.at(stack.frames[place]);
      if (!index) index = index_of(other.frames[stack.frames[place]], bytes_left);
      return index;
    };
    add(stack.frames.size(), index_at, stack.samples);
  }
  facts_.lost += other.facts.lost;
  facts_.guessed += other.facts.guessed;
  for (const std::string& note : other.facts.notes) add_note(facts_, note);
}

void ProfileBuilder::add_memory(const ProcessStacks& process,
                                const std::vector<std::uint64_t>& bytes) {
  for (std::size_t i = 0; i < std::min(process.threads.size(), bytes.size()); ++i) {
    const auto& inner = process.threads[i].frames;
    auto first = inner.begin();
    while (first != inner.end() && is_allocator(short_name(frame_of(*first)))) ++first;
    if (first == inner.end()) first = inner.begin();
    std::vector<ProfileFrame> frames{{.function = process.threads[i].facts.name}};
    for (auto frame = inner.rbegin(); frame.base() != first; ++frame)
      frames.push_back(frame_of(*frame));
    if (inner.empty()) frames.emplace_back();  // unknown
    add(frames, bytes[i]);
  }
  for (const std::string& note : process.notes) add_note(facts_, note);
}

void ProfileBuilder::add(const ProcessStacks& process, const std::vector<std::uint64_t>& samples,
                         std::string_view other_process) {
  for (std::size_t i = 0; i < std::min(process.threads.size(), samples.size()); ++i) {
    const ThreadStack& thread = process.threads[i];
    std::vector<ProfileFrame> frames;
    if (!other_process.empty())
      frames.push_back({.function = fmt::format("process {}", other_process)});
    frames.push_back({.function = fmt::format("thread {}", thread.facts.name)});
    if (thread.frames.empty()) frames.push_back({.function = without_frames(thread.facts)});
    for (auto frame = thread.frames.rbegin(); frame != thread.frames.rend(); ++frame)
      frames.push_back(frame_of(*frame));
    add(frames, samples[i]);
    const bool guessed = std::any_of(thread.frames.begin(), thread.frames.end(),
                                     [](const StackFrame& frame) { return frame.guessed; });
    if (guessed) facts_.guessed += samples[i];
  }
  for (const std::string& note : process.notes) add_note(facts_, note);
}

Profile ProfileBuilder::take() && {
  Profile profile{.facts = std::move(facts_)};
  std::vector<std::uint32_t> sorted(indices_.size());  // by their old indices
  for (const auto& [frame, index] : indices_) {
    sorted[index] = static_cast<std::uint32_t>(profile.frames.size());
    profile.frames.push_back(frame);
  }
  for (const auto& [frames, samples] : stacks_) {
    ProfileStack stack{.samples = samples};
    for (const std::uint32_t index : frames) stack.frames.push_back(sorted[index]);
    profile.stacks.push_back(std::move(stack));
  }
  std::sort(profile.stacks.begin(), profile.stacks.end(),
            [](const ProfileStack& a, const ProfileStack& b) { return a.frames < b.frames; });
  return profile;
}

void add_note(ProfileFacts& facts, const std::string& note) {
  auto& notes = facts.notes;
  if (notes.size() < kProfileNotesMax && std::find(notes.begin(), notes.end(), note) == notes.end())
    notes.push_back(utf8_text(note, kStackTextBytesMax));
}

}  // namespace train
