#include "lib/profile/report/flame_graph.h"

#include <string_view>

#include "lib/base/json_text.h"
#include "lib/profile/report/flame_graph_page.h"

namespace train {
namespace {

constexpr std::size_t kHotFunctions = 20;
constexpr std::string_view kPlaceOfData = "%DATA%";

std::string json_of(const Profile& profile, const ProfiledRank& whom) {
  JsonWriter out;
  out.object().member("title", profile_title(profile, whom));
  out.member("sampling", describe_sampling(profile));
  out.member("period_ms", std::chrono::duration<double, std::milli>(profile.facts.period).count());
  out.member("unit", profile.facts.kind == ProfileKind::Memory ? "bytes" : "samples");
  out.key("notes").array();
  for (const std::string& note : profile.facts.notes) out.value(note);
  out.end().key("hot").array();
  for (const HotFunction& one : hot_functions(profile, kHotFunctions))
    out.array().value(one.name).value(one.module).value(one.self).value(one.total).end();
  out.end().key("frames").array();
  for (const ProfileFrame& frame : profile.frames)
    out.array()
        .value(short_name(frame))
        .value(full_name(frame))
        .value(frame.module)
        .value(frame.file)
        .end();
  out.end().key("stacks").array();
  for (const ProfileStack& stack : profile.stacks) {
    out.array().value(stack.samples).array();
    for (const std::uint32_t frame : stack.frames) out.value(frame);
    out.end().end();
  }
  out.end().end();
  return std::move(out).take();
}

/// Return JSON that cannot end the element that holds it.
std::string in_script(std::string_view json) {
  std::string text;
  for (const char c : json) {
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  }
  return text;
}

}  // namespace

std::string flame_graph_html(const Profile& profile, const ProfiledRank& whom) {
  const std::string_view page = kFlameGraphPage;
  const std::size_t at = page.find(kPlaceOfData);
  return std::string(page.substr(0, at)) + in_script(json_of(profile, whom)) +
         std::string(page.substr(at + kPlaceOfData.size()));
}

}  // namespace train
