// This file decodes a frame once, into the message that it carries. The receiver handles each kind
// of message with a std::visit.
#pragma once

#include <type_traits>
#include <utility>
#include <variant>

#include "lib/base/result.h"
#include "lib/wire/codec.h"

namespace train {

/// One of these messages, or std::monostate for any other, such as one of a newer protocol.
template <class... Messages>
using AnyOf = std::variant<std::monostate, Messages...>;

namespace detail {

template <class... Messages>
Result<AnyOf<Messages...>> decode_any(const Frame& frame, std::type_identity<AnyOf<Messages...>>) {
  Result<AnyOf<Messages...>> found = AnyOf<Messages...>();
  const auto is = [&]<class Message>(std::type_identity<Message>) {
    if (frame.type != Message::kType) return false;
    auto message = decode<Message>(frame);
    if (message)
      found = AnyOf<Messages...>(std::move(*message));
    else
      found = message.error();
    return true;
  };
  (void)(is(std::type_identity<Messages>()) || ...);
  return found;
}

}  // namespace detail

/// Return what `frame` carries, as an AnyOf. Protocol: the frame does not decode; the error names
/// its message.
template <class Any>
Result<Any> decode_any(const Frame& frame) {
  return detail::decode_any(frame, std::type_identity<Any>());
}

}  // namespace train
