// Writes a JobSpec in the spec's own syntax, row by row of the table. resolved.yaml and the
// schema's defaults come from here.
#pragma once

#include <boost/json/value.hpp>

#include "launcher/spec/field.h"

namespace train::spec {

/// Whether `${` becomes `$${` in interpolated fields.
enum class Escape { None, Interpolation };

/// Return a field's value as it may be written in a spec: durations as "30s", sizes as "16GiB",
/// null if it is unset.
boost::json::value spec_value(const Field& field, const Target& target, Escape escape);

/// Return the whole spec as nested objects, in the table's order.
boost::json::object spec_values(const JobSpec& spec, Escape escape);

}  // namespace train::spec
