// The table of the run spec: every key that a job.yaml may have, in the order of the docs. To add
// one, change job_spec.h, add a row in fields.cc and a golden error under tests/golden/spec, and
// run with `UPDATE_GOLDEN=1` to update docs/spec.md.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/spec/field.h"

namespace train::spec {

std::span<const Field> fields();

/// Return the rows directly below a section ("" is the top), in the table's order.
std::vector<const Field*> fields_below(std::string_view section);

/// Return the last part of a row's path.
std::string_view key_of(const Field& field);

/// A key of Ray that Ray itself has removed, at the top or in run_config.
struct RemovedKey {
  std::string_view key;
  std::string_view what_to_do;
};
/// Return the key, or nullptr if it is none of these.
const RemovedKey* removed_key(std::string_view section, std::string_view key);

/// Return the names that train-run itself sets for each worker.
std::span<const std::string_view> reserved_environment();

/// Return the names of the limits that run_config.rlimits takes, as in prlimit(1).
std::span<const std::string_view> limit_names();

inline constexpr std::string_view kNamePattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$";
/// Return whether the text matches kNamePattern.
bool is_name(std::string_view text);

}  // namespace train::spec
