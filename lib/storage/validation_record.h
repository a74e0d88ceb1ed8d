// The outcome of the validation of a committed checkpoint. It is stored beside the manifest in
// .validation.json (FORMAT.md section 6); the manifest does not change. The conversion between
// struct and JSON is pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/storage/manifest.h"

namespace train {

inline constexpr std::string_view kValidationName = ".validation.json";
inline constexpr std::uint64_t kValidationBytesMax = 1 << 20;

enum class ValidationStatus { Validated, Failed, TimedOut };
/// Return "validated", "failed" or "timeout".
std::string_view to_string(ValidationStatus status);
std::optional<ValidationStatus> parse_validation_status(std::string_view text);

struct ValidationRecord {
  CheckpointNumber checkpoint = {};
  ValidationStatus status = ValidationStatus::Validated;
  Metrics metrics = {};    // only if Validated
  std::string error = {};  // otherwise the reason
  std::int64_t took_ms = 0;
  std::string ended = {};  // RFC 3339
  bool operator==(const ValidationRecord&) const = default;
};

std::string format_validation(const ValidationRecord& record);
/// Parse a record. Corrupt if the digest does not match, InvalidArgument if the content is wrong.
Result<ValidationRecord> parse_validation(std::string_view text);

/// Return the record, or nothing if the checkpoint in `folder` was not validated.
Result<std::optional<ValidationRecord>> read_validation(FileSystem& fs, const std::string& folder);
/// Replace the file as a whole, and sync it.
Result<Unit> write_validation(FileSystem& fs, const std::string& folder,
                              const ValidationRecord& record);

/// Return the metrics of a report, overridden by those of its checkpoint's validation: if both have
/// a metric, the validation's value counts.
Metrics merge_metrics(const Metrics& reported, const std::optional<ValidationRecord>& validation);

/// Parse the JSON object that a validation left as its result, and flatten it: {"val": {"acc":
/// 0.9}} becomes "val.acc". NaN and Infinity, as Python writes them, are numbers. InvalidArgument
/// if the text is no object, contains a null or a list, or has a name twice.
Result<Metrics> parse_validation_result(std::string_view text);

}  // namespace train
