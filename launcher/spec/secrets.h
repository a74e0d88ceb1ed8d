// Handles secrets in `env`. They are references, `env:NAME` or `file:PATH`: whatever is written to
// disk keeps the reference, only the start of workers resolves it (again on resume), and nothing
// prints the secret.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/core/job_spec.h"
#include "lib/base/result.h"

namespace train::yaml {
struct Node;
}

namespace train::spec {

struct SecretReference {
  enum class From { Environment, File };
  From from = From::Environment;
  std::string target;  // the variable's name, or the file's path
  bool operator==(const SecretReference&) const = default;
};

/// Read a value of `env` as a reference; return none if it is plain text. "file://…" is a URL, not
/// a reference.
std::optional<SecretReference> secret_reference(std::string_view value);

/// Return whether the values of this key of a spec are secret, unless they are references.
bool names_a_secret_value(std::string_view key);

/// Return whether the text begins as a URL of HTTP or HTTPS with a host.
bool is_web_url(std::string_view text);

/// Return whether the name matches [A-Za-z_][A-Za-z0-9_]*.
bool is_environment_name(std::string_view name);

/// Return the job's `env` with each reference replaced by its value. The result is for the workers
/// only, and must never be written or shown. Fails with InvalidSpec or NotFound, naming the key, if
/// a reference cannot be resolved. Reads files.
Result<std::map<std::string, std::string>> resolve_environment(
    const JobSpec& spec, const std::map<std::string, std::string>& submitter);

/// Return the URL of a rule with a webhook; if it is a reference, that of the secret. The result
/// must never be shown: from now on, redact it. Fails with InvalidSpec or NotFound if the reference
/// cannot be resolved, or is no URL. Reads files.
Result<std::string> resolve_webhook(const NotifyRule& rule,
                                    const std::map<std::string, std::string>& submitter);

/// Return the environment without the variables that are only for this launcher.
std::map<std::string, std::string> without_our_own(std::map<std::string, std::string> environment);

/// Return the submitter's environment with the job's `env` over it and secrets resolved, but
/// without what only the launcher may know. From now on, redact whatever in it may be a secret.
Result<std::map<std::string, std::string>> worker_environment(
    const JobSpec& spec, const std::map<std::string, std::string>& submitter);

/// From now on, make redacted() (lib/base/secrets.h) hide literals with secret-sounding names in
/// `env`, `train_loop_config` and `metadata`.
void learn_secrets(const JobSpec& spec);
/// Do the same for all texts in the YAML of a spec, which may be too wrong to make a JobSpec:
/// messages show its lines.
void learn_secrets(const yaml::Node& root);

/// Return the job's `env` as it may be shown: references stay references, and literals with
/// secret-sounding names become "<redacted:NAME>".
std::map<std::string, std::string> shown_environment(const std::map<std::string, std::string>& env);
/// Return the whole job as it may be shown.
JobSpec shown_spec(const JobSpec& spec);

}  // namespace train::spec
