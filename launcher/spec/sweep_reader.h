// Reads `sweep:`, and writes it again: sweep_values.cc is the other direction.
#pragma once

#include <boost/json/object.hpp>

#include "launcher/core/search/search_spec.h"
#include "launcher/spec/reading.h"

namespace train::spec {

/// Read the section into reading.sweep. Mistakes go to reading.diagnostics.
void read_sweep(Reading& reading, const yaml::Cursor& cursor);

/// Return the section as a spec would write it, with all defaults.
boost::json::object sweep_values(const SearchSpec& sweep);
/// Return its JSON Schema.
boost::json::object sweep_schema();

}  // namespace train::spec
