// struct ↔ frame. Decoding has limits (depth, sizes of lists), and an Error that names the message
// instead of an exception.
#pragma once

#include <string>

#include "lib/wire/message_type.h"

namespace train {

/// Return the frame that carries `message`. There is one instance for each message of *_messages.h:
/// no other links.
template <class Message>
Frame encode(const Message& message, Attempt attempt = kNoAttempt);

/// Return what `frame` carries, or an Error of Errc::Protocol. Precondition: frame.type ==
/// Message::kType.
template <class Message>
Result<Message> decode(const Frame& frame);

/// "ReportBatch", for logs and errors; "type 0x1234" for an unknown one.
std::string to_string(MessageType type);

}  // namespace train
