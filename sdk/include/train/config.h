// train::Value: a JSON value without a third-party type in this header. Config, metrics and
// metadata are made of it.
#pragma once

#include <train/error.h>

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace train {

class Value;
using List = std::vector<Value>;
using Dict = std::map<std::string, Value>;

/// A null, bool, integer, float, string, list or dict. Floats may be NaN or infinite.
class Value {
 public:
  using Storage = std::variant<std::monostate, bool, std::int64_t, double, std::string, List, Dict>;

  Value() = default;
  /// Only a bool: a pointer or an enumerator would otherwise become true.
  template <class T, std::enable_if_t<std::is_same_v<T, bool> ||
                                          std::is_same_v<T, std::vector<bool>::reference>,
                                      int> = 0>
  Value(T v) : storage_(static_cast<bool>(v)) {}
  /// Throws a train::Failure when the integer does not fit std::int64_t.
  template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  Value(T v) : storage_(int64_of(v)) {}
  template <class T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0>
  Value(T v) : storage_(static_cast<double>(v)) {}
  Value(const char* v) : storage_(std::string(v)) {}
  Value(std::string_view v) : storage_(std::string(v)) {}
  Value(std::string v) : storage_(std::move(v)) {}
  Value(List v) : storage_(std::move(v)) {}
  Value(Dict v) : storage_(std::move(v)) {}

  const Storage& storage() const { return storage_; }
  bool is_null() const { return storage_.index() == 0; }
  bool is_number() const { return storage_.index() == 2 || storage_.index() == 3; }
  bool is_string() const { return storage_.index() == 4; }
  bool is_list() const { return storage_.index() == 5; }
  bool is_dict() const { return storage_.index() == 6; }

  /// Convert to T: bool, an integer, a float, std::string, List, Dict, std::vector of these, or
  /// Value. Integers convert to floats; a float converts to an integer only when it is whole (1e3
  /// is 1000). Throws a train::Failure that names what was found and what was asked for.
  template <class T>
  T as() const;

  bool operator==(const Value&) const = default;

 private:
  template <class T>
  static std::int64_t int64_of(T v);

  Storage storage_;
};

/// Return `value` as JSON. NaN and infinities, which JSON lacks, become null.
std::string to_json(const Value& value);
/// Parse JSON; NaN, Infinity and -Infinity, which Python writes, are floats. Throws a
/// train::Failure with the offset of the mistake.
Value parse_json(std::string_view text);

/// Typed access to the job's `train_loop_config`. For a missing key without a default, or a value
/// of another type, get() throws a train::Failure that names the key, what was found and what was
/// asked for.
class Config {
 public:
  Config() = default;
  explicit Config(Dict values) : values_(std::move(values)) {}

  /// Return whether get() would find `key`, which may be null. A dotted key ("optimizer.lr") looks
  /// inside nested dicts, here and in get().
  bool contains(std::string_view key) const { return find(key) != nullptr; }

  /// Read `key`; throws when it is absent.
  template <class T>
  T get(std::string_view key) const {
    const Value* value = find(key);
    if (value == nullptr) throw_missing(key);
    return convert<T>(key, *value);
  }
  /// Read `key`, or return `fallback` when it is absent or null.
  template <class T>
  T get(std::string_view key, T fallback) const {
    const Value* value = find(key);
    return value == nullptr || value->is_null() ? fallback : convert<T>(key, *value);
  }

  const Dict& values() const { return values_; }

 private:
  const Value* find(std::string_view key) const;
  [[noreturn]] void throw_missing(std::string_view key) const;
  [[noreturn]] static void throw_type(std::string_view key, const Failure& why);
  template <class T>
  static T convert(std::string_view key, const Value& value) {
    try {
      return value.as<T>();
    } catch (const Failure& why) {
      throw_type(key, why);
    }
  }

  Dict values_;
};

namespace detail {
[[noreturn]] void throw_beyond_int64(std::uint64_t v);
bool value_to_bool(const Value& value);
std::int64_t value_to_int(const Value& value, std::int64_t min, std::uint64_t max);
double value_to_double(const Value& value);
const std::string& value_to_string(const Value& value);
const List& value_to_list(const Value& value);
const Dict& value_to_dict(const Value& value);
template <class T>
struct is_vector : std::false_type {};
template <class T>
struct is_vector<std::vector<T>> : std::true_type {};
}  // namespace detail

template <class T>
std::int64_t Value::int64_of(T v) {
  if constexpr (std::is_unsigned_v<T> && sizeof(T) >= sizeof(std::int64_t)) {
    constexpr auto kMax = static_cast<T>(std::numeric_limits<std::int64_t>::max());
    if (v > kMax) detail::throw_beyond_int64(static_cast<std::uint64_t>(v));
  }
  return static_cast<std::int64_t>(v);
}

template <class T>
T Value::as() const {
  if constexpr (std::is_same_v<T, Value>) {
    return *this;
  } else if constexpr (std::is_same_v<T, bool>) {
    return detail::value_to_bool(*this);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(
        detail::value_to_int(*this, static_cast<std::int64_t>(std::numeric_limits<T>::min()),
                             static_cast<std::uint64_t>(std::numeric_limits<T>::max())));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(detail::value_to_double(*this));
  } else if constexpr (std::is_same_v<T, std::string>) {
    return detail::value_to_string(*this);
  } else if constexpr (std::is_same_v<T, Dict>) {
    return detail::value_to_dict(*this);
  } else if constexpr (std::is_same_v<T, List>) {
    return detail::value_to_list(*this);
  } else {
    static_assert(detail::is_vector<T>::value,
                  "a Value converts to bool, numbers, std::string, List, Dict or vectors");
    T result;
    for (const Value& item : detail::value_to_list(*this))
      result.push_back(item.as<typename T::value_type>());
    return result;
  }
}

}  // namespace train
