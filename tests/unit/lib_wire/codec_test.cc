#include "lib/wire/codec.h"

#include <gtest/gtest.h>

#include <msgpack.hpp>

#include "lib/wire/attempt_messages.h"
#include "lib/wire/daemon_messages.h"
#include "lib/wire/link_messages.h"
#include "lib/wire/worker_messages.h"

namespace train {
namespace {

Frame frame_of(MessageType type, std::string payload) {
  return Frame{.type = type, .payload = std::move(payload)};
}

TEST(Codec, AFieldThatNobodyKnowsIsPassedOverAndAMissingOneKeepsItsDefault) {
  msgpack::sbuffer buffer;
  msgpack::packer packer(buffer);
  packer.pack_map(3);
  packer.pack("run_id");
  packer.pack("r1");
  packer.pack("from_the_future");
  packer.pack_array(2);
  packer.pack(1);
  packer.pack_map(1);
  packer.pack("deep");
  packer.pack_nil();
  packer.pack("generation");
  packer.pack(7);
  const auto message = decode<AttachRun>(
      frame_of(MessageType::AttachRun, std::string(buffer.data(), buffer.size())));
  ASSERT_TRUE(message.has_value()) << message.error().message;
  EXPECT_EQ(message->run_id, "r1");
  EXPECT_EQ(message->run_name, "");
  EXPECT_EQ(message->generation, 7u);
  EXPECT_EQ(message->heartbeat_ms, 1000);
  EXPECT_EQ(message->dead_after_ms, 10000);
}

TEST(Codec, WrongBytesAreErrorsThatNameTheMessage) {
  const Error wrong_type =
      Error{Errc::Protocol, "bad Heartbeat message: a field has the wrong type"};
  EXPECT_EQ(decode<Heartbeat>(frame_of(MessageType::Heartbeat, "\x81\xa8sequence\xa1x")).error(),
            wrong_type);
  EXPECT_EQ(decode<Heartbeat>(frame_of(MessageType::Heartbeat, "\x81\xa8sequence\xff")).error(),
            wrong_type);  // −1
  EXPECT_EQ(decode<Heartbeat>(frame_of(MessageType::Heartbeat, "\x93\x01\x02\x03")).error(),
            wrong_type);
  EXPECT_EQ(decode<GroupGone>(frame_of(MessageType::GroupGone, "\x90")).error().message,
            "bad GroupGone message: a field has the wrong type");
  EXPECT_EQ(decode<Heartbeat>(frame_of(MessageType::Heartbeat, "\x80\x80")).error(),
            (Error{Errc::Protocol, "bad Heartbeat message: it is followed by extra bytes"}));
  EXPECT_EQ(decode<Heartbeat>(frame_of(MessageType::Heartbeat, "")).error().code, Errc::Protocol);
  EXPECT_EQ(decode<Heartbeat>(frame_of(MessageType::Heartbeat, "\x82\xa1")).error().code,
            Errc::Protocol);
}

TEST(Codec, DeepAndLongMessagesMeetTheLimits) {
  EXPECT_EQ(decode<Heartbeat>(
                frame_of(MessageType::Heartbeat, "\x81\xa1x" + std::string(64, '\x91') + "\x01"))
                .error()
                .code,
            Errc::Protocol);
  EXPECT_EQ(
      decode<Heartbeat>(frame_of(MessageType::Heartbeat, std::string("\xdd\xff\xff\xff\xff", 5)))
          .error()
          .code,
      Errc::Protocol);  // array of 2^32−1
  EXPECT_EQ(
      decode<Heartbeat>(frame_of(MessageType::Heartbeat, std::string("\xdf\xff\xff\xff\xff", 5)))
          .error()
          .code,
      Errc::Protocol);  // map
  EXPECT_EQ(
      decode<Heartbeat>(frame_of(MessageType::Heartbeat, std::string("\xdb\xff\xff\xff\xff", 5)))
          .error()
          .code,
      Errc::Protocol);  // string
}

TEST(Codec, NamesTypes) {
  EXPECT_EQ(to_string(MessageType::ShardWritten), "ShardWritten");
  EXPECT_EQ(to_string(static_cast<MessageType>(0x1234)), "type 0x1234");
  EXPECT_TRUE(is_relayed(MessageType::Prepared));
  EXPECT_TRUE(is_relayed(MessageType::AttemptSnapshot));
  EXPECT_FALSE(is_relayed(MessageType::SupervisorHello));
  EXPECT_FALSE(is_relayed(MessageType::WorkerHello));
}

}  // namespace
}  // namespace train
