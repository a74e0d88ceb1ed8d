#include "lib/yaml/cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/yaml/nearest.h"
#include "lib/yaml/scalar.h"

namespace train::yaml {

std::string join_path(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

std::string suggest(std::string_view found, std::span<const std::string_view> choices) {
  constexpr std::size_t kShownMax = 64;
  const std::size_t shown = std::min(choices.size(), kShownMax);
  std::string all = fmt::format("{}", fmt::join(choices.first(shown), ", "));
  if (shown < choices.size()) all += fmt::format(" and {} more", choices.size() - shown);
  const std::string_view near = nearest(found, choices);
  return near.empty() ? "write one of: " + all
                      : fmt::format("did you mean {}? known are: {}", near, all);
}

void Cursor::error(std::string_view what, std::string hint) const {
  diagnostics_->error(at(), path_.empty() ? std::string(what) : fmt::format("{} {}", path_, what),
                      std::move(hint));
}

void Cursor::wrong(std::string_view needed, std::string hint) const {
  const std::string found =
      node_->is(Node::Kind::Scalar) ? in_quotes(node_->text) : std::string(describe(node_->kind));
  error(fmt::format("is {}, not {}", found, needed), std::move(hint));
}

const std::string* Cursor::scalar(std::string_view needed, std::string hint) const {
  if (node_->is(Node::Kind::Scalar)) return &node_->text;
  wrong(needed, std::move(hint));
  return nullptr;
}

std::optional<std::int64_t> Cursor::integer(std::int64_t min, std::int64_t max) const {
  constexpr std::string_view kNeeded = "a whole number";
  const std::string* text = scalar(kNeeded, "write a number such as 8");
  if (text == nullptr) return {};
  const auto number = node_->quoted ? std::nullopt : core_integer(*text);
  if (!number) {
    wrong(kNeeded,
          node_->quoted && core_integer(*text) ? "remove the quotes" : "write a number such as 8");
    return {};
  }
  const auto value = number->as_int64();
  if (!value || *value < min || *value > max) {
    const bool low = value ? *value < min : number->negative;
    if (low)
      error(fmt::format("is {}, less than {}", *text, min),
            fmt::format("raise it to {} or more", min));
    if (!low)
      error(fmt::format("is {}, more than {}", *text, max),
            fmt::format("lower it to {} or less", max));
    return {};
  }
  return value;
}

std::optional<double> Cursor::number(double min) const {
  constexpr std::string_view kNeeded = "a number";
  const std::string* text = scalar(kNeeded, "write a number such as 0.5");
  if (text == nullptr) return {};
  const auto value = node_->quoted ? std::nullopt : core_number(*text);
  if (!value) {
    wrong(kNeeded,
          node_->quoted && core_number(*text) ? "remove the quotes" : "write a number such as 0.5");
    return {};
  }
  if (!std::isfinite(*value)) {
    error(fmt::format("is {}, not a finite number", *text), "write a number such as 0.5");
    return {};
  }
  if (*value < min) {
    error(fmt::format("is {}, less than {}", *text, min),
          fmt::format("raise it to {} or more", min));
    return {};
  }
  return value;
}

std::optional<bool> Cursor::boolean() const {
  constexpr std::string_view kHint = "write true or false";
  const std::string* text = scalar("true or false", std::string(kHint));
  if (text == nullptr) return {};
  const auto value = node_->quoted ? std::nullopt : core_bool(*text);
  if (!value) wrong("true or false", std::string(kHint));
  return value;
}

std::optional<std::string> Cursor::text() const {
  const std::string* text = scalar("text", "write a text here");
  if (text == nullptr) return {};
  return *text;
}

std::optional<Duration> Cursor::duration(Duration min, Duration max) const {
  constexpr std::string_view kHint = "write a number and ms, s, m, h or d, such as 30s";
  const std::string* text = scalar("a duration", std::string(kHint));
  if (text == nullptr) return {};
  const auto value = parse_duration(*text);
  if (!value) {
    wrong("a duration", parse_duration(*text + "s") ? fmt::format("add the unit: {}s", *text)
                                                    : std::string(kHint));
    return {};
  }
  if (*value < min) {
    error(fmt::format("is {}, less than {}", *text, format_duration_yaml(min)), "raise it");
    return {};
  }
  if (*value > max) {
    error(fmt::format("is {}, more than {}", *text, format_duration_yaml(max)), "lower it");
    return {};
  }
  return value;
}

std::optional<std::uint64_t> Cursor::size() const {
  constexpr std::string_view kHint =
      "write a number and KiB, MiB, GiB, TiB, KB, MB, GB or TB, such as 512MiB";
  const std::string* text = scalar("a size", std::string(kHint));
  if (text == nullptr) return {};
  const auto value = parse_size(*text);
  if (!value) wrong("a size", std::string(kHint));
  return value;
}

std::optional<std::size_t> Cursor::choice(std::span<const std::string_view> choices) const {
  const std::string needed = fmt::format("one of {}", fmt::join(choices, ", "));
  const std::string* text = scalar(needed, suggest("", choices));
  if (text == nullptr) return {};
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (choices[i] == *text) return i;
  }
  const std::string_view near = nearest(*text, choices);
  wrong(needed, near.empty() ? "write one of these" : fmt::format("did you mean {}?", near));
  return {};
}

std::vector<Cursor::Entry> Cursor::entries() const {
  std::vector<Entry> list;
  if (!node_->is(Node::Kind::Map)) {
    const std::string hint =
        path_.empty() ? "write \"key: value\" lines" : "write \"key: value\" lines below it";
    if (path_.empty()) {
      diagnostics_->error(at(), fmt::format("the spec is {}, not a mapping", describe(node_->kind)),
                          hint);
    } else {
      wrong("a mapping", hint);
    }
    return list;
  }
  list.reserve(node_->entries.size());
  for (const Node::Entry& entry : node_->entries) {
    list.push_back({entry.key->text, entry.key->at,
                    Cursor(*entry.value, join_path(path_, entry.key->text), *diagnostics_)});
  }
  return list;
}

std::vector<Cursor> Cursor::items() const {
  std::vector<Cursor> list;
  if (!node_->is(Node::Kind::Sequence)) {
    wrong("a list", "write [a, b], or lines that begin with \"- \"");
    return list;
  }
  list.reserve(node_->items.size());
  for (std::size_t i = 0; i < node_->items.size(); ++i) {
    list.emplace_back(*node_->items[i], fmt::format("{}[{}]", path_, i), *diagnostics_);
  }
  return list;
}

}  // namespace train::yaml
