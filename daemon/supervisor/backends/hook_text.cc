#include "daemon/supervisor/backends/hook_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>

namespace train {
namespace {

namespace json = boost::json;

bool is_variable_name(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && name.size() <= 255 && letter(name[0]) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

}  // namespace

Result<std::string> published_value(std::string_view output) {
  boost::system::error_code wrong;
  const json::value value = json::parse(output, wrong);
  if (wrong)
    return Error{
        Errc::InvalidArgument,
        fmt::format("it printed no JSON value, but {} bytes: {}", output.size(), wrong.message()),
        "have it print one value, such as \"host:port\" in quotes, and nothing else"};
  return json::serialize(value);
}

Result<std::string> peers_variable(const std::vector<std::string>& values) {
  const std::string list = fmt::format("[{}]", fmt::join(values, ","));
  if (list.size() <= kVariableBytesMax) return list;
  return Error{Errc::ResourceExhausted,
               fmt::format("what all workers published has {} bytes; a variable takes {}",
                           list.size(), kVariableBytesMax),
               "publish less"};
}

std::string own_addresses(const std::vector<std::string>& peers, std::int32_t rank,
                          std::size_t per_worker) {
  const std::size_t first = static_cast<std::size_t>(rank) * per_worker;
  if (per_worker == 0 || first + per_worker > peers.size()) return "null";
  if (per_worker == 1) return json::serialize(json::string(peers[first]));
  json::array all;
  for (std::size_t i = first; i < first + per_worker; ++i) all.emplace_back(peers[i]);
  return json::serialize(all);
}

Result<std::map<std::string, std::string>> printed_variables(std::string_view output) {
  std::map<std::string, std::string> variables;
  while (!output.empty()) {
    const std::string_view line = output.substr(0, output.find('\n'));
    output.remove_prefix(std::min(line.size() + 1, output.size()));
    if (line.empty()) continue;
    const std::size_t equals = line.find('=');
    const std::string_view name = line.substr(0, equals);
    if (equals == std::string_view::npos || !is_variable_name(name) ||
        name.starts_with("TRAINRUN_") || line.find('\0') != std::string_view::npos)
      return Error{
          Errc::InvalidArgument,
          fmt::format("it printed a line of {} bytes that is no NAME=VALUE with a name of its own",
                      line.size()),
          "have it print variables only, and write all else to stderr"};
    variables[std::string(name)] = line.substr(equals + 1);
  }
  return variables;
}

}  // namespace train
