// Passes texts to the parser of HTTP targets and to what looks at headers. No part of a path that
// is accepted leads elsewhere, and nothing that is accepted has control characters.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "lib/base/utf8.h"
#include "lib/http/guard.h"
#include "lib/http/request.h"

namespace {

using namespace train;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_text(std::string_view text) {
  while (!text.empty()) {
    const CodePoint next = read_code_point(text);
    require(next.valid && next.value >= 0x20 && next.value != 0x7f);
    text.remove_prefix(next.length);
  }
}

void check_target(std::string_view text) {
  const auto target = parse_target(text);
  if (!target) return;
  for (const std::string& part : target->path) {
    require(!part.empty() && part != "." && part != "..");
    require(part.find('/') == part.npos && part.find('\\') == part.npos);
    check_text(part);
  }
  require(target->query.parameters().size() <= kQueryParametersMax);
  for (const auto& [name, value] : target->query.parameters()) {
    check_text(name);
    check_text(value);
    (void)target->query.whole(name, 0, 0, 100);
    (void)target->query.number(name);
  }
}

/// A request without the token is refused, whatever its headers are.
void check_guard(std::string_view text) {
  const GuardRules rules{.hosts = {"localhost"}, .token = std::string(32, 't'), .cookie = "c"};
  HttpRequest request;
  request.host = text;
  request.cookie = text;
  request.authorization = text;
  if (text.find(rules.token) == text.npos)
    require(refuse_request(rules, request, false).has_value());
  (void)cookie_value(text, "c");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_target(text);
  check_target("/" + std::string(text));
  check_guard(text);
  return 0;
}
