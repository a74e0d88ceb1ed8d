#include "launcher/report/line_prefix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "launcher/report/rank_set.h"
#include "lib/base/rank_ranges.h"
#include "lib/base/terminal_text.h"

namespace train {
namespace {

constexpr std::size_t kTemplateBytesMax = 256;

Error mistake(std::string what) {
  return {Errc::InvalidArgument, "--log-line-prefix: " + std::move(what),
          "use ${rank}, ${local_rank}, ${node}, ${attempt} and ${run}; $$ is a dollar sign"};
}

bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Take the name behind a dollar sign off `rest`, with its braces. Return "" if there is none.
std::string_view take_name(std::string_view& rest) {
  const bool braces = rest.starts_with('{');
  const std::string_view from = rest.substr(braces ? 1 : 0);
  const auto end = static_cast<std::size_t>(std::find_if_not(from.begin(), from.end(), is_of_name) -
                                            from.begin());
  if (end == 0 || (braces && !from.substr(end).starts_with('}'))) return "";
  rest = from.substr(end + (braces ? 1 : 0));
  return from.substr(0, end);
}

std::string ranks_text(std::span<const LineOrigin* const> origins,
                       std::int32_t LineOrigin::*which) {
  std::vector<std::int32_t> ranks;
  for (const LineOrigin* origin : origins) ranks.push_back(origin->*which);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return rank_ranges(ranks);
}

std::string nodes_text(std::span<const LineOrigin* const> origins) {
  std::vector<std::string_view> nodes;
  for (const LineOrigin* origin : origins) nodes.push_back(origin->node);
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes.size() == 1 ? terminal_safe(nodes.front()) : fmt::format("{} nodes", nodes.size());
}

/// Return torchrun's ROLE_NAME, as workers have it.
std::string roles_text(std::span<const LineOrigin* const> origins) {
  std::vector<std::string_view> roles;
  for (const LineOrigin* origin : origins)
    roles.push_back(origin->role.empty() ? std::string_view("default") : origin->role);
  std::sort(roles.begin(), roles.end());
  roles.erase(std::unique(roles.begin(), roles.end()), roles.end());
  return terminal_safe(fmt::format("{}", fmt::join(roles, ",")));
}

}  // namespace

Result<LinePrefix> LinePrefix::parse(std::string_view text, std::string_view run) {
  if (text.size() > kTemplateBytesMax)
    return mistake(fmt::format("the template has {} characters, more than {}", text.size(),
                               kTemplateBytesMax));
  std::vector<Piece> pieces;
  const auto add_text = [&](std::string_view more) {
    if (more.empty()) return;
    if (pieces.empty() || pieces.back().part != Part::Text) pieces.push_back({});
    pieces.back().text += terminal_safe(more);
  };
  constexpr std::array names{
      std::pair{"rank", Part::Rank},      std::pair{"local_rank", Part::LocalRank},
      std::pair{"node", Part::Node},      std::pair{"hostname", Part::Node},
      std::pair{"role_name", Part::Role}, std::pair{"attempt", Part::Attempt}};
  while (!text.empty()) {
    const std::size_t dollar = std::min(text.find('$'), text.size());
    add_text(text.substr(0, dollar));
    if (dollar == text.size()) break;
    text.remove_prefix(dollar + 1);
    if (text.starts_with('$')) {
      add_text("$");
      text.remove_prefix(1);
      continue;
    }
    const std::string_view name = take_name(text);
    const auto known = std::find_if(names.begin(), names.end(),
                                    [&](const auto& one) { return one.first == name; });
    if (known != names.end())
      pieces.push_back({.part = known->second});
    else if (name == "run")
      add_text(run);
    else if (name.empty())
      return mistake("no name follows a '$'");
    else
      return mistake(fmt::format("'${{{}}}' is not known", name));
  }
  LinePrefix prefix;
  prefix.pieces_ = std::move(pieces);
  return prefix;
}

std::string LinePrefix::of(std::span<const LineOrigin* const> origins,
                           std::uint32_t attempt) const {
  if (!pieces_) {
    if (origins.size() == 1)
      return fmt::format("[{} {}{}{}] ", terminal_safe(origins.front()->node),
                         origins.front()->rank, origins.front()->role.empty() ? "" : " ",
                         terminal_safe(origins.front()->role));
    return fmt::format("[{}] ", ranks_text(origins, &LineOrigin::rank));
  }
  std::string text;
  for (const Piece& piece : *pieces_) {
    switch (piece.part) {
      case Part::Text:
        text += piece.text;
        break;
      case Part::Rank:
        text += ranks_text(origins, &LineOrigin::rank);
        break;
      case Part::LocalRank:
        text += ranks_text(origins, &LineOrigin::local_rank);
        break;
      case Part::Node:
        text += nodes_text(origins);
        break;
      case Part::Role:
        text += roles_text(origins);
        break;
      case Part::Attempt:
        text += fmt::format("{}", attempt);
        break;
    }
  }
  return text;
}

}  // namespace train
