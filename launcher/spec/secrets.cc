#include "launcher/spec/secrets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "launcher/spec/spec_file.h"

namespace train::spec {

bool is_environment_name(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9');
  });
}

std::optional<SecretReference> secret_reference(std::string_view value) {
  if (value.starts_with("env:"))
    return SecretReference{SecretReference::From::Environment, std::string(value.substr(4))};
  if (value.starts_with("file:") && !value.starts_with("file://")) {
    return SecretReference{SecretReference::From::File, std::string(value.substr(5))};
  }
  return {};
}

bool names_a_secret(std::string_view name) {
  constexpr std::array<std::string_view, 9> kWords{"TOKEN",   "SECRET",     "PASSWORD",
                                                   "PASSWD",  "PASSPHRASE", "APIKEY",
                                                   "API_KEY", "ACCESS_KEY", "PRIVATE_KEY"};
  std::string padded = "_";
  for (const char c : name) padded += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  padded += '_';
  return std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) {
    return padded.find(fmt::format("_{}_", word)) != std::string::npos;
  });
}

Result<std::map<std::string, std::string>> resolve_environment(
    const JobSpec& spec, const std::map<std::string, std::string>& submitter) {
  std::map<std::string, std::string> resolved;
  for (const auto& [name, value] : spec.env) {
    const auto reference = secret_reference(value);
    if (!reference) {
      resolved[name] = value;
    } else if (reference->from == SecretReference::From::Environment) {
      const auto variable = submitter.find(reference->target);
      if (variable == submitter.end()) {
        return Error{Errc::InvalidSpec,
                     fmt::format("env.{} refers to the variable {}, which is not set", name,
                                 reference->target),
                     "set it where train-run is started"};
      }
      resolved[name] = variable->second;
    } else {
      auto text = read_spec_file(reference->target);
      if (text.has_error())
        return std::move(text).error().with_context(
            fmt::format("reading the secret of env.{}", name));
      if (text->ends_with('\n')) text->pop_back();
      if (text->find('\0') != std::string::npos) {
        return Error{Errc::InvalidSpec,
                     fmt::format("the secret of env.{} in {} holds a NUL character", name,
                                 reference->target),
                     "store it as text"};
      }
      resolved[name] = std::move(*text);
    }
  }
  return resolved;
}

std::map<std::string, std::string> shown_environment(
    const std::map<std::string, std::string>& env) {
  std::map<std::string, std::string> shown = env;
  for (auto& [name, value] : shown) {
    if (names_a_secret(name) && !secret_reference(value))
      value = fmt::format("<redacted:{}>", name);
  }
  return shown;
}

}  // namespace train::spec
