// An HTTP request as our handlers see it, and the parser of its target: "/a/b%20c?x=1&y=2". Pure.
// Everything in it comes from whoever can connect.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"

namespace train {

enum class HttpMethod { Get, Head, Post, Put, Delete, Other };

/// The parameters after the "?", decoded, in their order.
class HttpQuery {
 public:
  HttpQuery() = default;
  explicit HttpQuery(std::vector<std::pair<std::string, std::string>> parameters)
      : parameters_(std::move(parameters)) {}

  /// Return the first value of the parameter, or nullptr if it is missing.
  const std::string* find(std::string_view name) const;
  /// Return the value, or "" if the parameter is missing.
  std::string text(std::string_view name) const;
  /// Return the values of a parameter that may be repeated.
  std::vector<std::string> all(std::string_view name) const;
  /// Return a whole number, or `missing` if the parameter is missing. InvalidArgument if it is none
  /// from `least` to `most`.
  Result<std::int64_t> whole(std::string_view name, std::int64_t missing, std::int64_t least,
                             std::int64_t most) const;
  /// Return a finite number, or nothing if the parameter is missing. InvalidArgument otherwise.
  Result<std::optional<double>> number(std::string_view name) const;

  const std::vector<std::pair<std::string, std::string>>& parameters() const { return parameters_; }

 private:
  std::vector<std::pair<std::string, std::string>> parameters_;
};

struct HttpTarget {
  /// The decoded parts of the path: {"api", "v1", "runs"}; none for "/". None of them is empty, "."
  /// or "..", or contains a slash, a backslash or a control character; all are UTF-8.
  std::vector<std::string> path = {};
  HttpQuery query = {};
};

inline constexpr std::size_t kTargetBytesMax = 8u << 10;
inline constexpr std::size_t kQueryParametersMax = 128;

/// Parse a request's target. InvalidArgument if it has another form, also for "//", "..", "%2e%2e",
/// "%2f" and what is not UTF-8.
Result<HttpTarget> parse_target(std::string_view target);

struct HttpRequest {
  HttpMethod method = HttpMethod::Get;
  HttpTarget target = {};
  std::string host = {};  // of these headers: "" if missing, and the first if repeated
  std::string origin = {};
  std::string authorization = {};
  std::string cookie = {};
  std::string content_type = {};
  std::string if_none_match = {};
  std::string last_event_id = {};
  std::string fetch_site = {};  // Sec-Fetch-Site
  std::string body = {};
  bool host_repeated = false;
};

/// Return the cookie's value, or "" if it is missing.
std::string cookie_value(std::string_view cookies, std::string_view name);

}  // namespace train
