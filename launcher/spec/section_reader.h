// Walks a spec's tree along the table of fields and fills a JobSpec. Checks unknown keys, types,
// bounds and choices.
#pragma once

#include "launcher/spec/field.h"
#include "launcher/spec/reading.h"

namespace train::spec {

/// Read the whole tree into `spec`, whose other fields keep their defaults. Mistakes go to
/// reading.diagnostics.
void read_spec(Reading& reading, const yaml::Node& root, JobSpec& spec);

/// Report an unknown key of a section ("": the spec), and suggest the nearest known one.
void report_unknown_key(Reading& reading, const yaml::Position& at, std::string_view section,
                        std::string_view key, std::span<const std::string_view> known);

}  // namespace train::spec
