// This file converts structs to frames and back. Decoding limits depth and the sizes of lists, and
// returns an Error that names the message instead of throwing.
#pragma once

#include <string>

#include "lib/wire/message_type.h"

namespace train {

/// Return the frame that carries `message`. Instantiated for each message of *_messages.h; other
/// types do not link.
template <class Message>
Frame encode(const Message& message, Attempt attempt = kNoAttempt);

/// Return what `frame` carries, or an Error of Errc::Protocol. Precondition: frame.type ==
/// Message::kType.
template <class Message>
Result<Message> decode(const Frame& frame);

/// Return the type's name for logs and errors: "ReportBatch", or "type 0x1234" if unknown.
std::string to_string(MessageType type);

}  // namespace train
