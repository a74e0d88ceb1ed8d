#include "lib/wire/frame.h"

#include <gtest/gtest.h>

#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "lib/wire/link_messages.h"

namespace train {
namespace {

std::string bytes_of(const Frame& frame) {
  std::string bytes;
  append_frame(frame, bytes);
  return bytes;
}

const Frame kBeat = encode(Heartbeat{.sequence = 5});
const Frame kReport{
    .type = MessageType::ReportBatch, .attempt = Attempt{3}, .payload = std::string(300, 'r')};
const Frame kEmpty{.type = MessageType::GroupGone, .attempt = Attempt{0}, .payload = ""};

TEST(Frame, ComesOutWhereverTheStreamIsCut) {
  const std::string bytes = bytes_of(kBeat) + bytes_of(kReport) + bytes_of(kEmpty);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    FrameReader reader;
    std::vector<Frame> frames;
    for (const std::string_view part :
         {std::string_view(bytes).substr(0, cut), std::string_view(bytes).substr(cut)}) {
      reader.feed(part);
      for (auto next = reader.next();; next = reader.next()) {
        ASSERT_TRUE(next.has_value()) << next.error().message;
        if (!next->has_value()) break;
        frames.push_back(**next);
      }
    }
    ASSERT_EQ(frames, (std::vector<Frame>{kBeat, kReport, kEmpty})) << "cut at " << cut;
    EXPECT_EQ(reader.buffered_bytes(), 0u);
  }
}

TEST(Frame, ComesOutByteByByte) {
  FrameReader reader;
  const std::string bytes = bytes_of(kReport);
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
    reader.feed({&bytes[i], 1});
    EXPECT_FALSE(reader.next()->has_value());
  }
  reader.feed({&bytes.back(), 1});
  EXPECT_EQ(**reader.next(), kReport);
}

TEST(Frame, EveryChangedBitIsNoticed) {
  const std::string bytes = bytes_of(kBeat);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    FrameReader reader;
    reader.feed(changed);
    const auto next = reader.next();
    EXPECT_TRUE(next.has_error() || !next->has_value())
        << "bit " << bit;  // a longer length waits for more bytes
  }
}

TEST(Frame, ALengthAboveTheLimitIsRefusedByTheHeaderAlone) {
  const auto error_of = [](std::size_t payload_bytes, std::size_t limit) {
    FrameReader reader;
    reader.set_payload_limit(limit);
    reader.feed(
        bytes_of(Frame{.type = MessageType::Hello, .payload = std::string(payload_bytes, 'x')})
            .substr(0, 16));
    const auto next = reader.next();
    return next.has_error() ? next.error() : Error{Errc::Internal, "taken"};
  };
  EXPECT_EQ(error_of(kHelloPayloadBytesMax, kHelloPayloadBytesMax).message, "taken");
  EXPECT_EQ(error_of(kHelloPayloadBytesMax + 1, kHelloPayloadBytesMax),
            (Error{Errc::Protocol, "frame of 4097 bytes exceeds 4096"}));
  EXPECT_EQ(error_of(kFramePayloadBytesMax, kFramePayloadBytesMax).message, "taken");
  EXPECT_EQ(error_of(kFramePayloadBytesMax + 1, kFramePayloadBytesMax),
            (Error{Errc::Protocol, "frame of 4194305 bytes exceeds 4194304"}));
}

TEST(Frame, FlagsThatNobodyKnowsAreRefused) {
  std::string bytes = bytes_of(kBeat);
  bytes[6] = 1;
  FrameReader reader;
  reader.feed(bytes);
  EXPECT_EQ(reader.next().error(), (Error{Errc::Protocol, "frame with unknown flags 0x0001"}));
}

TEST(Frame, TheReaderKeepsNoMoreThanWhatArrived) {
  FrameReader reader;
  const std::string bytes = bytes_of(kReport);
  for (int i = 0; i < 10000; ++i) {
    reader.feed(bytes);
    EXPECT_TRUE(reader.next()->has_value());
  }
  EXPECT_EQ(reader.buffered_bytes(), 0u);
}

}  // namespace
}  // namespace train
