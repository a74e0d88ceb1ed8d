#include "lib/net/run_owner.h"

#include <fmt/format.h>

#include "lib/net/hmac.h"

namespace train {
namespace {

constexpr std::size_t kKeyBytes = 32, kMarkBytes = 16;
constexpr std::string_view kHexDigits = "0123456789abcdef";

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

bool is_hex(std::string_view text, std::size_t bytes) {
  return text.size() == 2 * bytes && text.find_first_not_of(kHexDigits) == std::string_view::npos;
}

}  // namespace

std::string make_owner_key() { return hex(random_bytes(kKeyBytes)); }

bool is_owner_key(std::string_view text) { return is_hex(text, kKeyBytes); }

std::string owner_mark(std::string_view owner_key) {
  const auto mac = hmac_sha256(owner_key, "trainrun 2 run owner");
  return hex({mac.data(), kMarkBytes});
}

bool owns_run(std::string_view run_id, std::string_view owner_key) {
  const std::string_view end = run_id.substr(run_id.rfind('-') + 1);
  return !is_hex(end, kMarkBytes) || end == owner_mark(owner_key);
}

}  // namespace train
