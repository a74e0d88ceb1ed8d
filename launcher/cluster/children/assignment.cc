#include "launcher/cluster/children/assignment.h"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>

namespace train {

std::string assignment(std::string_view key, const boost::json::value& value) {
  return fmt::format("{}={}", key, boost::json::serialize(value));
}

std::string literal(std::string text) {
  for (std::size_t at = text.find("${"); at != std::string::npos; at = text.find("${", at + 3))
    text.insert(at, "$");
  return text;
}

}  // namespace train
