#include "lib/profile/report/profile_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "lib/base/json_text.h"

namespace train {

std::string folded_stacks(const Profile& profile) {
  std::string text;
  for (const ProfileStack& stack : profile.stacks) {
    for (std::size_t i = 0; i < stack.frames.size(); ++i) {
      if (i > 0) text += ';';
      text += full_name(profile.frames.at(stack.frames[i]));
    }
    text += fmt::format(" {}\n", stack.samples);
  }
  return text;
}

std::string speedscope_json(const Profile& profile, const ProfiledRank& whom) {
  const bool of_memory = profile.facts.kind == ProfileKind::Memory;
  const double period_us = std::chrono::duration<double, std::micro>(profile.facts.period).count();
  const double one = of_memory ? 1.0 : std::max(period_us, 1.0);
  const auto weight = [one](std::uint64_t samples) { return one * static_cast<double>(samples); };
  JsonWriter out;
  out.object().member("$schema", "https://www.speedscope.app/file-format-schema.json");
  out.member("name", profile_title(profile, whom)).member("exporter", "trainrun");
  out.member("activeProfileIndex", 0).key("shared").object().key("frames").array();
  for (const ProfileFrame& frame : profile.frames) {
    out.object().member("name", full_name(frame));
    if (!frame.file.empty()) out.member("file", frame.file);
    out.end();
  }
  out.end().end().key("profiles").array().object().member("type", "sampled");
  out.member("name", profile_title(profile, whom))
      .member("unit", of_memory ? "bytes" : "microseconds");
  out.member("startValue", 0).member("endValue", weight(samples_of(profile)));
  out.key("samples").array();
  for (const ProfileStack& stack : profile.stacks) {
    out.array();
    for (const std::uint32_t frame : stack.frames) out.value(frame);
    out.end();
  }
  out.end().key("weights").array();
  for (const ProfileStack& stack : profile.stacks) out.value(weight(stack.samples));
  out.end().end().end().end();
  return std::move(out).take();
}

}  // namespace train
