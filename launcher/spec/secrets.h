// Handles secrets in `env`. They are references, `env:NAME` or `file:PATH`: everything that is
// written keeps them as they are, they are resolved when workers are started (again on resume), and
// they are never printed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/core/job_spec.h"
#include "lib/base/result.h"

namespace train::spec {

struct SecretReference {
  enum class From { Environment, File };
  From from = From::Environment;
  std::string target;  // the variable's name, or the file's path
  bool operator==(const SecretReference&) const = default;
};

/// Read a value of `env` as a reference; empty when it is plain text. "file://…" is a URL, not a
/// reference.
std::optional<SecretReference> secret_reference(std::string_view value);

/// Return whether the name matches [A-Za-z_][A-Za-z0-9_]*.
bool is_environment_name(std::string_view name);

/// Return the job's `env` with references replaced by what they name. It is for the workers only,
/// and must never be written or shown. Fails with InvalidSpec or NotFound, naming the key, when a
/// reference cannot be resolved. Reads files.
Result<std::map<std::string, std::string>> resolve_environment(
    const JobSpec& spec, const std::map<std::string, std::string>& submitter);

/// Return the submitter's environment with the job's `env` over it and secrets resolved, but
/// without what only the launcher may know. Redacts from now on what may be a secret of it.
Result<std::map<std::string, std::string>> worker_environment(
    const JobSpec& spec, const std::map<std::string, std::string>& submitter);

/// Make redacted() (lib/base/secrets.h) hide from now on the literals of secret-sounding names in
/// `env`, `train_loop_config` and `metadata`.
void learn_secrets(const JobSpec& spec);

/// Return the job's `env` as it may be shown: references stay references, literals of
/// secret-sounding names become "<redacted:NAME>".
std::map<std::string, std::string> shown_environment(const std::map<std::string, std::string>& env);
/// Return the whole job as it may be shown.
JobSpec shown_spec(const JobSpec& spec);

}  // namespace train::spec
