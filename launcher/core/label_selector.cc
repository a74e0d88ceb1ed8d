#include "launcher/core/label_selector.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace train {
namespace {

struct Condition {
  bool negated = false;
  std::vector<std::string_view> values;
};

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == text.npos) return "";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

/// Return nothing for a list that does not end.
std::optional<Condition> parse(std::string_view text) {
  Condition condition;
  text = trimmed(text);
  if (text.starts_with('!')) {
    condition.negated = true;
    text = trimmed(text.substr(1));
  }
  if (!text.starts_with("in(")) {
    condition.values.push_back(text);
    return condition;
  }
  if (!text.ends_with(')')) return std::nullopt;
  text = text.substr(3, text.size() - 4);
  for (;;) {
    const std::size_t comma = text.find(',');
    condition.values.push_back(trimmed(text.substr(0, comma)));
    if (comma == text.npos) return condition;
    text.remove_prefix(comma + 1);
  }
}

constexpr std::size_t kShownMax = 8;

std::string joined(const std::map<std::string, std::string>& pairs, std::string_view between) {
  std::string text;
  std::size_t shown = 0;
  for (const auto& [name, value] : pairs) {
    if (shown++ == kShownMax) return fmt::format("{} and {} more", text, pairs.size() - kShownMax);
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", name, between, value);
  }
  return text;
}

}  // namespace

Result<Unit> check_label_condition(std::string_view condition) {
  const auto parsed = parse(condition);
  if (!parsed)
    return Error{Errc::InvalidSpec, fmt::format("is '{}', which has no ')' at its end", condition),
                 "write in(a,b) or !in(a,b)"};
  for (const std::string_view value : parsed->values) {
    if (is_label_value(value)) continue;
    return Error{Errc::InvalidSpec,
                 fmt::format("is '{}', and '{}' can be no label's value", condition, value),
                 fmt::format("write a, !a, in(a,b) or !in(a,b); in values {}", kLabelRule)};
  }
  return Unit{};
}

bool accepts(const LabelSelector& selector, const Labels& labels) {
  return std::all_of(selector.begin(), selector.end(), [&](const auto& rule) {
    const auto condition = parse(rule.second);
    if (!condition) return false;
    const auto label = labels.find(rule.first);
    const bool is_one =
        label != labels.end() && std::find(condition->values.begin(), condition->values.end(),
                                           label->second) != condition->values.end();
    return is_one != condition->negated;
  });
}

std::string describe(const LabelSelector& selector) { return joined(selector, ": "); }

std::string describe_labels(const Labels& labels) {
  return labels.empty() ? "no labels" : joined(labels, "=");
}

}  // namespace train
