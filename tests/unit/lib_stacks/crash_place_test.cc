#include "lib/stacks/crash_place.h"

#include <gtest/gtest.h>

namespace train {
namespace {

StackFrame frame(const std::string& function, const std::string& file = "", std::uint32_t line = 0,
                 const std::string& module = "job") {
  return {.pc = 0x1234,
          .function = function,
          .module = module,
          .offset = 0x34,
          .file = file,
          .line = line};
}

TEST(CrashPlace, NamesTheInnermostFunctionsWithTheirLines) {
  EXPECT_EQ(describe_crash_place({frame("int Layer::forward(int) const", "/src/model.cc", 14),
                                  frame("Model::forward(int)", "/src/model.cc", 41),
                                  frame("std::function<int ()>::operator()() const", "/usr/f.h", 3),
                                  frame("main", "/src/main.cc", 88),
                                  frame("__libc_start_call_main", "", 0, "libc.so.6")}),
            "Layer::forward (model.cc:14) <- Model::forward (model.cc:41) <- main (main.cc:88)");
}

TEST(CrashPlace, LeavesOutWhatOnlyCarriesOutAnAbort) {
  EXPECT_EQ(describe_crash_place({frame("__pthread_kill_implementation", "", 0, "libc.so.6"),
                                  frame("__GI_raise", "", 0, "libc.so.6"),
                                  frame("__GI_abort", "", 0, "libc.so.6"),
                                  frame("__assert_fail_base", "", 0, "libc.so.6"),
                                  frame("check(int)", "/src/check.cc", 7)}),
            "check (check.cc:7)");
  // A function of the user's of that name tells where.
  EXPECT_EQ(describe_crash_place({frame("raise(int)", "/src/a.cc", 1)}), "raise (a.cc:1)");
}

TEST(CrashPlace, NamesALibrarysFunctionAndWhoCalledIt) {
  EXPECT_EQ(describe_crash_place({frame("__memmove_avx_unaligned_erms", "../x.S", 5, "libc.so.6"),
                                  frame("library_internal", "", 0, "libx.so"),
                                  frame("copy(char*)", "/src/copy.cc", 9)}),
            "__memmove_avx_unaligned_erms <- copy (copy.cc:9)");
}

TEST(CrashPlace, NamesFunctionsWithoutLinesOrOnlyTheModule) {
  EXPECT_EQ(
      describe_crash_place({frame("a()"), frame("b()"), frame("b()"), frame("c()"), frame("d()")}),
      "a <- b <- c");
  EXPECT_EQ(describe_crash_place({frame("", "", 0, "libdriver.so.1")}), "libdriver.so.1");
  EXPECT_EQ(describe_crash_place({frame("", "", 0, "")}), "");
  EXPECT_EQ(describe_crash_place({}), "");
}

TEST(CrashPlace, SteersNoTerminal) {
  EXPECT_EQ(describe_crash_place({frame("a\x07()", "/src/\x1b[31mx.cc", 1)}), "a^G (x.cc:1)");
}

TEST(CrashStack, ListsFramesUpToItsLimit) {
  ThreadStack thread;
  thread.frames = {frame("f(int)", "/src/f.cc", 3), frame("g()"), frame("", "", 0, "")};
  thread.frames[1].guessed = true;
  thread.facts.note = "the outermost frames are missing";
  EXPECT_EQ(describe_crash_stack(thread),
            "#0 f(int) /src/f.cc:3\n"
            "#1 g() (job+0x34) (guessed)\n"
            "#2 0x1234\n"
            "the outermost frames are missing\n");

  thread.frames = {frame("std::sort(int*, int*)", "/usr/include/sort.h", 7),
                   frame("f(int)", "/src/f.cc", 3), frame("int std::__invoke_impl<int, g()>(g())"),
                   frame("main", "/src/f.cc", 9)};
  thread.facts.note.clear();
  EXPECT_EQ(describe_crash_stack(thread),
            "#0 std::sort(int*, int*) /usr/include/sort.h:7\n#1 f(int) /src/f.cc:3\n"
            "#3 main /src/f.cc:9\n");

  thread.frames.assign(100, frame("f()", "/f.cc", 1));
  thread.facts.note.clear();
  const std::string text = describe_crash_stack(thread);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 65);
  EXPECT_TRUE(text.ends_with("... and 36 more\n")) << text;
}

}  // namespace
}  // namespace train
