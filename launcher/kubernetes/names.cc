#include "launcher/kubernetes/names.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/yaml/diagnostics.h"

namespace train {
namespace {

constexpr std::size_t kLabelMax = 63, kSubdomainMax = 253, kImageMax = 1024, kFolderMax = 512;

bool lower(char c) { return c >= 'a' && c <= 'z'; }
bool digit(char c) { return c >= '0' && c <= '9'; }
bool upper(char c) { return c >= 'A' && c <= 'Z'; }
bool alphanumeric(char c) { return lower(c) || upper(c) || digit(c); }

Error refused(std::string_view what, std::string_view text, const std::string& why,
              std::string hint = {}) {
  return {Errc::InvalidArgument,
          fmt::format("{} is {}, which {}", what, yaml::in_quotes(text), why), std::move(hint)};
}

/// Return what is wrong with a label of RFC 1123, or with one of RFC 1035 if a letter must be
/// first.
std::string mistake_in_label(std::string_view text, std::size_t bytes_max, bool letter_first) {
  if (text.empty()) return "is empty";
  const auto wrong = std::find_if_not(text.begin(), text.end(),
                                      [](char c) { return lower(c) || digit(c) || c == '-'; });
  if (wrong != text.end()) return "has other characters than a-z, 0-9 and '-'";
  if (letter_first && !lower(text.front())) return "does not begin with a letter";
  if (text.front() == '-' || text.back() == '-') return "begins or ends with '-'";
  if (text.size() > bytes_max)
    return fmt::format("has {} characters, more than {}", text.size(), bytes_max);
  return {};
}

std::string mistake_in_subdomain(std::string_view text) {
  if (text.size() > kSubdomainMax)
    return fmt::format("has {} characters, more than {}", text.size(), kSubdomainMax);
  for (std::string_view rest = text;;) {
    const std::size_t dot = rest.find('.');
    const std::string_view label = rest.substr(0, dot);
    if (label.empty())
      return text.empty() ? "is empty" : "has nothing between two dots, or beside one";
    if (const std::string mistake = mistake_in_label(label, kSubdomainMax, false); !mistake.empty())
      return text == label ? mistake : fmt::format("has a part that {}", mistake);
    if (dot == std::string_view::npos) return {};
    rest.remove_prefix(dot + 1);
  }
}

/// Return what is wrong with the name of a label's key, or with its value.
std::string mistake_in_label_word(std::string_view text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return alphanumeric(c) || c == '-' || c == '_' || c == '.';
  });
  if (!plain || (!text.empty() && (!alphanumeric(text.front()) || !alphanumeric(text.back()))))
    return "is not letters, digits, '-', '_' and '.', with a letter or digit at both ends";
  if (text.size() > kLabelMax) return fmt::format("has more than {} characters", kLabelMax);
  return {};
}

}  // namespace

Result<Unit> check_service_name(std::string_view what, std::string_view text,
                                std::size_t bytes_max) {
  const std::string mistake = mistake_in_label(text, bytes_max, true);
  if (mistake.empty()) return Unit{};
  const std::string near = as_service_name(text.substr(0, bytes_max));
  const bool usable = mistake_in_label(near, bytes_max, true).empty();
  return refused(what, text, mistake, fmt::format("such as --name {}", usable ? near : "train"));
}

Result<Unit> check_label(std::string_view what, std::string_view text) {
  const std::string mistake = mistake_in_label(text, kLabelMax, false);
  return mistake.empty() ? Result<Unit>(Unit{}) : refused(what, text, mistake);
}

Result<Unit> check_subdomain(std::string_view what, std::string_view text) {
  const std::string mistake = mistake_in_subdomain(text);
  return mistake.empty() ? Result<Unit>(Unit{}) : refused(what, text, mistake);
}

Result<Unit> check_image(std::string_view what, std::string_view text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return alphanumeric(c) || std::string_view("._/:@-").find(c) != std::string_view::npos;
  });
  const std::string_view repository = text.substr(0, text.find('@'));
  const std::size_t name = repository.rfind('/') + 1;  // 0 without one
  const std::string_view last = repository.substr(name, repository.find(':', name) - name);
  const char* hint = "write REGISTRY/NAME:TAG, such as registry.example.org/me/train:1";
  if (text.empty()) return Error{Errc::InvalidArgument, fmt::format("{} is empty", what), hint};
  if (text.size() > kImageMax)
    return refused(what, text, fmt::format("has more than {} characters", kImageMax), hint);
  if (!plain || !alphanumeric(text.front()) || !alphanumeric(text.back()) || last.empty() ||
      std::any_of(last.begin(), last.end(), upper) || text.find("//") != std::string_view::npos)
    return refused(what, text, "is no container image", hint);
  return Unit{};
}

Result<Unit> check_folder(std::string_view what, std::string_view text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return alphanumeric(c) || std::string_view("._/+=@-").find(c) != std::string_view::npos;
  });
  if (!text.starts_with('/')) return refused(what, text, "is no absolute path");
  if (text.size() > kFolderMax)
    return refused(what, text, fmt::format("has more than {} characters", kFolderMax));
  if (text.find_first_not_of('/') == std::string_view::npos)
    return refused(what, text, "is the root of the containers", "name a folder below it");
  if (!plain)
    return refused(what, text, "has other characters than letters, digits and ._/+=@-",
                   "name a folder that pods can mount");
  if ((std::string(text) + "/").find("/../") != std::string::npos)
    return refused(what, text, "has '..'", "name the folder itself");
  return Unit{};
}

Result<std::pair<std::string, std::string>> parse_label(std::string_view what,
                                                        std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos)
    return refused(what, text, "is not KEY=VALUE", "such as node.kubernetes.io/instance-type=gpu8");
  const std::string_view key = text.substr(0, equals), value = text.substr(equals + 1);
  const std::size_t slash = key.find('/');
  const std::string_view name = slash == std::string_view::npos ? key : key.substr(slash + 1);
  if (slash != std::string_view::npos) {
    const std::string mistake = mistake_in_subdomain(key.substr(0, slash));
    if (!mistake.empty()) return refused(what, text, "has a key whose prefix " + mistake);
  }
  if (name.empty()) return refused(what, text, "has no key");
  for (const auto& [part, word] : {std::pair("key", name), std::pair("value", value)}) {
    const std::string mistake = mistake_in_label_word(word);
    if (!mistake.empty())
      return refused(what, text, fmt::format("has a {} that {}", part, mistake));
  }
  return std::pair(std::string(key), std::string(value));
}

std::string as_service_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const char converted = upper(c)               ? static_cast<char>(c - 'A' + 'a')
                           : lower(c) || digit(c) ? c
                                                  : '-';
    if (name.empty() && !lower(converted)) continue;
    if (converted == '-' && name.ends_with('-')) continue;
    name += converted;
  }
  while (name.ends_with('-')) name.pop_back();
  return name;
}

}  // namespace train
