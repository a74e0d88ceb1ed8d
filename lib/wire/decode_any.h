// A frame decoded once, as whichever message it is, for a receiver that says by a std::visit what
// it does with each.
#pragma once

#include <type_traits>
#include <utility>
#include <variant>

#include "lib/base/result.h"
#include "lib/wire/codec.h"

namespace train {

/// One of these messages; std::monostate for any other, as a newer protocol may have.
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

/// Return what `frame` carries, as an AnyOf. Protocol: it does not decode; the message says which
/// it was.
template <class Any>
Result<Any> decode_any(const Frame& frame) {
  return detail::decode_any(frame, std::type_identity<Any>());
}

}  // namespace train
