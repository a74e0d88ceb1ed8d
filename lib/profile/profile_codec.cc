#include "lib/profile/profile_codec.h"

#include <algorithm>

#include "lib/stacks/byte_codec.h"
#include "lib/stacks/process_stacks.h"
#include "lib/stacks/stacks_codec.h"

namespace train {
namespace {

constexpr std::size_t kTextBytesMax = 512;  // as ProfileBuilder makes them
constexpr std::size_t kCountMax = kProfileBytesMax / 8;
constexpr std::size_t kEngineBytesMax = 64;

void put_duration(ByteWriter& out, Duration time) {
  out.number(static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0)));
}

/// Read a time of at most a day: what is shown, and multiplied, stays sane.
Duration get_duration(ByteReader& in) {
  constexpr std::uint64_t kMax = 24ull * 3600 * 1'000'000'000;
  return Duration(static_cast<std::int64_t>(std::min(in.number(), kMax)));
}

void put_facts(ByteWriter& out, const ProfileFacts& facts) {
  out.number(static_cast<std::uint64_t>(facts.kind), 1);
  out.text(facts.engine, kEngineBytesMax);
  out.text(facts.executable, kMappingPathBytesMax);
  out.number(static_cast<std::uint64_t>(facts.pid));
  for (const Duration time : {facts.lasted, facts.period, facts.cpu_time}) put_duration(out, time);
  out.number(facts.sample_bytes);
  out.number(facts.memory_samples);
  out.number(facts.lost);
  out.number(facts.guessed);
  const std::size_t count = std::min(facts.notes.size(), kProfileNotesMax);
  out.number(count, 4);
  for (std::size_t i = 0; i < count; ++i) out.text(facts.notes[i], kStackTextBytesMax);
}

ProfileFacts get_facts(ByteReader& in) {
  ProfileFacts facts;
  facts.kind = static_cast<ProfileKind>(
      std::min(in.number(1), static_cast<std::uint64_t>(ProfileKind::Memory)));
  facts.engine = in.text(kEngineBytesMax);
  facts.executable = in.text(kMappingPathBytesMax);
  facts.pid = static_cast<std::int64_t>(in.number());
  for (Duration* time : {&facts.lasted, &facts.period, &facts.cpu_time}) *time = get_duration(in);
  facts.sample_bytes = std::min(in.number(), kProfileSamplesMax);
  facts.memory_samples = std::min(in.number(), kProfileSamplesMax);
  facts.lost = std::min(in.number(), kProfileSamplesMax);
  facts.guessed = std::min(in.number(), kProfileSamplesMax);
  facts.notes.resize(in.count(kProfileNotesMax, 4));
  for (std::string& note : facts.notes) note = in.text(kStackTextBytesMax);
  return facts;
}

Error bad(std::string_view what) {
  return {Errc::Protocol, std::string(what) + " is cut short, or exceeds a limit"};
}

}  // namespace

std::string encode_profile(const Profile& profile) {
  ByteWriter out;
  put_facts(out, profile.facts);
  out.number(profile.frames.size(), 4);
  for (const ProfileFrame& frame : profile.frames) {
    out.text(frame.function, kTextBytesMax);
    out.text(frame.module, kTextBytesMax);
    out.text(frame.file, kTextBytesMax);
  }
  out.number(profile.stacks.size(), 4);
  for (const ProfileStack& stack : profile.stacks) {
    out.number(stack.samples);
    out.number(stack.frames.size(), 4);
    for (const std::uint32_t index : stack.frames) out.number(index, 4);
  }
  return std::move(out).take();
}

Result<Profile> decode_profile(std::string_view bytes) {
  ByteReader in(bytes);
  Profile profile{.facts = get_facts(in)};
  profile.frames.resize(in.count(kCountMax, 12));
  for (ProfileFrame& frame : profile.frames) {
    frame.function = in.text(kTextBytesMax);
    frame.module = in.text(kTextBytesMax);
    frame.file = in.text(kTextBytesMax);
  }
  profile.stacks.resize(in.count(kCountMax, 12));
  for (ProfileStack& stack : profile.stacks) {
    stack.samples = std::min(in.number(), kProfileSamplesMax);
    stack.frames.resize(in.count(kProfileDepthMax, 4));
    for (std::uint32_t& index : stack.frames) {
      index = static_cast<std::uint32_t>(in.number(4));
      if (index >= profile.frames.size()) return bad("a profile");
    }
  }
  if (!in.complete()) return bad("a profile");
  return profile;
}

std::string encode_samples(const SampleBatch& batch) {
  ByteWriter out;
  out.text(batch.other_process, kTextBytesMax);
  out.number(batch.of_memory ? 1 : 0, 1);
  out.number(batch.samples.size(), 4);
  for (const std::uint64_t samples : batch.samples) out.number(samples);
  out.text(encode_capture(batch.process), kStackMessageBytesMax);
  return std::move(out).take();
}

Result<SampleBatch> decode_samples(std::string_view payload) {
  ByteReader in(payload);
  SampleBatch batch;
  batch.other_process = in.text(kTextBytesMax);
  batch.of_memory = in.flag();
  batch.samples.resize(in.count(kCapturedThreadsMax, 8));
  for (std::uint64_t& samples : batch.samples) samples = in.number();
  const std::string_view capture = in.text(kStackMessageBytesMax);
  if (!in.complete()) return bad("a message with samples");
  TRY(batch.process, decode_capture(capture));
  return batch;
}

}  // namespace train
