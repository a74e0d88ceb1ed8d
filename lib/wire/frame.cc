#include "lib/wire/frame.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace train {
namespace {

void put_u16(char* out, std::uint16_t value) {
  for (int i = 0; i < 2; ++i) out[i] = static_cast<char>(value >> (8 * i));
}
void put_u32(char* out, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<char>(value >> (8 * i));
}
std::uint32_t get_u32(const char* in) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i)
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(in[i])) << (8 * i);
  return value;
}
std::uint16_t get_u16(const char* in) {
  return static_cast<std::uint16_t>(static_cast<unsigned char>(in[0]) |
                                    static_cast<unsigned char>(in[1]) << 8);
}

// Return the checksum of the payload and the first 12 header bytes, which reveals a damaged length
// or type too.
std::uint32_t checksum(const char* header, std::string_view payload) {
  const XXH64_hash_t seed = XXH3_64bits(header, 12);
  return static_cast<std::uint32_t>(XXH3_64bits_withSeed(payload.data(), payload.size(), seed));
}

}  // namespace

void append_frame(const Frame& frame, std::string& out) {
  char header[kFrameHeaderBytes] = {};
  put_u32(header, static_cast<std::uint32_t>(frame.payload.size()));
  put_u16(header + 4, static_cast<std::uint16_t>(frame.type));
  put_u16(header + 6, 0);
  put_u32(header + 8, frame.attempt.value);
  put_u32(header + 12, checksum(header, frame.payload));
  out.append(header, sizeof header).append(frame.payload);
}

void FrameReader::feed(std::string_view bytes) {
  if (begin_ == buffer_.size()) {
    buffer_.clear();
    begin_ = 0;
  } else if (begin_ > (64u << 10)) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  buffer_.append(bytes);
}

Result<std::optional<Frame>> FrameReader::next() {
  if (buffered_bytes() < kFrameHeaderBytes) return std::optional<Frame>{};
  const char* header = buffer_.data() + begin_;
  const std::size_t length = get_u32(header);
  if (length > payload_bytes_max_) {
    return Error{Errc::Protocol,
                 fmt::format("frame of {} bytes exceeds {}", length, payload_bytes_max_)};
  }
  const std::uint16_t flags = get_u16(header + 6);
  if (flags != 0)
    return Error{Errc::Protocol, fmt::format("frame with unknown flags {:#06x}", flags)};
  const std::size_t frame_bytes = kFrameHeaderBytes + length;
  if (buffered_bytes() < frame_bytes) return std::optional<Frame>{};
  const std::string_view payload(header + kFrameHeaderBytes, length);
  if (get_u32(header + 12) != checksum(header, payload)) {
    return Error{Errc::Protocol,
                 fmt::format("frame of type {:#06x} and {} bytes does not match its checksum",
                             get_u16(header + 4), length)};
  }
  std::optional<Frame> frame{Frame{.type = static_cast<MessageType>(get_u16(header + 4)),
                                   .attempt = Attempt{get_u32(header + 8)},
                                   .payload = std::string(payload)}};
  begin_ += frame_bytes;
  return frame;
}

}  // namespace train
