// What py-spy tells of the threads of a Python process.
#include "lib/stacks/python_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace train {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string names_of(const ThreadStack& thread) {
  std::string text;
  for (const StackFrame& frame : thread.frames) text += frame.function + " ";
  return text;
}

StackFrame python(const std::string& function) { return {.function = function, .python = true}; }

TEST(PythonFrames, AreReadByThread) {
  const auto threads = parse_python_threads(
      R"([{"pid":7,"thread_name":"MainThread","os_thread_id":7,"owns_gil":true,"frames":[)"
      R"({"name":"load","filename":"/w/a.py","short_filename":"a.py","line":7,"locals":null},)"
      R"({"name":"<module>","filename":"/w/a.py","line":9}]},)"
      R"({"pid":7,"os_thread_id":null,"owns_gil":false,"frames":[]}])");
  ASSERT_TRUE(threads) << threads.error().describe();
  EXPECT_THAT(
      *threads,
      ElementsAre(
          PythonThread{
              .tid = 7,
              .name = "MainThread",
              .frames = {{.function = "load", .file = "/w/a.py", .line = 7, .python = true},
                         {.function = "<module>", .file = "/w/a.py", .line = 9, .python = true}},
              .owns_gil = true},
          PythonThread{}));
}

TEST(PythonFrames, MayBeAnything) {
  for (const char* text : {"", "{}", "nonsense", "[", "\x01\xff", "[{]"})
    EXPECT_FALSE(parse_python_threads(text)) << text;
  EXPECT_FALSE(parse_python_threads(std::string(100'000, '[')));
  for (const char* text : {"[]", "[7]"})
    EXPECT_THAT(*parse_python_threads(text), IsEmpty()) << text;
  for (const char* text :
       {R"([{"os_thread_id":-1,"frames":{}}])", R"([{"os_thread_id":"x","owns_gil":1}])",
        R"([{"os_thread_id":99999999999,"frames":[7]}])", R"([{"os_thread_id":1e300}])"})
    EXPECT_THAT(*parse_python_threads(text), ElementsAre(PythonThread{})) << text;
  const auto odd = parse_python_threads(
      R"([{"frames":[{"name":7,"line":-4},{"line":99999999999999,"name":"\ud800"}]}])");
  EXPECT_FALSE(odd);  // a lone surrogate is no text
  const auto lines =
      parse_python_threads(R"([{"frames":[{"name":7,"line":-4},{"line":99999999999999}]}])");
  ASSERT_TRUE(lines);
  EXPECT_EQ(lines->at(0).frames.at(0), python(""));
  EXPECT_EQ(lines->at(0).frames.at(1).line, 1'000'000'000u);
}

TEST(PythonFrames, HaveLimits) {
  std::string many = "[";
  for (int i = 0; i < 2000; ++i) many += "{},";
  many += "{}]";
  EXPECT_EQ(parse_python_threads(many)->size(), kCapturedThreadsMax);
  std::string deep = R"([{"frames":[)";
  for (int i = 0; i < 2000; ++i) deep += "{},";
  deep += R"({}]}])";
  EXPECT_EQ(parse_python_threads(deep)->at(0).frames.size(), kStackFramesMax);
  const std::string name(100'000, 'x');
  const auto one = parse_python_threads(R"([{"thread_name":")" + name + R"(","frames":[{"name":")" +
                                        name + R"(","filename":")" + name + R"("}]}])");
  EXPECT_EQ(one->at(0).name.size(), 64u);
  EXPECT_EQ(one->at(0).frames.at(0).function.size(), kFunctionNameBytesMax);
  EXPECT_EQ(one->at(0).frames.at(0).file.size(), 1024u);
}

TEST(PythonFrames, StandWhereTheInterpretersFramesAre) {
  ProcessStacks stacks{.pid = 7};
  stacks.threads.push_back(
      {.facts = {.tid = 7},
       .frames = {{.function = "read", .module = "libc.so.6"},
                  {.function = "sock_recv", .module = "_socket.cpython-311.so"},
                  {.function = "os_read", .module = "python3.11"},
                  {.function = "_PyEval_EvalFrameDefault"},
                  {.function = "torch::call", .module = "libtorch.so"},
                  {.function = "PyEval_EvalCode"},
                  {.function = "main", .module = "python_trainer"},
                  {.function = "_start"}}});
  stacks.threads.push_back({.facts = {.tid = 8}, .frames = {{.function = "poll"}}});
  stacks.threads.push_back({.facts = {.tid = 9, .note = "cut"}, .frames = {{.function = "clone"}}});
  stacks.threads.push_back({.facts = {.tid = 10},
                            .frames = {{.function = "x", .module = "libpython3.11.so.1.0"},
                                       {.function = "start_thread"}}});

  add_python_frames(stacks, {{.tid = 7, .frames = {python("load"), python("<module>")}},
                             {.tid = 9, .frames = {python("run")}, .owns_gil = true},
                             {.tid = 10}});

  EXPECT_EQ(names_of(stacks.threads[0]), "read sock_recv load <module> main _start ");
  EXPECT_EQ(stacks.threads[0].facts.note, "");
  EXPECT_EQ(names_of(stacks.threads[1]), "poll ");
  EXPECT_EQ(names_of(stacks.threads[2]), "clone run ");
  EXPECT_EQ(stacks.threads[2].facts.note, "cut; holds the GIL");
  EXPECT_EQ(names_of(stacks.threads[3]), "x start_thread ");
}

TEST(PythonFrames, OfTheMainThreadAreKnownByItsNameBeforePython311) {
  ProcessStacks stacks{.pid = 7};
  stacks.threads.push_back({.facts = {.tid = 7}});
  stacks.threads.push_back({.facts = {.tid = 8}});

  add_python_frames(stacks, {{.name = "Thread-1", .frames = {python("run")}},
                             {.name = "MainThread", .frames = {python("load")}, .owns_gil = true}});

  EXPECT_EQ(names_of(stacks.threads[0]), "load ");
  EXPECT_EQ(names_of(stacks.threads[1]), "");
  EXPECT_THAT(stacks.notes, IsEmpty());
}

TEST(PythonFrames, SayWhoHoldsTheGilAndWhoWaitsForIt) {
  ProcessStacks stacks{.pid = 7};
  stacks.threads.push_back({.facts = {.tid = 7},
                            .frames = {{.function = "pthread_cond_timedwait"},
                                       {.function = "take_gil", .module = "python3.11"},
                                       {.function = "_PyEval_EvalFrameDefault"}}});
  stacks.threads.push_back({.facts = {.tid = 8}, .frames = {{.function = "pause"}}});

  add_python_frames(stacks, {{.tid = 8, .name = "spinner", .owns_gil = true},
                             {.tid = 7, .frames = {python("load")}}});

  EXPECT_EQ(names_of(stacks.threads[0]), "pthread_cond_timedwait load ");
  EXPECT_EQ(stacks.threads[0].facts.note, "waits for the GIL");
  EXPECT_EQ(stacks.threads[1].facts.note, "holds the GIL");
  EXPECT_THAT(stacks.notes, ElementsAre("Python's thread 'spinner' (tid 8) holds the GIL; the main "
                                        "thread waits for it"));
}

TEST(PythonFrames, AMainThreadThatHoldsTheGilIsNothingToTell) {
  ProcessStacks stacks{.pid = 7};
  stacks.threads.push_back({.facts = {.tid = 7}, .frames = {{.function = "read"}}});
  add_python_frames(stacks, {{.tid = 7, .frames = {python("load")}, .owns_gil = true}});
  EXPECT_EQ(stacks.threads[0].facts.note, "holds the GIL");
  EXPECT_THAT(stacks.notes, IsEmpty());
}

TEST(PythonFrames, AreNoMoreThanAStackMayHave) {
  ProcessStacks stacks{.pid = 7};
  stacks.threads.push_back({.facts = {.tid = 7}, .frames = {{.function = "read"}}});
  add_python_frames(stacks,
                    {{.tid = 7, .frames = std::vector<StackFrame>(kStackFramesMax, python("f"))}});
  EXPECT_EQ(stacks.threads[0].frames.size(), kStackFramesMax);
  EXPECT_EQ(stacks.threads[0].frames[0].function, "read");
}

}  // namespace
}  // namespace train
