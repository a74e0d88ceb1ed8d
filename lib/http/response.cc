#include "lib/http/response.h"

#include "lib/base/json_text.h"
#include "lib/base/secrets.h"

namespace train {

int http_status_of(Errc code) {
  switch (code) {
    case Errc::InvalidArgument:
    case Errc::InvalidSpec:
      return 400;
    case Errc::Unauthenticated:
      return 401;
    case Errc::Permission:
      return 403;
    case Errc::NotFound:
      return 404;
    case Errc::AlreadyExists:
      return 409;
    case Errc::ResourceExhausted:
      return 413;
    case Errc::Unavailable:
    case Errc::Cancelled:
    case Errc::NoSpace:
      return 503;
    case Errc::Timeout:
      return 504;
    case Errc::Io:
    case Errc::Protocol:
    case Errc::Fenced:
    case Errc::Corrupt:
    case Errc::Internal:
      return 500;
  }
  return 500;
}

HttpResponse problem(int status, const Error& error) {
  JsonWriter json;
  json.object().key("error").object().member("code", to_string(error.code));
  json.member("message", redacted(error.message)).text_or_null("hint", redacted(error.hint));
  return {.status = status, .body = std::move(json.end().end()).take()};
}

HttpResponse problem(const Error& error) { return problem(http_status_of(error.code), error); }

const std::vector<std::pair<std::string, std::string>>& security_headers() {
  static const std::vector<std::pair<std::string, std::string>> headers{
      {"Content-Security-Policy",
       "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
       "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
  };
  return headers;
}

bool etag_matches(std::string_view if_none_match, std::string_view etag) {
  while (!if_none_match.empty()) {
    const std::size_t end = std::min(if_none_match.find(','), if_none_match.size());
    std::string_view one = if_none_match.substr(0, end);
    if_none_match.remove_prefix(std::min(end + 1, if_none_match.size()));
    while (one.starts_with(' ')) one.remove_prefix(1);
    while (one.ends_with(' ')) one.remove_suffix(1);
    if (one.starts_with("W/")) one.remove_prefix(2);
    if (one == etag || one == "*") return true;
  }
  return false;
}

}  // namespace train
