// struct ↔ frame. Decoding has limits (depth, sizes of lists), and an Error that names the message
// instead of an exception.
#pragma once

#include "lib/wire/messages.h"

namespace train {

namespace detail {
Result<msgpack::object_handle> unpack_payload(std::string_view payload);
Error bad_message(MessageType type, std::string_view why);
}  // namespace detail

template <class Message>
Frame encode(const Message& message, Attempt attempt = kNoAttempt) {
  msgpack::sbuffer buffer;
  msgpack::pack(buffer, message);
  return Frame{.type = Message::kType,
               .attempt = attempt,
               .payload = std::string(buffer.data(), buffer.size())};
}

/// Precondition: frame.type == Message::kType.
template <class Message>
Result<Message> decode(const Frame& frame) {
  TRY(auto handle, detail::unpack_payload(frame.payload));
  Message message;
  try {
    handle.get().convert(message);
  } catch (const msgpack::type_error&) {
    return detail::bad_message(frame.type, "a field has another type than the protocol says");
  }
  return message;
}

/// "ReportBatch", for logs and errors; "type 0x1234" for an unknown one.
std::string to_string(MessageType type);

}  // namespace train
