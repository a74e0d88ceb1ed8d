// The out-of-line part of train/config.h: conversions of Value, and Config's look-up.
#include <train/config.h>

#include <cmath>

#include "sdk/value/json.h"

namespace train {
namespace {

constexpr std::size_t kShownBytesMax = 60;  // of a value, in a message

/// Return what was found, for a message: "the string \"abc\"", "a list of 3".
std::string describe(const Value& value) {
  if (value.is_null()) return "null";
  if (value.is_list()) return "a list of " + std::to_string(std::get<List>(value.storage()).size());
  if (value.is_dict()) return "a dict of " + std::to_string(std::get<Dict>(value.storage()).size());
  if (const auto* real = std::get_if<double>(&value.storage());
      real != nullptr && !std::isfinite(*real)) {
    return std::isnan(*real) ? "the float nan" : *real > 0 ? "the float inf" : "the float -inf";
  }
  std::string text = to_json(value);
  if (text.size() > kShownBytesMax) text = text.substr(0, kShownBytesMax) + "…";
  static constexpr const char* kKinds[] = {"", "the bool ", "the integer ", "the float ",
                                           "the string "};
  return kKinds[value.storage().index()] + text;
}

[[noreturn]] void throw_unlike(const Value& found, const std::string& wanted) {
  throw Failure("invalid_argument", "found " + describe(found) + ", wanted " + wanted);
}

template <class T>
const T& hold(const Value& value, const char* wanted) {
  const T* held = std::get_if<T>(&value.storage());
  if (held == nullptr) throw_unlike(value, wanted);
  return *held;
}

std::string quoted_keys(const Dict& dict) {
  std::string keys;
  for (const auto& [key, value] : dict) keys += (keys.empty() ? "'" : ", '") + key + "'";
  return keys.empty() ? "nothing" : keys;
}

}  // namespace

namespace detail {

void throw_beyond_int64(std::uint64_t v) {
  throw Failure("invalid_argument", "the integer " + std::to_string(v) + " is more than " +
                                        std::to_string(std::numeric_limits<std::int64_t>::max()) +
                                        ", the largest that a Value holds (make it a string, or "
                                        "convert it to std::int64_t)");
}

bool value_to_bool(const Value& value) { return hold<bool>(value, "a bool"); }

std::int64_t value_to_int(const Value& value, std::int64_t min, std::uint64_t max) {
  std::int64_t integer = 0;
  if (const auto* held = std::get_if<std::int64_t>(&value.storage())) {
    integer = *held;
  } else if (const auto* real = std::get_if<double>(&value.storage())) {
    // 2^63 itself is a double and does not fit; NaN fails the first comparison
    if (!(*real == std::trunc(*real)) || *real < -0x1p63 || *real >= 0x1p63)
      throw_unlike(value, "an integer");
    integer = static_cast<std::int64_t>(*real);
  } else {
    throw_unlike(value, "an integer");
  }
  if (integer < min || (integer > 0 && static_cast<std::uint64_t>(integer) > max)) {
    throw_unlike(value, "an integer from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return integer;
}

double value_to_double(const Value& value) {
  if (const auto* held = std::get_if<std::int64_t>(&value.storage()))
    return static_cast<double>(*held);
  return hold<double>(value, "a number");
}

const std::string& value_to_string(const Value& value) {
  return hold<std::string>(value, "a string");
}
const List& value_to_list(const Value& value) { return hold<List>(value, "a list"); }
const Dict& value_to_dict(const Value& value) { return hold<Dict>(value, "a dict"); }

}  // namespace detail

std::string to_json(const Value& value) {
  std::string out;
  json::append(out, value);
  return out;
}

Value parse_json(std::string_view text) { return json::parse(text); }

const Value* Config::find(std::string_view key) const {
  const Dict* dict = &values_;
  while (true) {
    // a key that itself contains the dot wins over a path of the same spelling
    if (const auto found = dict->find(std::string(key)); found != dict->end())
      return &found->second;
    const std::size_t dot = key.find('.');
    if (dot == std::string_view::npos) return nullptr;
    const auto found = dict->find(std::string(key.substr(0, dot)));
    if (found == dict->end()) return nullptr;
    dict = std::get_if<Dict>(&found->second.storage());
    if (dict == nullptr) return nullptr;
    key.remove_prefix(dot + 1);
  }
}

void Config::throw_missing(std::string_view key) const {
  throw Failure("not_found", "train_loop_config has no '" + std::string(key) + "', only " +
                                 quoted_keys(values_) +
                                 " (add it to the job's YAML, or give get() a default)");
}

void Config::throw_type(std::string_view key, const Failure& why) {
  throw Failure(why.kind(), "train_loop_config '" + std::string(key) + "': " + why.what());
}

}  // namespace train
