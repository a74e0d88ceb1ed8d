#include "launcher/bundle/run_secrets.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <optional>

#include "launcher/spec/job_spec_parser.h"
#include "launcher/spec/resolved_yaml.h"
#include "launcher/spec/secrets.h"
#include "launcher/spec/shown_text.h"
#include "lib/base/host.h"
#include "lib/base/secrets.h"
#include "lib/storage/posix_file_system.h"
#include "lib/storage/run_lock.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using Environment = std::map<std::string, std::string>;
constexpr std::uint64_t kSmallFileMax = 1u << 20;
constexpr std::uint64_t kEnvironmentBytesMax = 4u << 20;  // a process may claim more

Environment environment_of(const std::string& pid) {
  PosixFileSystem files;
  Environment environment;
  const auto text = read_small_file(files, "/proc/" + pid + "/environ", kEnvironmentBytesMax);
  if (!text) return environment;
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = std::min(text->find('\0', at), text->size());
    const std::string_view variable = std::string_view(*text).substr(at, end - at);
    const std::size_t sign = variable.find('=');
    if (sign != variable.npos)
      environment.emplace(variable.substr(0, sign), variable.substr(sign + 1));
    at = end + 1;
  }
  return environment;
}

/// Return the environments of the run's processes here, by pid: its launcher, and its workers.
std::map<int, Environment> live_environments(const RunFolder& folder, const std::string& name) {
  std::map<int, Environment> found;
  PosixFileSystem files;
  const auto held = is_held(folder.lock());
  if (!held || !*held) return found;
  const auto holder = read_lock_holder(files, folder.lock());
  if (!holder || holder->host != host_name()) return found;
  if (Environment own = environment_of(std::to_string(holder->pid)); !own.empty())
    found.emplace(holder->pid, std::move(own));
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string pid = entry->path().filename().string();
    int number = 0;
    if (std::from_chars(pid.data(), pid.data() + pid.size(), number).ec != std::errc()) continue;
    Environment environment = environment_of(pid);
    const auto run = environment.find("TRAINRUN_RUN_NAME");
    if (run != environment.end() && run->second == name)
      found.emplace(number, std::move(environment));
  }
  return found;
}

/// Return a small file's text without the line end at its end, or "".
std::string first_text(const std::string& path) {
  PosixFileSystem files;
  auto text = read_small_file(files, path, kSmallFileMax);
  if (!text) return {};
  while (text->ends_with('\n')) text->pop_back();
  return std::move(*text);
}

/// Learn what `env` of the spec refers to; note what is not known here.
void learn_references(const JobSpec& spec, const Environment& environment, RunSecrets& found) {
  for (const auto& [name, value] : spec.env) {
    const auto reference = spec::secret_reference(value);
    if (!reference) continue;
    const bool in_file = reference->from == spec::SecretReference::From::File;
    const auto variable = environment.find(reference->target);
    const std::string secret = in_file                         ? first_text(reference->target)
                               : variable == environment.end() ? ""
                                                               : variable->second;
    learn_secret(name, secret);
    if (secret.empty())
      found.notes.push_back(fmt::format("env.{}: {} is not known here", name, value));
  }
  if (!spec.cluster.token_file.empty())
    learn_secret("cluster_token", first_text(spec.cluster.token_file));
}

}  // namespace

RunSecrets learn_run_secrets(const RunFolder& folder) {
  RunSecrets found;
  PosixFileSystem files;
  learn_secret("owner_key", first_text(folder.owner_key()));
  if (const auto given = read_small_file(files, folder.spec(), kSmallFileMax))
    found.spec = spec::shown_text(*given).value_or("");
  const auto text = read_small_file(files, folder.resolved_spec(), kSmallFileMax);
  std::string name = fs::path(folder.path()).filename().string();
  std::optional<JobSpec> spec;
  if (text) {
    auto parsed =
        parse_job_spec_text(*text, {.path = folder.resolved_spec(), .home = home_folder()});
    if (auto* whole = std::get_if<ParsedSpec>(&parsed)) spec = std::move(whole->spec);
  }
  if (spec) {
    name = spec->run_config.name;
    found.resolved_spec = spec::resolved_yaml(spec::shown_spec(*spec));
  }
  Environment known;
  for (auto& [pid, environment] : live_environments(folder, name)) {
    learn_secrets(environment);
    if (environment.contains("TRAINRUN_RUN_NAME")) found.workers.push_back(pid);
    known.merge(environment);
  }
  if (known.empty())
    found.notes.emplace_back(
        "the environment of the run's train-run is not known here: a secret that only it had is "
        "recognized by its name alone");
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const std::size_t sign = variable.find('=');
    if (sign != variable.npos) known.emplace(variable.substr(0, sign), variable.substr(sign + 1));
  }
  if (spec) learn_references(*spec, known, found);
  return found;
}

}  // namespace train
