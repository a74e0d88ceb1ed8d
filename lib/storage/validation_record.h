// What became of the validation of a committed checkpoint, beside its manifest: .validation.json
// (FORMAT.md section 6). The manifest stays as it was. Struct <-> JSON is pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/storage/manifest.h"

namespace train {

inline constexpr std::string_view kValidationName = ".validation.json";
inline constexpr std::uint64_t kValidationBytesMax = 1 << 20;

enum class ValidationStatus { Validated, Failed, TimedOut };
/// "validated", "failed", "timeout".
std::string_view to_string(ValidationStatus status);
std::optional<ValidationStatus> parse_validation_status(std::string_view text);

struct ValidationRecord {
  CheckpointNumber checkpoint = {};
  ValidationStatus status = ValidationStatus::Validated;
  Metrics metrics = {};    // only of Validated
  std::string error = {};  // of the others: why
  std::int64_t took_ms = 0;
  std::string ended = {};  // RFC 3339
  bool operator==(const ValidationRecord&) const = default;
};

std::string format_validation(const ValidationRecord& record);
/// Corrupt when the digest does not match, InvalidArgument when it says what cannot be.
Result<ValidationRecord> parse_validation(std::string_view text);

/// Nothing where the checkpoint in `folder` was not validated.
Result<std::optional<ValidationRecord>> read_validation(FileSystem& fs, const std::string& folder);
/// Replaces the file whole, and syncs.
Result<Unit> write_validation(FileSystem& fs, const std::string& folder,
                              const ValidationRecord& record);

/// The metrics of a report with those of its checkpoint's validation over them: of one name the
/// validation's counts.
Metrics merge_metrics(const Metrics& reported, const std::optional<ValidationRecord>& validation);

/// The JSON object that a validation left as its result, flat: {"val": {"acc": 0.9}} is "val.acc".
/// NaN and Infinity, as Python writes them, are numbers. InvalidArgument for a text that is no
/// object, a null, a list, a name twice.
Result<Metrics> parse_validation_result(std::string_view text);

}  // namespace train
