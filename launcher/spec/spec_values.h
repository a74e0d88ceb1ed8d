// Writes a JobSpec in the spec's own syntax, row by row of the table. resolved.yaml and the
// schema's defaults are made of it.
#pragma once

#include <boost/json/value.hpp>

#include "launcher/spec/field.h"

namespace train::spec {

enum class Escape {
  None,
  Interpolation
};  // whether `${` becomes `$${` in fields that are interpolated

/// Return a field's value as it may be written in a spec: durations as "30s", sizes as "16GiB",
/// null for what is unset.
boost::json::value spec_value(const Field& field, const Target& target, Escape escape);

/// Return the whole spec as nested objects, in the table's order.
boost::json::object spec_values(const JobSpec& spec, Escape escape);

}  // namespace train::spec
