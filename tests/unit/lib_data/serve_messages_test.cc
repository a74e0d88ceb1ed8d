#include <gmock/gmock.h>

#include <random>

#include "lib/data/serve/messages.h"

namespace train::data {
namespace {

OpenPass some_pass() {
  return {.dataset = "train",
          .layout = "00ff",
          .order = {.shuffle = Shuffle::Window, .seed = 7, .lanes = 16, .block_rows = 300},
          .epoch = 3,
          .batch_sizes = {4, 5, 6},
          .rank = 2,
          .rows_consumed = 30,
          .drop_last = true,
          .preprocessors = "[]",
          .credit_bytes = 1 << 24};
}

Ask some_ask() {
  Ask ask{.sequence = 8, .step = 21, .addresses = AddressSet(19)};
  ask.addresses[0] = ask.addresses[9] = ask.addresses[18] = true;
  return ask;
}

Answer some_answer() {
  return {.sequence = 8,
          .slot = 5,
          .new_slot = true,
          .messages = {{"schema", 0, 0}, {"rows", 64, 4096}},
          .bad = {{2, {Errc::Corrupt, "not a JPEG", "repair it"}}, {5, {Errc::Io, "x"}}},
          .counts = {1, 0, 0, 70000, 1, 0},
          .lost = {2, 9},
          .operators = {{1, 2, 3}, {}}};
}

Failed some_failure() { return {.sequence = 8, .why = {Errc::NotFound, "no file", "look for it"}}; }

/// Return the only frame of these bytes.
ServeFrame frame_in(const std::string& bytes) {
  ServeFrames frames;
  frames.feed(bytes);
  ServeFrame frame;
  EXPECT_TRUE(*frames.next(frame));
  ServeFrame none;
  EXPECT_FALSE(*frames.next(none));
  return frame;
}

TEST(ServeMessages, ComeAsTheyWereSent) {
  EXPECT_EQ(*read_open_pass(frame_in(frame_of(some_pass())).fields), some_pass());
  EXPECT_EQ(*read_ask(frame_in(frame_of(some_ask())).fields), some_ask());
  EXPECT_EQ(*read_release(frame_in(frame_of(Release{3})).fields), Release{3});
  EXPECT_EQ(*read_answer(frame_in(frame_of(some_answer())).fields), some_answer());
  EXPECT_EQ(*read_failed(frame_in(frame_of(some_failure())).fields), some_failure());
}

TEST(ServeMessages, HaveTheLayoutThatTheHeaderTells) {
  EXPECT_EQ(frame_of(Release{258}), std::string("\x05\0\0\0\x03\x02\x01\0\0", 9));
  EXPECT_EQ(frame_of(Ask{.sequence = 1, .step = 2, .addresses = {true, false, true}}),
            std::string("\x1a\0\0\0\x02"
                        "\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"
                        "\x03\0\0\0\x01\0\0\0\x05",
                        30));
}

TEST(ServeMessages, AreRefusedWhenTheyAreCutShortOrTooLong) {
  const auto refuse = [](const std::string& frame, auto read) {
    const std::string fields = frame_in(frame).fields;
    for (std::size_t size = 0; size < fields.size(); ++size)
      EXPECT_EQ(read(std::string_view(fields).substr(0, size)).error().code, Errc::Protocol)
          << size;
    EXPECT_EQ(read(fields + "x").error().code, Errc::Protocol);
  };
  refuse(frame_of(some_pass()), read_open_pass);
  refuse(frame_of(some_ask()), read_ask);
  refuse(frame_of(Release{3}), read_release);
  refuse(frame_of(some_answer()), read_answer);
  refuse(frame_of(some_failure()), read_failed);
}

TEST(ServeMessages, AreRefusedWhenTheyCannotBe) {
  OpenPass pass = some_pass();
  const auto refused = [](const OpenPass& one) {
    return read_open_pass(frame_in(frame_of(one)).fields).has_error();
  };
  EXPECT_TRUE((pass = some_pass(), pass.rank = 3, refused(pass)));
  EXPECT_TRUE((pass = some_pass(), pass.rank = -1, refused(pass)));
  EXPECT_TRUE((pass = some_pass(), pass.order.lanes = 0, refused(pass)));
  EXPECT_TRUE((pass = some_pass(), pass.order.lanes = kLanesMax + 1, refused(pass)));
  EXPECT_TRUE((pass = some_pass(), pass.order.block_rows = -1, refused(pass)));
  EXPECT_TRUE((pass = some_pass(), pass.credit_bytes = -1, refused(pass)));
  EXPECT_TRUE((pass = some_pass(), pass.version = 2, refused(pass)));
  Answer answer = some_answer();
  answer.slot = kSlotsMax;
  EXPECT_TRUE(read_answer(frame_in(frame_of(answer)).fields).has_error());
}

TEST(ServeMessages, OfRandomBytesAreNoHarm) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 20000; ++round) {
    std::string fields =
        frame_in(round % 2 == 0 ? frame_of(some_answer()) : frame_of(some_pass())).fields;
    for (int change = 0; change < 3; ++change)
      fields[random() % fields.size()] = static_cast<char>(random());
    (void)read_answer(fields);
    (void)read_open_pass(fields);
    (void)read_ask(fields);
    (void)read_failed(fields);
  }
}

TEST(ServeFrames, AreCutOutOfAnyPieces) {
  const std::string bytes = frame_of(some_ask()) + frame_of(Release{1}) + frame_of(some_pass());
  for (const std::size_t piece : {1u, 3u, 1000u}) {
    ServeFrames frames;
    std::vector<ServeType> types;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      frames.feed(std::string_view(bytes).substr(at, piece));
      ServeFrame frame;
      while (*frames.next(frame)) types.push_back(frame.type);
    }
    EXPECT_THAT(types,
                testing::ElementsAre(ServeType::Ask, ServeType::Release, ServeType::OpenPass));
  }
}

TEST(ServeFrames, AreRefusedWhenTheyAreTooLongBeforeTheyHaveCome) {
  for (const std::string& bytes :
       {std::string("\0\0\0\0", 4), std::string("\xff\xff\xff\xff", 4)}) {
    ServeFrames frames;
    frames.feed(bytes);
    ServeFrame frame;
    EXPECT_EQ(frames.next(frame).error().code, Errc::Protocol);
  }
}

}  // namespace
}  // namespace train::data
