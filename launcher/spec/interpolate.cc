#include "launcher/spec/interpolate.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/spec/secrets.h"

namespace train::spec {
namespace {

Interpolated mistaken(std::string_view where, std::string mistake, std::string hint) {
  Interpolated result;
  result.where = where;
  result.mistake = std::move(mistake);
  result.hint = std::move(hint);
  return result;
}

}  // namespace

Interpolated interpolate(std::string_view text,
                         const std::map<std::string, std::string>& environment,
                         std::size_t bytes_max) {
  Interpolated result;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with("$${")) {
      result.text += "${";
      at += 3;
      continue;
    }
    if (!rest.starts_with("${")) {
      result.text += text[at++];
      continue;
    }
    const std::size_t close = rest.find('}');
    if (close == std::string_view::npos)
      return mistaken(rest, "has a \"${\" without \"}\"",
                      "close it, or write $${ for a literal ${");
    const std::string_view inside = rest.substr(2, close - 2);
    const std::size_t colon = inside.find(":-");
    const std::string name(inside.substr(0, colon));
    if (!is_environment_name(name)) {
      return mistaken(
          rest,
          fmt::format("has \"${{{}}}\", which is not ${{NAME}} or ${{NAME:-default}}", inside),
          "write $${ for a literal ${");
    }
    if (inside.find("${") != std::string_view::npos) {
      return mistaken(rest, "has a ${ inside the default of another", "write a plain default");
    }
    const auto variable = environment.find(name);
    const bool is_set = variable != environment.end();
    if (is_set && (colon == std::string_view::npos || !variable->second.empty())) {
      result.text += variable->second;
      result.used.push_back(name);
    } else if (colon != std::string_view::npos) {
      result.text += inside.substr(colon + 2);
    } else {
      return mistaken(
          rest, fmt::format("needs the variable {}, which is not set", name),
          fmt::format("set it, or write ${{{}:-default}}, or $${{{}}} for a literal ${{{}}}", name,
                      name, name));
    }
    if (result.text.size() > bytes_max) {
      return mistaken(
          rest, fmt::format("takes more than {} bytes from variables and defaults", bytes_max),
          "keep data in files, and name them in the spec");
    }
    at += close + 1;
  }
  return result;
}

std::string escape_interpolation(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at).starts_with("${")) out += '$';
    out += text[at];
  }
  return out;
}

}  // namespace train::spec
