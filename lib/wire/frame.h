// Framing: bytes of a stream ↔ frames. No sockets here; lib/net and sdk/client feed it. The layout
// is in PROTOCOL.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/ids.h"
#include "lib/base/result.h"

namespace train {

inline constexpr std::size_t kFrameHeaderBytes = 16;
inline constexpr std::size_t kFramePayloadBytesMax = 4u << 20;  // of a peer that is past hello
inline constexpr std::size_t kHelloPayloadBytesMax = 4u << 10;  // before
inline constexpr Attempt kNoAttempt{
    0xffffffffu};  // frames that belong to the link, not to an attempt

enum class MessageType : std::uint16_t;  // messages.h

struct Frame {
  MessageType type{};
  Attempt attempt = kNoAttempt;
  std::string payload;  // one MessagePack map
  bool operator==(const Frame&) const = default;
};

inline constexpr std::size_t kFrameMacBytes = 16;
inline constexpr std::uint16_t kFrameFlagMac = 0x0001;  // a MAC follows the payload

/// The MAC of one direction's next frame, over its header and payload. It counts frames, so that
/// none can be repeated, left out or moved: ask once for each. lib/net makes them; here they are
/// only put on and compared.
using FrameMac =
    std::function<std::array<char, kFrameMacBytes>(std::string_view header_and_payload)>;

/// Append the frame's bytes to `out`, with a MAC where one is given.
void append_frame(const Frame& frame, std::string& out, const FrameMac& mac = {});

/// Cut a stream into frames. Feed what arrives; take frames until there is none. Never allocates
/// for more than has arrived. After an Error the stream is unusable: close it and say why.
class FrameReader {
 public:
  /// Refuse payloads above `bytes` from now on (a smaller limit holds until the peer has proved who
  /// it is).
  void set_payload_limit(std::size_t bytes) { payload_bytes_max_ = bytes; }
  /// Demand this MAC on every frame that next() has not returned yet.
  void set_mac(FrameMac mac) { mac_ = std::move(mac); }
  void feed(std::string_view bytes);
  /// The next whole frame, nothing when more bytes are needed, or why the stream is broken.
  Result<std::optional<Frame>> next();
  std::size_t buffered_bytes() const { return buffer_.size() - begin_; }

 private:
  std::string buffer_;
  std::size_t begin_ = 0;
  std::size_t payload_bytes_max_ = kFramePayloadBytesMax;
  FrameMac mac_;
};

}  // namespace train
