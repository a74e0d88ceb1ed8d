#include "lib/storage/remote/s3_xml.h"

#include <fmt/format.h>

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <sstream>

namespace train::remote {
namespace {

namespace pt = boost::property_tree;

constexpr int kDepthMax = 16;

/// Return the position past the tag's end, or npos; quoted values may hold a '>'.
std::size_t end_of_tag(std::string_view xml, std::size_t at) {
  char quote = 0;
  for (; at < xml.size(); ++at) {
    const char c = xml[at];
    if (quote != 0)
      quote = c == quote ? '\0' : quote;
    else if (c == '"' || c == '\'')
      quote = c;
    else if (c == '>')
      return at + 1;
  }
  return std::string_view::npos;
}

/// Return the reason not to parse it, or "". Boost's parser recurses into each element, and frees
/// the tree recursively.
std::string_view refusal(std::string_view xml) {
  int depth = 0;
  for (std::size_t at = xml.find('<'); at != std::string_view::npos; at = xml.find('<', at)) {
    const char kind = at + 1 < xml.size() ? xml[at + 1] : '!';
    if (kind == '!') return "it holds a comment, CDATA or a document type";
    at = end_of_tag(xml, at);
    if (at == std::string_view::npos) return "a tag without an end";
    if (kind == '/')
      --depth;
    else if (kind != '?' && xml[at - 2] != '/' && ++depth > kDepthMax)
      return "it nests too deep";
  }
  return {};
}

}  // namespace

Result<Unit> read_s3_xml(std::string_view body, std::string_view what,
                         const std::function<void(const pt::ptree&)>& use) {
  const auto unreadable = [&](std::string_view why) {
    return Error{Errc::Io, fmt::format("{} that cannot be read: {}", what, why)};
  };
  if (const std::string_view why = refusal(body); !why.empty()) return unreadable(why);
  try {
    std::istringstream text{std::string(body)};
    pt::ptree tree;
    pt::read_xml(text, tree);
    use(tree);
    return Unit{};
  } catch (const pt::ptree_error& e) {
    return unreadable(e.what());
  }
}

}  // namespace train::remote
