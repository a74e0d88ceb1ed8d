#include "lib/stacks/stacks_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/stacks/byte_codec.h"
#include "lib/stacks/proc_files.h"

namespace train {
namespace {

ProcessCapture a_capture() {
  return {.pid = 7,
          .machine = 62,
          .executable = "/bin/train",
          .mappings = {{.start = 0x1000,
                        .end = 0x3000,
                        .offset = 0x1000,
                        .device = 5,
                        .inode = 9,
                        .executable = true,
                        .path = "/bin/train"}},
          .vdso_start = 0x7000,
          .vdso = std::string("code\0more", 9),
          .threads = {{.facts = {.tid = 7,
                                 .name = "main",
                                 .state = 'S',
                                 .wchan = "pipe_read",
                                 .syscall = "read",
                                 .kernel_stack = "[<0>] pipe_read",
                                 .note = "a note",
                                 .stopped_for = Duration{1500}},
                       .registers = {1, 2, 3},
                       .pc = 0x1234,
                       .sp = 0x9000,
                       .stack_start = 0x8f80,
                       .stack = std::string(300, '\x01')},
                      {.facts = {.tid = 8}, .addresses = {5, 6}}},
          .notes = {"left out"}};
}

ProcessStacks some_stacks() {
  return {.pid = 7,
          .executable = "/bin/train",
          .threads = {{.facts = {.tid = 7, .name = "main"},
                       .frames = {{.pc = 1,
                                   .function = "f(int)",
                                   .module = "train",
                                   .offset = 2,
                                   .file = "f.cc",
                                   .line = 3,
                                   .inlined = true,
                                   .guessed = true},
                                  {.function = "load", .file = "a.py", .python = true},
                                  {.inlined = true, .python = true}}}},
          .notes = {"a", "b"}};
}

TEST(StacksCodec, WhatIsWrittenIsRead) {
  EXPECT_EQ(*decode_capture(encode_capture(a_capture())), a_capture());
  EXPECT_EQ(*decode_stacks(encode_stacks(some_stacks())), some_stacks());
}

TEST(StacksCodec, EveryCutIsRefused) {
  const std::string capture = encode_capture(a_capture()), stacks = encode_stacks(some_stacks());

  for (std::size_t size = 0; size < capture.size(); ++size)
    ASSERT_FALSE(decode_capture(std::string_view(capture).substr(0, size)).has_value()) << size;
  for (std::size_t size = 0; size < stacks.size(); ++size)
    ASSERT_FALSE(decode_stacks(std::string_view(stacks).substr(0, size)).has_value()) << size;
  EXPECT_FALSE(decode_capture(capture + "x").has_value());
  EXPECT_FALSE(decode_stacks(stacks + "x").has_value());
}

TEST(StacksCodec, ACountThatTheInputCannotHoldAllocatesNothing) {
  ByteWriter out;
  out.number(0xFFFFFFFF, 4);
  const std::string bytes = std::move(out).take() + std::string(100, '\0');

  ByteReader in(bytes);
  EXPECT_EQ(in.count(std::size_t{1} << 40, 8), 0u);
  EXPECT_FALSE(in.ok());
  ByteReader again(bytes);
  EXPECT_EQ(again.text(std::size_t{1} << 40), "");
  EXPECT_FALSE(again.ok());
}

TEST(StacksCodec, LongTextsAreCutAsTheyAreWritten) {
  ProcessStacks stacks = some_stacks();
  stacks.threads[0].frames[0].function = std::string(100'000, 'x');

  const auto read = decode_stacks(encode_stacks(stacks));

  EXPECT_EQ(read->threads[0].frames[0].function, std::string(kFunctionNameBytesMax, 'x'));
}

TEST(StacksCodec, AStreamEndsWhereAMessageIsNotComplete) {
  const std::string stream = stack_message_header(3) + "one" + stack_message_header(5) + "tw";
  std::string_view rest = stream;

  EXPECT_EQ(next_stack_message(rest), "one");
  EXPECT_EQ(next_stack_message(rest), std::nullopt);
  EXPECT_FALSE(stack_message_size("none....").has_value());
  EXPECT_FALSE(stack_message_size(stack_message_header(kStackMessageBytesMax + 1)).has_value());
}

TEST(ProcFiles, MapsAreParsedAsTheKernelWritesThem) {
  const auto mappings = parse_maps(
      "7f00-7f10 r-xp 00001000 08:02 1234                       /usr/lib/lib c\\012.so (deleted)\n"
      "7ffd1000-7ffd2000 rw-p 00000000 00:00 0                          [stack]\n"
      "8000-9000 rw-p 00000000 00:00 0 \n"
      "not a mapping\n"
      "9000-8000 rw-p 00000000 00:00 0 \n"
      "a000-b000 rw-p 000000");

  ASSERT_EQ(mappings.size(), 3u);
  EXPECT_EQ(mappings[0], (MappedRange{.start = 0x7f00,
                                      .end = 0x7f10,
                                      .offset = 0x1000,
                                      .device = 0x802,
                                      .inode = 1234,
                                      .executable = true,
                                      .path = "/usr/lib/lib c\n.so (deleted)"}));
  EXPECT_EQ(mappings[1].path, "[stack]");
  EXPECT_EQ(mappings[2].path, "");
}

}  // namespace
}  // namespace train
