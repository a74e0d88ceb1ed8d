#include "launcher/dashboard/worker_environment.h"

#include <fmt/format.h>

#include "launcher/spec/secrets.h"
#include "lib/base/secrets.h"
#include "lib/base/utf8.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

constexpr std::uint64_t kEnvironmentBytesMax = 4u << 20;  // a process may claim more
constexpr std::size_t kVariablesMax = 2000;
constexpr std::size_t kValueBytesMax = 4096;

}  // namespace

std::optional<Environment> worker_environment(std::int64_t pid, const std::string& run_id,
                                              std::int64_t rank) {
  PosixFileSystem files;
  const auto text =
      read_small_file(files, fmt::format("/proc/{}/environ", pid), kEnvironmentBytesMax);
  if (!text) return std::nullopt;
  Environment environment;
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = std::min(text->find('\0', at), text->size());
    const std::string_view variable = std::string_view(*text).substr(at, end - at);
    const std::size_t sign = variable.find('=');
    if (sign != variable.npos)
      environment.emplace(variable.substr(0, sign), variable.substr(sign + 1));
    at = end + 1;
  }
  const auto is = [&](const char* name, const std::string& wanted) {
    const auto found = environment.find(name);
    return found != environment.end() && found->second == wanted;
  };
  if (!is("TRAINRUN_RUN_ID", run_id)) return std::nullopt;
  if (!is("RANK", fmt::to_string(rank)) && !environment.contains("TRAINRUN_STANDBY"))
    return std::nullopt;
  return environment;
}

Environment shown_worker_environment(const Environment& environment,
                                     const std::optional<JobSpec>& spec) {
  learn_secrets(environment);
  const auto is_reference = [&](const std::string& name) {
    if (!spec) return false;
    const auto given = spec->env.find(name);
    return given != spec->env.end() && spec::secret_reference(given->second).has_value();
  };
  for (const auto& [name, value] : environment)
    if (is_reference(name)) learn_secret(name, value);
  Environment shown;
  for (const auto& [name, value] : environment) {
    if (shown.size() == kVariablesMax) break;
    const bool hidden = names_a_secret(name) || is_reference(name);
    shown.emplace(redacted(utf8_text(name, kValueBytesMax)),
                  hidden ? redacted_mark(name) : utf8_text(redacted(value), kValueBytesMax));
  }
  return shown;
}

}  // namespace train
