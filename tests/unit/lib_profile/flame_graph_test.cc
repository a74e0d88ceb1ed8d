// The page of a profile: everything of it is data, whatever its names hold.
#include "lib/profile/report/flame_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace train {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Return what the page's script reads.
std::string data_of(const std::string& html) {
  const std::string_view begin = R"(<script type="application/json" id="data">)";
  const std::size_t from = html.find(begin) + begin.size();
  return html.substr(from, html.find("</script>", from) - from);
}

TEST(FlameGraph, HoldsTheProfileAsData) {
  const Profile profile{.facts = {.kind = ProfileKind::Wall,
                                  .engine = "ptrace",
                                  .lasted = seconds{5},
                                  .period = milliseconds{50},
                                  .cpu_time = seconds{1},
                                  .notes = {"a note"}},
                        .frames = {{"thread worker", "", ""}, {"int main(int)", "worker", "w.cc"}},
                        .stacks = {{{0, 1}, 100}}};
  EXPECT_EQ(
      data_of(flame_graph_html(profile, {.rank = 3, .node = "n2"})),
      R"json({"title":"wall profile of rank 3 on n2",)json"
      R"json("sampling":"1.00 of 5.0 s on a CPU; 100 samples, one each 50 ms, by ptrace",)json"
      R"json("period_ms":50.0,"unit":"samples","notes":["a note"],"hot":[["main","worker",100,100]],)json"
      R"json("frames":[["thread worker","thread worker","",""],)json"
      R"json(["main","int main(int)","worker","w.cc"]],"stacks":[[100,[0,1]]]})json");
}

TEST(FlameGraph, OfMemoryIsInBytes) {
  const Profile profile{
      .facts = {.kind = ProfileKind::Memory},
      .frames = {{std::string(kLiveMemory), "", ""}, {"int main(int)", "worker", "w.cc"}},
      .stacks = {{{0, 1}, 100}}};
  const std::string data = data_of(flame_graph_html(profile, {}));
  EXPECT_THAT(data, HasSubstr(R"("title":"memory profile of rank 0")"));
  EXPECT_THAT(data, HasSubstr(R"("unit":"bytes")"));
  EXPECT_THAT(data, HasSubstr(R"("hot":[["main","worker",100,100]])"));
}

TEST(FlameGraph, NamesCannotLeaveTheirPlace) {
  const Profile profile{.frames = {{"</script><script>alert(1)</script><!--", "<b>", "&"}},
                        .stacks = {{{0}, 1}}};
  const std::string html = flame_graph_html(profile, {.rank = 0, .node = "</script>"});
  EXPECT_THAT(data_of(html), Not(HasSubstr("<")));
  EXPECT_THAT(data_of(html), HasSubstr("\\u003c/script>\\u003cscript>alert(1)"));
  EXPECT_THAT(html, testing::EndsWith("</html>\n"));
}

TEST(FlameGraph, AsksNobodyForAnything) {
  const std::string html = flame_graph_html({}, {});
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  for (const char* text : {"http:", "https:", "src=", "innerHTML", "onclick", "eval("})
    EXPECT_THAT(html, Not(HasSubstr(text)));
}

}  // namespace
}  // namespace train
