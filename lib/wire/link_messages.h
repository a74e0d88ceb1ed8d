// Messages that begin every link and keep it alive: launcher ↔ traind, traind ↔ supervisor, the
// control socket.
#pragma once

#include <cstdint>
#include <string>

#include "lib/wire/message_type.h"

namespace train {

struct Hello {  // first frame from the side that connected
  static constexpr MessageType kType = MessageType::Hello;
  std::uint32_t protocol_min = kProtocolMin, protocol_max = kProtocolMax;
  std::string build, role;  // role: launcher | control
  std::string host, node_name;
  std::int64_t pid = 0;
  std::string instance;  // random per process, so that a process notices a connection to itself
  TRAIN_FIELDS(protocol_min, protocol_max, build, role, host, node_name, pid, instance)
};

struct HelloReply {  // the listener's answer
  static constexpr MessageType kType = MessageType::HelloReply;
  std::uint32_t protocol = 0;
  std::string build, role, host, node_name;
  std::int64_t pid = 0;
  std::string instance;
  TRAIN_FIELDS(protocol, build, role, host, node_name, pid, instance)
};

struct Refused {  // the last frame before the sender closes
  static constexpr MessageType kType = MessageType::Refused;
  std::string code, message, hint;  // code: to_string(Errc)
  TRAIN_FIELDS(code, message, hint)
};

struct Heartbeat {
  static constexpr MessageType kType = MessageType::Heartbeat;
  std::uint64_t sequence = 0;
  TRAIN_FIELDS(sequence)
};

struct HeartbeatAck {
  static constexpr MessageType kType = MessageType::HeartbeatAck;
  std::uint64_t sequence = 0;
  TRAIN_FIELDS(sequence)
};

}  // namespace train
