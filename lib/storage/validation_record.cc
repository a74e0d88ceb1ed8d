#include "lib/storage/validation_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <limits>

#include "lib/base/utf8.h"
#include "lib/storage/digest.h"
#include "lib/storage/metrics_json.h"

namespace train {
namespace {

namespace json = boost::json;

constexpr std::string_view kFormat = "trainrun-validation";
constexpr int kVersion = 1;
constexpr std::string_view kDigestKey = ",\n\"digest\":\"";
constexpr std::string_view kEnd = "\"}\n";
constexpr std::size_t kDigestChars = 32;
constexpr std::size_t kErrorBytesMax = 64u << 10;
constexpr std::array<std::string_view, 3> kStatuses{"validated", "failed", "timeout"};

Error bad_record(std::string why) { return Error{Errc::InvalidArgument, "validation: " + why}; }

/// Check the digest, and return the bytes that it covers.
Result<std::string_view> checked_body(std::string_view text) {
  const std::size_t tail = kDigestKey.size() + kDigestChars + kEnd.size();
  if (text.size() >= tail && text.ends_with(kEnd)) {
    const std::string_view body = text.substr(0, text.size() - tail);
    const std::string_view end = text.substr(body.size());
    if (end.starts_with(kDigestKey) &&
        end.substr(kDigestKey.size(), kDigestChars) == to_hex(digest_of(body)))
      return body;
  }
  return Error{Errc::Corrupt,
               fmt::format("validation: {} bytes without their digest", text.size())};
}

struct Word {
  std::string_view text;
  double number;
};
constexpr std::array kWords{Word{"NaN", std::numeric_limits<double>::quiet_NaN()},
                            Word{"-Infinity", -std::numeric_limits<double>::infinity()},
                            Word{"Infinity", std::numeric_limits<double>::infinity()}};

MetricValue text_or_number(const json::string& text) {
  for (const Word& word : kWords) {
    if (text.starts_with('\0') && std::string_view(text).substr(1) == word.text) return word.number;
  }
  return std::string(text);
}

Result<Unit> flatten(const json::object& object, const std::string& prefix, Metrics& out) {
  for (const auto& [key, value] : object) {
    const std::string name = prefix + std::string(key);
    const auto refuse = [&](std::string_view what) {
      return Error{Errc::InvalidArgument, fmt::format("'{}' is {}", escape_name(name), what)};
    };
    if (key.empty()) return refuse("a metric without a name");
    if (value.is_object()) {
      TRY_VOID(flatten(value.get_object(), name + ".", out));
      continue;
    }
    if (value.is_null() || value.is_array())
      return refuse("not a number, bool or string, as a metric must be");
    const bool twice =
        std::any_of(out.begin(), out.end(), [&](const auto& one) { return one.first == name; });
    if (twice) return refuse("there twice");
    if (value.is_bool()) out.emplace_back(name, value.get_bool());
    if (value.is_int64()) out.emplace_back(name, value.get_int64());
    if (value.is_uint64()) out.emplace_back(name, static_cast<double>(value.get_uint64()));
    if (value.is_double()) out.emplace_back(name, value.get_double());
    if (value.is_string()) out.emplace_back(name, text_or_number(value.get_string()));
  }
  return Unit{};
}

/// Replace NaN, Infinity and -Infinity, which Python's json.dump writes but JSON does not have.
/// Outside of strings, they become marker strings that no program reports, which flatten() turns
/// into numbers.
std::string with_marks(std::string_view text) {
  std::string out;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size();) {
    if (quoted && text[i] == '\\' && i + 1 < text.size()) {
      out += text.substr(i, 2);
      i += 2;
      continue;
    }
    quoted ^= text[i] == '"';
    const auto word = std::find_if(kWords.begin(), kWords.end(), [&](const Word& one) {
      return !quoted && text.substr(i).starts_with(one.text);
    });
    if (word == kWords.end()) {
      out += text[i++];
    } else {
      out += fmt::format("\"\\u0000{}\"", word->text);
      i += word->text.size();
    }
  }
  return out;
}

}  // namespace

std::string_view to_string(ValidationStatus status) {
  return kStatuses[static_cast<std::size_t>(status)];
}

std::optional<ValidationStatus> parse_validation_status(std::string_view text) {
  for (std::size_t i = 0; i < kStatuses.size(); ++i)
    if (kStatuses[i] == text) return static_cast<ValidationStatus>(i);
  return std::nullopt;
}

std::string format_validation(const ValidationRecord& record) {
  const MetricsJson metrics = metrics_to_json(record.metrics);
  std::string text = fmt::format(
      "{{\"format\":\"{}\",\n\"version\":{},\n\"checkpoint\":{},\n\"status\":\"{}\",\n"
      "\"metrics\":{},\n\"non_finite\":{},\n\"error\":{},\n\"took_ms\":{},\n\"ended\":{}",
      kFormat, kVersion, record.checkpoint.value, to_string(record.status),
      json::serialize(metrics.metrics), json::serialize(metrics.non_finite),
      json::serialize(utf8_text(record.error, kErrorBytesMax)), record.took_ms,
      json::serialize(record.ended));
  const std::string digest = to_hex(digest_of(text));
  return text + fmt::format("{}{}{}", kDigestKey, digest, kEnd);
}

Result<ValidationRecord> parse_validation(std::string_view text) {
  TRY(const std::string_view body, checked_body(text));
  json::error_code ec;
  const json::value root = json::parse(std::string(body) + "}", ec);
  if (ec || !root.is_object()) return bad_record("not a JSON object");
  const json::object& object = root.get_object();
  const auto text_at = [&](std::string_view key) -> std::string {
    const json::value* value = object.if_contains(key);
    return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
  };
  const auto number_at = [&](std::string_view key) -> std::int64_t {
    const json::value* value = object.if_contains(key);
    return value != nullptr && value->is_int64() ? value->get_int64() : -1;
  };
  if (text_at("format") != kFormat) return bad_record("of another format");
  if (number_at("version") != kVersion)
    return Error{Errc::InvalidArgument,
                 fmt::format("validation: version {}, this program reads version {}",
                             number_at("version"), kVersion),
                 "use the trainrun that wrote it, or a newer one"};
  ValidationRecord record;
  if (number_at("checkpoint") < 1) return bad_record("'checkpoint' is not a number of at least 1");
  record.checkpoint.value = static_cast<std::uint64_t>(number_at("checkpoint"));
  const auto status = parse_validation_status(text_at("status"));
  if (!status) return bad_record("'status' is unknown");
  record.status = *status;
  const json::value* metrics = object.if_contains("metrics");
  const json::value* non_finite = object.if_contains("non_finite");
  if (metrics == nullptr || !metrics->is_object() || non_finite == nullptr ||
      !non_finite->is_object())
    return bad_record("'metrics' or 'non_finite' is not an object");
  record.metrics = metrics_from_json(metrics->get_object(), non_finite->get_object());
  record.error = text_at("error");
  record.took_ms = number_at("took_ms");
  record.ended = text_at("ended");
  return record;
}

Result<std::optional<ValidationRecord>> read_validation(FileSystem& fs, const std::string& folder) {
  auto text = read_small_file(fs, join_path(folder, kValidationName), kValidationBytesMax);
  if (text.has_error()) {
    if (text.error().code == Errc::NotFound) return std::optional<ValidationRecord>();
    return text.error();
  }
  TRY(auto record, parse_validation(*text));
  return std::optional(std::move(record));
}

Result<Unit> write_validation(FileSystem& fs, const std::string& folder,
                              const ValidationRecord& record) {
  return write_small_file(fs, join_path(folder, kValidationName), format_validation(record));
}

Metrics merge_metrics(const Metrics& reported, const std::optional<ValidationRecord>& validation) {
  Metrics merged = reported;
  if (!validation) return merged;
  for (const auto& [name, value] : validation->metrics) {
    const auto same = std::find_if(merged.begin(), merged.end(),
                                   [&name = name](const auto& m) { return m.first == name; });
    if (same == merged.end())
      merged.emplace_back(name, value);
    else
      same->second = value;
  }
  return merged;
}

Result<Metrics> parse_validation_result(std::string_view text) {
  json::error_code ec;
  const json::value root = json::parse(with_marks(text), ec);
  if (ec) return Error{Errc::InvalidArgument, fmt::format("no JSON: {}", ec.message())};
  if (!root.is_object()) return Error{Errc::InvalidArgument, "no JSON object"};
  Metrics metrics;
  TRY_VOID(flatten(root.get_object(), "", metrics));
  return metrics;
}

}  // namespace train
