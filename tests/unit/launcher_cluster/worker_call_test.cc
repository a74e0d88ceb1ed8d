// A call of a worker's function, as users and drivers write it.
#include "launcher/cluster/run/worker_call.h"

#include <gmock/gmock.h>

#include <boost/json.hpp>

#include "launcher/cluster/run/driver_port.h"
#include "lib/model/worker_call.h"

namespace train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<WorkerCall> parse(const std::string& text) {
  return parse_worker_call(boost::json::parse(text).as_object());
}

TEST(WorkerCalls, HaveDefaults) {
  const auto call = parse(R"({"name": "set_lr"})");
  ASSERT_TRUE(call);
  EXPECT_EQ(call->argument, "null");
  EXPECT_TRUE(call->ranks.empty());
  EXPECT_EQ(call->within, seconds(30));
}

TEST(WorkerCalls, ComeBackAsTheyWereWritten) {
  const auto call = parse(
      R"({"name": "f", "argument": {"a": [1, 2.5, "x"]}, "ranks": [3, 1, 3], "within_ms": 7})");
  ASSERT_TRUE(call);
  EXPECT_THAT(call->ranks, ElementsAre(Rank{1}, Rank{3}));
  EXPECT_EQ(call->within, milliseconds(7));
  const auto again = parse_worker_call(to_json(*call));
  ASSERT_TRUE(again);
  EXPECT_EQ(to_json(*again), to_json(*call));
}

TEST(WorkerCalls, MayBeCommands) {
  const auto call = parse(R"({"run": ["gdb", "", "-batch"], "ranks": [3]})");
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_THAT(call->command, ElementsAre("gdb", "", "-batch"));
  EXPECT_EQ(call->name, "");
  const auto again = parse_worker_call(to_json(*call));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->command, call->command);

  for (const char* wrong :
       {R"({"run": []})", R"({"run": [""]})", R"({"run": "ls"})", R"({"run": ["ls", 3]})",
        R"({"run": ["ls\u0000"]})", R"({"run": ["ls"], "name": "f"})"})
    EXPECT_THAT(parse(wrong).error().message, HasSubstr("'run'")) << wrong;
  EXPECT_THAT(parse(R"({"run": [")" + std::string(70'000, 'a') + R"("]})").error().message,
              HasSubstr("70001 bytes"));
}

TEST(WorkerCalls, ACommandsEndIsReadAsTheNodeSaysIt) {
  const auto good = parse_command_end(R"({"exit_code": 3, "stdout": "a", "stderr": "b"})");
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ(good->exit_code, 3);
  EXPECT_EQ(good->out, "a");
  EXPECT_EQ(good->err, "b");
  EXPECT_FALSE(good->cut);

  const auto killed = parse_command_end(
      R"({"signal": "SIGKILL", "timed_out": true, "stdout": "", "stderr": "", "cut": true})");
  ASSERT_TRUE(killed) << killed.error().message;
  EXPECT_EQ(killed->signal, "SIGKILL");
  EXPECT_TRUE(killed->timed_out);
  EXPECT_TRUE(killed->cut);

  for (const char* other :
       {"", "null", "[]", R"({"stdout": "", "stderr": ""})",
        R"({"exit_code": "3", "stdout": "", "stderr": ""})", R"({"exit_code": 3, "stdout": ""})"})
    EXPECT_FALSE(parse_command_end(other)) << other;
}

TEST(WorkerCalls, WrongOnesAreNamed) {
  const auto why = [](const std::string& text) {
    const auto call = parse(text);
    return call ? "" : call.error().message;
  };
  for (const char* name : {"{}", R"({"name": ""})", R"({"name": 3})", R"({"name": "a b"})",
                           R"({"name": "a\u0000"})", R"({"name": "ü"})"})
    EXPECT_THAT(why(name), HasSubstr("a call has the 'name' of a function")) << name;
  EXPECT_THAT(why(R"({"name": ")" + std::string(129, 'a') + R"("})"), HasSubstr("up to 128"));
  EXPECT_EQ(why(R"({"name": ")" + std::string(128, 'a') + R"("})"), "");
  for (const char* ranks : {"[]", "3", "{}"})
    EXPECT_THAT(why(R"({"name": "f", "ranks": )" + std::string(ranks) + "}"),
                HasSubstr("leave it out to call all"));
  for (const char* ranks : {"[-1]", "[1.5]", "[\"0\"]", "[9223372036854775807]"})
    EXPECT_THAT(why(R"({"name": "f", "ranks": )" + std::string(ranks) + "}"),
                HasSubstr("which is no rank"));
  for (const char* within : {"0", "-5", "1e3", "9223372036854775807", "\"1s\""})
    EXPECT_THAT(why(R"({"name": "f", "within_ms": )" + std::string(within) + "}"),
                HasSubstr("from 1 to 86400000"));
}

TEST(WorkerCalls, ValuesAreBounded) {
  EXPECT_EQ(*checked_call_value(" [1,  2] "), "[1,2]");
  EXPECT_THAT(checked_call_value("[1").error().message, HasSubstr("is no JSON value"));
  EXPECT_FALSE(checked_call_value(std::string(40, '[') + std::string(40, ']')));
  EXPECT_THAT(checked_call_value('"' + std::string(kCallValueBytesMax, 'x') + '"').error().message,
              HasSubstr("may have 524288"));
}

TEST(CallAnswersText, IsReadAgainAndNothingElse) {
  const CallAnswers answers{
      .ranks = {{Rank{0}, R"({"lr":0.1})"}, {Rank{2}, "", "ValueError: no", "thrown"}}};
  const std::string text = boost::json::serialize(to_json(answers));
  EXPECT_EQ(
      text,
      R"({"ranks":[{"rank":0,"result":{"lr":1E-1}},{"rank":2,"error":"ValueError: no","kind":"thrown"}]})");
  const auto again = parse_call_answers(text);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->ranks.at(1), answers.ranks.at(1));
  EXPECT_EQ(parse_call_answers(R"({"error": "no workers"})")->error, "no workers");
  for (const char* wrong :
       {"", "[]", "{}", R"({"ranks": 3})", R"({"ranks": [3]})",
        R"({"ranks": [{"rank": -1, "result": 1}]})", R"({"ranks": [{"rank": 1}]})",
        R"({"ranks": [{"rank": 1, "error": ""}]})"})
    EXPECT_FALSE(parse_call_answers(wrong)) << wrong;
}

TEST(CallAnswersText, HoldsValuesThatAreAsDeepAsTheyMayBe) {
  const std::string deep = std::string(31, '[') + std::string(31, ']');
  ASSERT_TRUE(checked_call_value(deep));
  EXPECT_FALSE(checked_call_value("[" + deep + "]"));
  const std::string text = boost::json::serialize(to_json(CallAnswers{.ranks = {{Rank{0}, deep}}}));
  const auto again = parse_call_answers(text);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->ranks.at(0).result, deep);
  EXPECT_TRUE(parse_driver_command(R"({"command": "call", "id": 1, "name": "f", "argument": )" +
                                   deep + "}"));
}

TEST(DriverCalls, AreReadAndAnsweredByLine) {
  const auto command =
      parse_driver_command(R"({"command": "call", "id": 9, "name": "f", "argument": 3})");
  ASSERT_TRUE(command);
  EXPECT_EQ(command->kind, DriverCommand::Kind::Call);
  EXPECT_EQ(command->id, 9);
  EXPECT_EQ(command->call.argument, "3");
  EXPECT_THAT(parse_driver_command(R"({"command": "call", "name": "f"})").error().message,
              HasSubstr("without an id"));
  const auto wrong = parse_driver_command(R"({"command": "call", "id": 1})");
  ASSERT_TRUE(wrong) << "it is answered: the driver waits";
  EXPECT_EQ(wrong->id, 1);
  EXPECT_THAT(wrong->wrong, HasSubstr("a call has the 'name'"));

  const auto beside = parse_driver_command(R"({"command": "call", "id": 2, "run": ["df", "-h"]})");
  ASSERT_TRUE(beside);
  EXPECT_THAT(beside->call.command, ElementsAre("df", "-h"));

  const auto lines = called_lines(9, {.ranks = {{Rank{0}, "1"}, {Rank{1}, "", "no", "lost"}}}, {});
  EXPECT_THAT(
      lines,
      ElementsAre(HasSubstr(R"("event":"answer","id":9,"rank":0,"result":1})"),
                  HasSubstr(R"("event":"answer","id":9,"rank":1,"error":"no","kind":"lost"})"),
                  HasSubstr(R"("event":"called","id":9})")));
  EXPECT_THAT(called_lines(3, {.first_thrown = Rank{7}}, {}),
              ElementsAre(HasSubstr(R"("event":"called","id":3,"first_thrown":7})")));
  EXPECT_THAT(called_lines(2, {.error = "no workers"}, {}),
              ElementsAre(HasSubstr(R"("event":"called","id":2,"error":"no workers"})")));
}

}  // namespace
}  // namespace train
