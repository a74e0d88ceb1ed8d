// This file cuts a stream of bytes into frames, and writes frames as bytes. It uses no sockets;
// lib/net and sdk/client feed it. PROTOCOL.md has the layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/ids.h"
#include "lib/base/result.h"

namespace train {

inline constexpr std::size_t kFrameHeaderBytes = 16;
inline constexpr std::size_t kFramePayloadBytesMax = 4u << 20;  // after the handshake
inline constexpr std::size_t kHelloPayloadBytesMax = 4u << 10;  // during the handshake
// For frames that belong to the link instead of an attempt.
inline constexpr Attempt kNoAttempt{0xffffffffu};

enum class MessageType : std::uint16_t;  // message_type.h

struct Frame {
  MessageType type{};
  Attempt attempt = kNoAttempt;
  std::string payload;  // one MessagePack map
  bool operator==(const Frame&) const = default;
};

/// Append the frame's bytes to `out`.
void append_frame(const Frame& frame, std::string& out);

/// Cuts a stream into frames. The caller feeds the bytes that arrive, then takes frames until there
/// are none. Never allocates more memory than for the bytes that have arrived. After an Error the
/// stream is unusable: report the error and close it.
class FrameReader {
 public:
  /// Refuse payloads above `bytes` from now on. Until the peer has proved who it is, a smaller
  /// limit applies.
  void set_payload_limit(std::size_t bytes) { payload_bytes_max_ = bytes; }
  void feed(std::string_view bytes);
  /// Return the next whole frame, nothing if it needs more bytes, or why the stream is broken.
  Result<std::optional<Frame>> next();
  std::size_t buffered_bytes() const { return buffer_.size() - begin_; }
  /// Return what was fed and is not part of a frame that was taken.
  std::string_view buffered() const { return std::string_view(buffer_).substr(begin_); }

 private:
  std::string buffer_;
  std::size_t begin_ = 0;
  std::size_t payload_bytes_max_ = kFramePayloadBytesMax;
};

}  // namespace train
