// The unwinder in this process, over captures that no kernel would make.
#include "lib/stacks/unwind/unwinder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/stacks/unwind/stack_walk.h"
#include "tests/unit/lib_stacks/target.h"

namespace train::stacks_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

ProcessCapture captured(const Target& target) {
  auto capture = capture_process(target.pid(), soon());
  EXPECT_TRUE(capture.has_value());
  return capture ? *capture : ProcessCapture{};
}

TEST(Unwinder, SaysWhichFilesAreNotThereAnyMore) {
  Target target({"spin"});
  const ProcessCapture capture = captured(target);
  Unwinder unwinder([](const ProcessCapture& process, const MappedRange& range) {
    return range.path == process.executable ? FileDescriptor() : open_mapped_file(process, range);
  });

  const ProcessStacks stacks = unwinder.unwind(capture);

  const StackFrame& first = stacks.threads.at(0).frames.at(0);
  EXPECT_EQ(first.function, "");
  EXPECT_EQ(first.module, "lib_stacks_target");
  EXPECT_GT(first.offset, 0u);
  EXPECT_THAT(stacks.notes.at(0), HasSubstr("lib_stacks_target' was deleted, replaced"));
}

TEST(Unwinder, WithoutAnyFileThereAreNoFrames) {
  Target target({"read"});
  ProcessCapture capture = captured(target);
  capture.vdso.clear();
  Unwinder unwinder([](const ProcessCapture&, const MappedRange&) { return FileDescriptor(); });

  const ProcessStacks stacks = unwinder.unwind(capture);

  EXPECT_THAT(stacks.threads.at(0).frames, IsEmpty());
  EXPECT_EQ(stacks.threads.at(0).facts.note, "none of its files can be read");
}

TEST(Unwinder, AnotherFileAtThePathIsNotRead) {
  Target target({"read"});
  const ProcessCapture capture = captured(target);
  MappedRange range = capture.mappings.at(0);
  EXPECT_GE(open_mapped_file(capture, range).get(), 0);

  ++range.inode;

  EXPECT_LT(open_mapped_file(capture, range).get(), 0);
}

TEST(Unwinder, CodeInAnonymousMemoryIsJit) {
  Target target({"spin"});
  ProcessCapture capture = captured(target);
  capture.mappings.insert(capture.mappings.begin(),
                          {.start = 0x10000, .end = 0x20000, .executable = true});
  capture.threads.at(0).registers.at(16) = capture.threads.at(0).pc = 0x10010;

  const ProcessStacks stacks = Unwinder().unwind(capture);

  EXPECT_EQ(stacks.threads.at(0).frames.at(0).function, "jit");
}

TEST(Unwinder, FrameInformationOfTheKernelsCodeIsUsed) {
  Target target({"read"});
  const ProcessCapture capture = captured(target);
  ASSERT_GT(capture.vdso.size(), 0u);

  ProcessCapture only_vdso = capture;
  only_vdso.threads.at(0).registers.at(16) = only_vdso.threads.at(0).pc =
      capture.vdso_start + 0x800;
  const ProcessStacks stacks = Unwinder().unwind(only_vdso);

  EXPECT_EQ(stacks.threads.at(0).frames.at(0).module, "[vdso]");
}

TEST(Unwinder, ProcessorsThatItDoesNotKnowAreRefused) {
  Target target({"read"});
  ProcessCapture capture = captured(target);
  capture.machine = 183;

  const ProcessStacks stacks = Unwinder().unwind(capture);

  EXPECT_EQ(stacks.threads.at(0).facts.note, "its processor is not supported");
}

TEST(Unwinder, TheSecondProcessOfAProgramGetsTheSameNames) {
  Target one({"read"}), two({"read"});
  ASSERT_TRUE(one.reaches("read") && two.reaches("read"));
  Unwinder unwinder;

  const ProcessStacks first = unwinder.unwind(captured(one));
  const ProcessStacks second = unwinder.unwind(captured(two));

  EXPECT_EQ(functions_of(first.threads.at(0)), functions_of(second.threads.at(0)));
}

TEST(FrameNames, AreReadableAndBounded) {
  EXPECT_EQ(demangled("_ZN8training9load_rowsEi"), "training::load_rows(int)");
  EXPECT_EQ(demangled("_Z1fNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"),
            "f(std::string)");
  EXPECT_EQ(demangled("main"), "main");
  EXPECT_EQ(demangled("_Znot a name\xff"), "_Znot a name\xEF\xBF\xBD");
  EXPECT_LE(demangled("_Z" + std::string(100'000, 'i')).size(), kFunctionNameBytesMax);
}

TEST(StackWalk, KnowsCalls) {
  using namespace std::string_view_literals;
  EXPECT_TRUE(ends_with_call("\x90\x90\xE8\x01\x02\x03\x04"sv));   // call rel32
  EXPECT_TRUE(ends_with_call("\x90\x90\x90\x90\x90\xFF\xD0"sv));   // call *%rax
  EXPECT_TRUE(ends_with_call("\x90\x90\x90\x90\x41\xFF\xD4"sv));   // call *%r12
  EXPECT_TRUE(ends_with_call("\x90\x90\x90\x90\xFF\x50\x18"sv));   // call *0x18(%rax)
  EXPECT_TRUE(ends_with_call("\x90\x90\x90\x90\xFF\x14\xC8"sv));   // call *(%rax,%rcx,8)
  EXPECT_TRUE(ends_with_call("\x90\xFF\x15\x01\x02\x03\x04"sv));   // call *0x4030201(%rip)
  EXPECT_TRUE(ends_with_call("\x90\x90\x90\xFF\x54\x24\x08"sv));   // call *8(%rsp)
  EXPECT_TRUE(ends_with_call("\xFF\x94\x24\x01\x02\x03\x04"sv));   // call *0x4030201(%rsp)
  EXPECT_FALSE(ends_with_call("\x90\x90\x90\x90\x90\x90\x90"sv));  // nop
  EXPECT_FALSE(ends_with_call("\x90\x90\x90\x90\x90\xFF\xE0"sv));  // jmp *%rax
  EXPECT_FALSE(ends_with_call("\x90\x90\x90\x90\xFF\xD0\x90"sv));  // an instruction later
  EXPECT_FALSE(ends_with_call(""sv));
}

}  // namespace
}  // namespace train::stacks_test
