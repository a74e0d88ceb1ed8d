// Reads members of JSON objects that others may have written, and writes values that may be
// missing.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/json_text.h"

namespace train {

/// Return the text, or "" if the member is missing or no text.
inline std::string text_member(const boost::json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
}

/// Return the whole number, or nothing if the member is missing or none.
inline std::optional<std::int64_t> whole_member(const boost::json::object& object,
                                                std::string_view name) {
  const auto* value = object.if_contains(name);
  if (value == nullptr || !value->is_int64()) return std::nullopt;
  return value->as_int64();
}

/// Return the number, or nothing if the member is missing or none.
inline std::optional<double> number_member(const boost::json::object& object,
                                           std::string_view name) {
  const auto* value = object.if_contains(name);
  if (value == nullptr) return std::nullopt;
  if (const auto* whole = value->if_int64()) return static_cast<double>(*whole);
  const auto* number = value->if_double();
  return number != nullptr ? std::optional(*number) : std::nullopt;
}

/// Return the object, or nullptr if the member is missing or none.
inline const boost::json::object* object_member(const boost::json::object& object,
                                                std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr ? value->if_object() : nullptr;
}

/// Add a member: the value, or null if there is none.
template <class T>
JsonWriter& put(JsonWriter& json, std::string_view name, const std::optional<T>& value) {
  json.key(name);
  return value ? json.value(*value) : json.null();
}

/// Add the members that are null because nothing tells their values.
inline void put_unknown(JsonWriter& json, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) json.key(name).null();
}

}  // namespace train
