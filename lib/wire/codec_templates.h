// The templates encode() and decode() of codec.h, for the files that instantiate them for each
// message. No other files of the project use MessagePack with structs.
#pragma once

#include <algorithm>
#include <concepts>
#include <map>
#include <msgpack.hpp>
#include <span>
#include <string_view>

#include "lib/model/data_operator.h"
#include "lib/model/digest.h"
#include "lib/model/worker_progress.h"
#include "lib/wire/codec.h"

namespace train {

template <class T>
concept HasFields = requires {
  { T::kFieldNames } -> std::convertible_to<std::string_view>;
};

template <class T>
concept IsArray = HasFields<T> && requires {
  T::kArray;
};

namespace detail {

Result<msgpack::object_handle> unpack_payload(std::string_view payload);
Error bad_message(MessageType type, std::string_view why);

/// Remove the first name from `names`, such as "rank, pid", and return it.
inline std::string_view next_name(std::string_view& names) {
  const std::size_t end = names.find(',');
  const std::string_view name = names.substr(0, end);
  names.remove_prefix(end == names.npos ? names.size() : end + 1);
  names.remove_prefix(std::min(names.find_first_not_of(" \n"), names.size()));
  return name;
}

}  // namespace detail

template <class Message>
Frame encode(const Message& message, Attempt attempt) {
  msgpack::sbuffer buffer;
  msgpack::pack(buffer, message);
  return Frame{.type = Message::kType,
               .attempt = attempt,
               .payload = std::string(buffer.data(), buffer.size())};
}

template <class Message>
Result<Message> decode(const Frame& frame) {
  auto handle = detail::unpack_payload(frame.payload);
  if (!handle) return detail::bad_message(frame.type, handle.error().message);
  Message message;
  try {
    handle->get().convert(message);
  } catch (const msgpack::type_error&) {
    return detail::bad_message(frame.type, "a field has the wrong type");
  }
  return message;
}

}  // namespace train

// A struct with TRAIN_FIELDS is packed as a map from its fields' names, one with TRAIN_ARRAY as an
// array, an Id as its number, a Phase or OperatorKind as its number, and a Digest as its hex
// digits.
namespace msgpack {
MSGPACK_API_VERSION_NAMESPACE(MSGPACK_DEFAULT_API_NS) {
  namespace adaptor {

  template <train::HasFields T>
  struct pack<T> {
    template <class Stream>
    packer<Stream>& operator()(packer<Stream>& out, const T& value) const {
      value.visit_fields([&](const auto&... fields) {
        if constexpr (train::IsArray<T>) {
          out.pack_array(sizeof...(fields));
          (out.pack(fields), ...);
          return;
        }
        out.pack_map(sizeof...(fields));
        [[maybe_unused]] std::string_view names = T::kFieldNames;
        (out.pack(train::detail::next_name(names)).pack(fields), ...);
      });
      return out;
    }
  };

  template <train::HasFields T>
  struct convert<T> {
    const msgpack::object& operator()(const msgpack::object& in, T& value) const {
      if constexpr (train::IsArray<T>) return convert_array(in, value);
      if (in.type != type::MAP) throw type_error();
      for (const msgpack::object_kv& entry : std::span(in.via.map.ptr, in.via.map.size)) {
        if (entry.key.type != type::STR) throw type_error();
        const std::string_view key(entry.key.via.str.ptr, entry.key.via.str.size);
        value.visit_fields([&](auto&... fields) {
          [[maybe_unused]] std::string_view names = T::kFieldNames;
          (void)((train::detail::next_name(names) == key && (entry.val.convert(fields), true)) ||
                 ...);
        });
      }
      return in;
    }

   private:
    // A peer of another version may send more or fewer elements.
    static const msgpack::object& convert_array(const msgpack::object& in, T& value) {
      if (in.type != type::ARRAY) throw type_error();
      const std::span elements(in.via.array.ptr, in.via.array.size);
      value.visit_fields([&](auto&... fields) {
        std::size_t next = 0;
        (void)((next < elements.size() && (elements[next++].convert(fields), true)) && ...);
      });
      return in;
    }
  };

  template <class Tag, class T>
  struct pack<train::Id<Tag, T>> {
    template <class Stream>
    packer<Stream>& operator()(packer<Stream>& out, const train::Id<Tag, T>& id) const {
      return out.pack(id.value);
    }
  };

  template <class Tag, class T>
  struct convert<train::Id<Tag, T>> {
    const msgpack::object& operator()(const msgpack::object& in, train::Id<Tag, T>& id) const {
      in.convert(id.value);
      return in;
    }
  };

  template <>
  struct pack<train::Phase> {
    template <class Stream>
    packer<Stream>& operator()(packer<Stream>& out, train::Phase phase) const {
      return out.pack(static_cast<std::uint8_t>(phase));
    }
  };

  template <>
  struct convert<train::Phase> {
    const msgpack::object& operator()(const msgpack::object& in, train::Phase& phase) const {
      const auto number = in.as<std::uint8_t>();
      // A newer peer may know more phases.
      phase =
          number < train::kPhases.size() ? static_cast<train::Phase>(number) : train::Phase::Own;
      return in;
    }
  };

  template <>
  struct pack<train::OperatorKind> {
    template <class Stream>
    packer<Stream>& operator()(packer<Stream>& out, train::OperatorKind kind) const {
      return out.pack(static_cast<std::uint8_t>(kind));
    }
  };

  template <>
  struct convert<train::OperatorKind> {
    const msgpack::object& operator()(const msgpack::object& in, train::OperatorKind& kind) const {
      // A newer peer may know more kinds; who reads them leaves these out.
      kind = static_cast<train::OperatorKind>(in.as<std::uint8_t>());
      return in;
    }
  };

  template <>
  struct pack<train::Digest> {
    template <class Stream>
    packer<Stream>& operator()(packer<Stream>& out, const train::Digest& digest) const {
      return out.pack(train::to_hex(digest));
    }
  };

  template <>
  struct convert<train::Digest> {
    const msgpack::object& operator()(const msgpack::object& in, train::Digest& digest) const {
      const auto parsed = train::parse_digest(in.as<std::string>());
      if (!parsed) throw type_error();
      digest = *parsed;
      return in;
    }
  };

  }  // namespace adaptor
}
}  // namespace msgpack

/// Instantiate both templates for one message.
#define TRAIN_CODEC(Message)                               \
  template Frame encode<Message>(const Message&, Attempt); \
  template Result<Message> decode<Message>(const Frame&)
