#include "daemon/supervisor/worker_seat.h"

#include <boost/json.hpp>
#include <fstream>
#include <iterator>

namespace train {
namespace {

constexpr std::size_t kErrorFileBytesMax = 1u << 20;

std::string text_at(const boost::json::object& object, std::string_view key) {
  const boost::json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
}

}  // namespace

std::optional<UserError> read_error_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.empty() || text.size() > kErrorFileBytesMax) return std::nullopt;
  boost::system::error_code ec;
  const boost::json::value json = boost::json::parse(text, ec);
  if (ec || !json.is_object()) return std::nullopt;
  const boost::json::value* message = json.as_object().if_contains("message");
  if (message == nullptr) return std::nullopt;
  if (message->is_string()) return UserError{std::string(message->as_string()), "", ""};
  if (!message->is_object()) return std::nullopt;
  UserError error{text_at(message->as_object(), "message"), "", ""};
  if (const auto* extra = message->as_object().if_contains("extraInfo");
      extra != nullptr && extra->is_object()) {
    error.stack = text_at(extra->as_object(), "py_callstack");
  }
  return error;
}

}  // namespace train
