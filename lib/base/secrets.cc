#include "lib/base/secrets.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <vector>

namespace train {
namespace {

// Hiding a shorter value, such as "root", would spoil every path.
constexpr std::size_t kValueBytesMin = 6;
constexpr std::size_t kLineBytesMin = 16;  // of one line of a longer value, such as a private key

constexpr std::array<std::string_view, 18> kWords{
    "TOKEN",          "SECRET",    "SECRETS", "PASSWORD",     "PASSWORDS", "PASSWD",
    "PASSPHRASE",     "APIKEY",    "API_KEY", "ACCESS_KEY",   "SECRETKEY", "PRIVATE_KEY",
    "ENCRYPTION_KEY", "SIGNATURE", "DSN",     "DATABASE_URL", "MYSQL_PWD", "PGPASSWORD"};
constexpr std::array<std::string_view, 10> kBroadWords{
    "KEY",  "AUTH", "CREDENTIAL", "CREDENTIALS", "CREDS",
    "PASS", "PSK",  "COOKIE",     "BEARER",      "AUTHORIZATION"};
// A name that ends in one of these words stands for a file or the like.
constexpr std::array<std::string_view, 6> kLocationWords{"FILE",   "PATH", "DIR",
                                                         "FOLDER", "SOCK", "LENGTH"};

/// Return the words of a name: "_DB_PASSWORD_" for "dbPassword" and "db-password".
std::string words_of(std::string_view name) {
  std::string words = "_";
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z';
    const bool after_lower = i > 0 && name[i - 1] >= 'a' && name[i - 1] <= 'z';
    if (upper && after_lower) words += '_';
    const bool in_word = upper || lower || (c >= '0' && c <= '9');
    words += lower ? static_cast<char>(c - 'a' + 'A') : in_word ? c : '_';
  }
  return words + '_';
}

bool has_word(const std::string& words, std::span<const std::string_view> among) {
  const bool location = std::any_of(
      kLocationWords.begin(), kLocationWords.end(),
      [&](std::string_view word) { return words.ends_with(fmt::format("_{}_", word)); });
  return !location && std::any_of(among.begin(), among.end(), [&](std::string_view word) {
    return words.find(fmt::format("_{}_", word)) != std::string::npos;
  });
}

/// The secrets of one length, and their names.
using SecretsOfLength = std::map<std::string, std::string, std::less<>>;

struct Learned {
  std::shared_mutex mutex;
  // The longest first, since one may be part of another.
  std::map<std::size_t, SecretsOfLength, std::greater<>> by_length;
};
Learned& learned() {
  // Never destroyed, since logs are written until the very end.
  static auto* const all = new Learned;
  return *all;
}

/// Return the value as JSON writes it.
std::string escaped(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    if (c == '\n')
      text += "\\n";
    else if (c == '\t')
      text += "\\t";
    else
      text += c;
  }
  return text;
}

void learn_value(std::string_view name, std::string_view value) {
  Learned& all = learned();
  const std::unique_lock lock(all.mutex);
  all.by_length[value.size()].emplace(value, name);
}

/// Copies a text and replaces secrets by marks. It moves each byte once, however many secrets there
/// are.
class Copy {
 public:
  explicit Copy(std::string_view text) : text_(text) { shown_.reserve(text.size()); }
  void replace(std::size_t at, std::size_t size, std::string_view mark) {
    shown_.append(text_.substr(copied_, at - copied_)).append(mark);
    copied_ = at + size;
  }
  std::string rest() {
    shown_.append(text_.substr(copied_));
    return std::move(shown_);
  }

 private:
  std::string_view text_;
  std::string shown_;
  std::size_t copied_ = 0;
};

void hide_value(std::string& text, const std::string& value, const std::string& name) {
  std::size_t at = text.find(value);
  if (at == text.npos) return;
  Copy copy(text);
  const std::string mark = redacted_mark(name);
  for (; at != text.npos; at = text.find(value, at + value.size()))
    copy.replace(at, value.size(), mark);
  text = copy.rest();
}

/// Do the same for many values of the same length, in one pass.
void hide_values_of(std::string& text, std::size_t length, const SecretsOfLength& secrets) {
  const std::string_view view = text;
  Copy copy(view);
  for (std::size_t at = 0; at + length <= view.size(); ++at) {
    const auto found = secrets.find(view.substr(at, length));
    if (found == secrets.end()) continue;
    copy.replace(at, length, redacted_mark(found->second));
    at += length - 1;
  }
  text = copy.rest();
}

void hide_values(std::string& text) {
  constexpr std::size_t kFew = 8;  // a search for each is faster than a look at each place
  Learned& all = learned();
  const std::shared_lock lock(all.mutex);
  for (const auto& [length, secrets] : all.by_length) {
    if (length > text.size()) continue;
    if (secrets.size() > kFew) {
      hide_values_of(text, length, secrets);
      continue;
    }
    for (const auto& [value, name] : secrets) hide_value(text, value, name);
  }
}

struct Span {
  std::size_t begin = 0, size = 0;
};

/// Return whether scheme://user@host has a token in place of the user, as GitHub and GitLab take.
bool is_token(std::string_view before, std::string_view user) {
  constexpr std::size_t kTokenBytesMin = 16;
  return user.size() >= kTokenBytesMin &&
         (before.ends_with("http://") || before.ends_with("https://"));
}

/// Return the place of the password in the next scheme://user:password@host, or of the token in
/// https://token@host, from `at` on. Advances `at`.
std::optional<Span> next_url_password(std::string_view text, std::size_t& at) {
  while ((at = text.find("://", at)) != std::string_view::npos) {
    at += 3;
    const std::size_t end = std::min(text.find_first_of("/?# \t\r\n\"'<>", at), text.size());
    const std::string_view authority = text.substr(at, end - at);
    const std::size_t host = authority.rfind('@'), colon = authority.find(':');
    if (host == std::string_view::npos || colon + 1 == host) continue;
    if (colon > host && is_token(text.substr(0, at), authority.substr(0, host)))
      return Span{at, host};
    if (colon >= host) continue;
    return Span{at + colon + 1, host - colon - 1};
  }
  return std::nullopt;
}

void hide_url_passwords(std::string& text) {
  Copy copy(text);
  std::size_t at = 0;
  while (const auto password = next_url_password(text, at)) {
    copy.replace(password->begin, password->size, redacted_mark("URL"));
    at = password->begin + password->size;
  }
  text = copy.rest();
}

bool in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

/// A name, and the value that is assigned to it.
struct Assignment {
  std::string_view name;  // empty: nothing is assigned
  bool name_is_quoted = false;
  bool value_is_quoted = false;
  Span value;  // without its quotes
};

/// Find the name before the '=' or ':' at `sign`. A colon assigns only after a name in quotes:
/// "token: not found" is prose.
Assignment name_before(std::string_view text, std::size_t sign) {
  Assignment found;
  found.name_is_quoted = sign > 0 && (text[sign - 1] == '"' || text[sign - 1] == '\'');
  if (text[sign] == ':' && !found.name_is_quoted) return found;
  const std::size_t end = found.name_is_quoted ? sign - 1 : sign;
  std::size_t at = end;
  while (at > 0 && in_name(text[at - 1])) --at;
  while (at < end && text[at] == '-') ++at;
  found.name = text.substr(at, end - at);
  return found;
}

/// Return the end of a text in quotes that begins at `at`.
std::size_t quoted_end(std::string_view text, std::size_t at, char quote) {
  std::size_t end = at;
  for (; end < text.size() && text[end] != quote; ++end)
    if (text[end] == '\\' && quote == '"') ++end;  // as in JSON, and not in a shell's '…'
  return std::min(end, text.size());
}

/// Return the end of a value that begins at `at` and ends before one of `ends`. If that is a quote
/// inside a JSON string, the value ends before the quote's backslash.
std::size_t bare_end(std::string_view text, std::size_t at, std::string_view ends) {
  const std::size_t end = std::min(text.find_first_of(ends, at), text.size());
  std::size_t slashes = end;
  while (slashes > at && text[slashes - 1] == '\\') --slashes;
  const bool escaped = (end - slashes) % 2 == 1;
  return end < text.size() && text[end] == '"' && escaped ? end - 1 : end;
}

/// Find the value after the '=' or ':' at `sign`.
void find_value(std::string_view text, std::size_t sign, Assignment& found) {
  std::size_t at = sign + 1;
  if (found.name_is_quoted) at = std::min(text.find_first_not_of(' ', at), text.size());
  const std::string_view rest = text.substr(at);
  const bool quoted = rest.starts_with('"') || rest.starts_with('\'');
  const bool quoted_in_json = rest.starts_with("\\\"");
  found.value_is_quoted = quoted || quoted_in_json;
  at += quoted ? 1 : quoted_in_json ? 2 : 0;
  const std::size_t end = quoted           ? quoted_end(text, at, text[at - 1])
                          : quoted_in_json ? bare_end(text, at, "\"")
                                           : bare_end(text, at, " \t\r\n\"'&,;)}]");
  found.value = {at, end - at};
}

/// Return whether a value without quotes is a number, true, false, null, a list or a mapping, as
/// after a name in JSON. A mark in its place would not be JSON.
bool is_json_without_quotes(std::string_view value) {
  if (value == "true" || value == "false" || value == "null") return true;
  if (value.starts_with('[') || value.starts_with('{')) return true;
  double number = 0;
  const auto [end, error] = std::from_chars(value.begin(), value.end(), number);
  return error != std::errc::invalid_argument && end == value.end();
}

/// Return whether the value holds no secret.
bool is_harmless(const Assignment& found, std::string_view value) {
  if (found.name_is_quoted && !found.value_is_quoted && is_json_without_quotes(value)) return true;
  return value.empty() || value.starts_with("<redacted:") || value == "null" ||
         value.starts_with("env:") || value.starts_with("file:");
}

/// Hide the values in NAME=value and "name": "value".
void hide_assigned(std::string& text) {
  Copy copy(text);
  for (std::size_t sign = 0; (sign = text.find_first_of("=:", sign)) != std::string::npos; ++sign) {
    Assignment found = name_before(text, sign);
    if (found.name.empty() || !names_a_secret(found.name)) continue;
    find_value(text, sign, found);
    const auto [begin, size] = found.value;
    if (is_harmless(found, std::string_view(text).substr(begin, size))) continue;
    copy.replace(begin, size, redacted_mark(found.name));
    sign = begin + size - 1;
  }
  text = copy.rest();
}

}  // namespace

bool names_a_secret(std::string_view name) { return has_word(words_of(name), kWords); }

bool may_name_a_secret(std::string_view name) {
  const std::string words = words_of(name);
  return has_word(words, kWords) || has_word(words, kBroadWords);
}

std::string redacted_mark(std::string_view name) { return fmt::format("<redacted:{}>", name); }

void learn_secret(std::string_view name, std::string_view value) {
  const auto newline = value.find('\n');
  if (newline != std::string_view::npos) {
    for (std::string_view rest = value; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      if (line.size() >= kLineBytesMin) learn_value(name, line);
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    }
  } else if (value.starts_with('/') && !names_a_secret(name)) {
    return;  // a file's path
  }
  if (value.size() < kValueBytesMin) return;
  learn_value(name, value);
  learn_value(name, escaped(value));
}

void learn_secrets(const std::map<std::string, std::string>& environment) {
  for (const auto& [name, value] : environment) {
    if (may_name_a_secret(name)) learn_secret(name, value);
    for (std::size_t at = 0; const auto password = next_url_password(value, at);)
      learn_secret(name, std::string_view(value).substr(password->begin, password->size));
  }
}

void learn_own_secrets() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t sign = text.find('=');
    if (sign != std::string_view::npos)
      variables.emplace(text.substr(0, sign), text.substr(sign + 1));
  }
  learn_secrets(variables);
}

std::string redacted(std::string_view text) {
  std::string shown(text);
  hide_values(shown);
  hide_url_passwords(shown);
  hide_assigned(shown);
  return shown;
}

}  // namespace train
