#include "launcher/core/search/searcher_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>

namespace train {
namespace {

using testing::HasSubstr;

SearchSpec spec_of_all_kinds() {
  return {.metric = "loss",
          .search = SearchKind::Command,
          .command = {"search"},
          .num_trials = 8,
          .seed = 3,
          .points = {{{"i", 2}}},
          .parameters = {{.path = "u", .kind = ParameterKind::Uniform, .low = 0, .high = 0.5},
                         {.path = "l", .kind = ParameterKind::LogUniform, .low = 1, .high = 8},
                         {.path = "i", .kind = ParameterKind::Int, .least = 1, .greatest = 9},
                         {.path = "c", .kind = ParameterKind::Choice, .values = {"a", nullptr}},
                         {.path = "k", .values = {7}}}};
}
const boost::json::object kValues{{"u", 0.5}, {"l", 2}, {"i", 9}, {"c", nullptr}};

TEST(SearcherMessages, BeginSaysWhatIsSearchedAndWhatThereHasBeen) {
  SearchController search(spec_of_all_kinds());
  search.handle(TrialStarted{0, kValues});
  search.handle(TrialReported{0, 1, 0.25});
  search.handle(TrialStarted{1, kValues});
  search.handle(TrialEnded{1, TrialEnd::Failed, 1, "why"});
  EXPECT_EQ(
      boost::json::serialize(begin_message(search, "/runs/s")),
      R"({"begin":{"sweep":"/runs/s","metric":"loss","mode":"min","num_trials":8,"seed":3,)"
      R"("parameters":[{"name":"u","uniform":[0E0,5E-1]},{"name":"l","log_uniform":[1E0,8E0]},)"
      R"({"name":"i","int":[1,9]},{"name":"c","choice":["a",null]},{"name":"k","const":7}],)"
      R"("points":[{"i":2}],)"
      R"("trials":[{"trial":0,"parameters":{"u":5E-1,"l":2,"i":9,"c":null},)"
      R"("state":"running","value":2.5E-1},{"trial":1,"parameters":{"u":5E-1,"l":2,"i":9,)"
      R"("c":null},"state":"failed","value":null}]}})");
}

TEST(SearcherMessages, ReportsHaveNoNumberThatJsonLacks) {
  EXPECT_EQ(boost::json::serialize(report_message({3, 2, std::nan("")})),
            R"({"report":{"trial":3,"time":2E0,"value":null}})");
}

TEST(SearcherMessages, AnswersAreRead) {
  const SearchSpec spec = spec_of_all_kinds();
  const auto read = [&](const char* text) {
    return read_answer(boost::json::parse(text), spec, 4).value();
  };
  boost::json::object all = kValues;
  all["k"] = 7;
  EXPECT_EQ(read(R"({"trial": 4, "parameters": {"u": 0.5, "l": 2, "i": 9, "c": null}})"),
            SearcherAnswer(TrialProposed{4, all}));
  EXPECT_EQ(read(R"({"done": true})"), SearcherAnswer(SearcherDone{}));
  EXPECT_EQ(read(R"({"stop": 2})"), SearcherAnswer(TrialPruned{2}));
}

TEST(SearcherMessages, WrongAnswersAreNamed) {
  const SearchSpec spec = spec_of_all_kinds();
  const std::vector<std::pair<const char*, const char*>> wrong{
      {"3", "is no JSON object"},
      {"{}", "is none of"},
      {R"({"stop": -1})", "names none"},
      {R"({"stop": 1e3})", "names none"},
      {R"({"stop": 9223372036854775807})", "names none"},
      {R"({"done": false})", "is not {\"done\": true}"},
      {R"({"trial": 5, "parameters": {}})", "not asked for"},
      {R"({"trial": 4, "parameters": []})", "no JSON object"},
      {R"({"trial": 4, "parameters": {"u": 0.5, "l": 2, "i": 9}})", "\"c\" is missing"},
      {R"({"trial": 4, "parameters": {"u": 0.6, "l": 2, "i": 9, "c": "a"}})", "\"u\" has a value"},
      {R"({"trial": 4, "parameters": {"u": 0.5, "l": 2, "i": 9.5, "c": "a"}})",
       "\"i\" has a value"},
      {R"({"trial": 4, "parameters": {"u": 0.5, "l": 2, "i": 9, "c": "b"}})", "\"c\" has a value"},
      {R"({"trial": 4, "parameters": {"u": 0, "l": 2, "i": 9, "c": "a", "k": 8}})",
       "\"k\" has a value"},
      {R"({"trial": 4, "parameters": {"u": 0, "l": 2, "i": 9, "c": "a", "z": 8}})",
       "\"z\" is no parameter"},
      {R"({"trial": 4, "parameters": {}, "more": 1})", "is none of"}};
  for (const auto& [text, why] : wrong) {
    const auto answer = read_answer(boost::json::parse(text), spec, 4);
    ASSERT_TRUE(answer.has_error()) << text;
    EXPECT_THAT(answer.error().message, HasSubstr(why)) << text;
  }
  EXPECT_TRUE(
      read_answer(boost::json::parse(R"({"trial": 4, "parameters": {}})"), spec, {}).has_error())
      << "nothing was asked";
}

}  // namespace
}  // namespace train
