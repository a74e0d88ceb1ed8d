// Words for --set, by which a train-run that starts another one changes its spec. Pure.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

namespace train {

/// Return KEY=VALUE, whose value is YAML: JSON is.
std::string assignment(std::string_view key, const boost::json::value& value);

/// Return the text for a key in which ${NAME} would be replaced.
std::string literal(std::string text);

}  // namespace train
