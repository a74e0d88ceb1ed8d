#include "launcher/spec/secrets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <functional>

#include "launcher/core/slurm_allocation.h"
#include "launcher/spec/spec_file.h"
#include "lib/base/secrets.h"
#include "lib/yaml/reader.h"
#include "lib/yaml/scalar.h"

namespace train::spec {
namespace {

constexpr std::string_view kWebhookSecret = "webhook";

}  // namespace

bool names_a_secret_value(std::string_view key) {
  return names_a_secret(key) || key == kWebhookSecret;
}

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

namespace {

/// Return the value that a key of the spec refers to. `name`: of the secret, for its redaction.
Result<std::string> resolve(const SecretReference& reference, std::string_view key,
                            std::string_view name,
                            const std::map<std::string, std::string>& submitter) {
  if (reference.from == SecretReference::From::Environment) {
    const auto variable = submitter.find(reference.target);
    if (variable == submitter.end()) {
      return Error{
          Errc::InvalidSpec,
          fmt::format("{} refers to the variable {}, which is not set", key, reference.target),
          "set it where train-run is started"};
    }
    learn_secret(name, variable->second);
    return variable->second;
  }
  auto text = read_spec_file(reference.target);
  if (text.has_error())
    return std::move(text).error().with_context(fmt::format("reading the secret of {}", key));
  if (text->ends_with('\n')) text->pop_back();
  if (text->find('\0') != std::string::npos) {
    return Error{Errc::InvalidSpec,
                 fmt::format("the secret of {} in {} holds a NUL character", key, reference.target),
                 "store it as text"};
  }
  learn_secret(name, *text);
  return text;
}

}  // namespace

Result<std::map<std::string, std::string>> resolve_environment(
    const JobSpec& spec, const std::map<std::string, std::string>& submitter) {
  std::map<std::string, std::string> resolved;
  for (const auto& [name, value] : spec.env) {
    resolved[name] = value;
    const auto reference = secret_reference(value);
    if (!reference) continue;
    TRY(resolved[name], resolve(*reference, "env." + name, name, submitter));
  }
  return resolved;
}

bool is_web_url(std::string_view text) {
  for (const std::string_view scheme : {"http://", "https://"})
    if (text.starts_with(scheme) && text.size() > scheme.size() && text[scheme.size()] != '/')
      return true;
  return false;
}

Result<std::string> resolve_webhook(const NotifyRule& rule,
                                    const std::map<std::string, std::string>& submitter) {
  constexpr std::string_view kKey = "run_config.notify.webhook";
  const auto reference = secret_reference(rule.webhook);
  if (!reference) return rule.webhook;
  TRY(std::string url, resolve(*reference, kKey, kWebhookSecret, submitter));
  if (is_web_url(url)) return url;
  return Error{
      Errc::InvalidSpec,
      fmt::format("the secret of {}, {}, is not an http:// or https:// URL", kKey, rule.webhook),
      "store the complete URL there"};
}

namespace {

/// Call `use` with each text in the free JSON of a spec and the name of the nearest secret-sounding
/// key above it. The name is empty if there is no such key.
void each_text(boost::json::value& value, std::string_view name,
               const std::function<void(boost::json::string&, std::string_view)>& use) {
  if (auto* text = value.if_string()) return use(*text, name);
  if (auto* list = value.if_array()) {
    for (boost::json::value& item : *list) each_text(item, name, use);
  } else if (auto* object = value.if_object()) {
    for (auto& [key, item] : *object)
      each_text(item, name.empty() && names_a_secret(key) ? std::string_view(key) : name, use);
  }
}

bool is_variable(std::string_view text) {
  return text.starts_with("${") && text.ends_with('}') &&
         is_environment_name(text.substr(2, text.size() - 3));
}

bool is_literal_text(const yaml::Node& node) {
  if (!node.is(yaml::Node::Kind::Scalar)) return false;
  if (secret_reference(node.text) || is_variable(node.text)) return false;
  return node.quoted || !(yaml::is_core_null(node.text) || yaml::core_bool(node.text) ||
                          yaml::core_number(node.text));
}

/// Learn the texts below a node. `name`: the nearest secret-sounding key above it, or "".
void learn_texts(const yaml::Node& node, std::string_view name) {
  if (!name.empty() && is_literal_text(node)) learn_secret(name, node.text);
  for (const yaml::Node* item : node.items) learn_texts(*item, name);
  for (const auto& [key, value] : node.entries)
    learn_texts(*value, name.empty() && names_a_secret_value(key->text) ? key->text : name);
}

/// Return whether an outer mpirun, horovodrun or cluster tells its process by this variable which
/// peers it has, or how it meets them. Our workers have other peers.
bool is_of_outer_launcher(std::string_view variable) {
  constexpr std::array<std::string_view, 13> kPrefixes{"PMI_",
                                                       "PMI2_",
                                                       "PMIX_",
                                                       "OMPI_",
                                                       "PRTE_",
                                                       "HYDI_",
                                                       "HYDRA_",
                                                       "MPI_LOCALRANKID",
                                                       "MPI_LOCALNRANKS",
                                                       "HOROVOD_",
                                                       "JAX_COORDINATOR",
                                                       "JAX_PROCESS_ID",
                                                       "JOB_COMPLETION_INDEX"};
  return variable == "TF_CONFIG" ||
         std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return variable.starts_with(prefix); });
}

/// Return the parts of a spec that hold whatever the user puts there.
std::array<boost::json::value, 2> free_parts(const JobSpec& spec) {
  return {boost::json::value(spec.train_loop_config), boost::json::value(spec.metadata)};
}

}  // namespace

std::map<std::string, std::string> without_our_own(std::map<std::string, std::string> environment) {
  // The cluster's token and our own settings are for the launcher only. The ranks of an outer
  // torchrun or train-run are not ours.
  std::erase_if(environment, [](const auto& variable) {
    return variable.first.starts_with("TRAINRUN_") || variable.first.starts_with("TORCHELASTIC_");
  });
  return environment;
}

Result<std::map<std::string, std::string>> worker_environment(
    const JobSpec& spec, const std::map<std::string, std::string>& submitter) {
  TRY(auto job_env, resolve_environment(spec, submitter));
  std::map<std::string, std::string> env = without_our_own(submitter);
  // Libraries would take each of our workers for the task of Slurm that the batch script is.
  std::erase_if(env, [](const auto& variable) {
    return is_of_slurm_task(variable.first) || is_of_outer_launcher(variable.first);
  });
  for (auto& [name, value] : job_env) env[name] = std::move(value);
  train::learn_secrets(env);
  return env;
}

void learn_secrets(const JobSpec& spec) {
  std::map<std::string, std::string> literals = spec.env;
  for (const RoleSpec& role : spec.scaling_config.other_roles) train::learn_secrets(role.env);
  std::erase_if(literals,
                [](const auto& entry) { return secret_reference(entry.second).has_value(); });
  train::learn_secrets(literals);
  // Whoever knows a service's webhook may post there.
  for (const NotifyRule& rule : spec.run_config.notify)
    if (!secret_reference(rule.webhook)) learn_secret(kWebhookSecret, rule.webhook);
  for (boost::json::value& part : free_parts(spec)) {
    each_text(part, "", [](boost::json::string& text, std::string_view name) {
      if (!name.empty()) learn_secret(name, text);
      train::learn_secrets({{"URL", std::string(text)}});
    });
  }
}

void learn_secrets(const yaml::Node& root) { learn_texts(root, ""); }

JobSpec shown_spec(const JobSpec& spec) {
  JobSpec shown = spec;
  shown.env = shown_environment(spec.env);
  auto parts = free_parts(spec);
  for (boost::json::value& part : parts) {
    each_text(part, "", [](boost::json::string& text, std::string_view name) {
      text = name.empty() ? redacted(text) : redacted_mark(name);
    });
  }
  shown.train_loop_config = parts[0].as_object();
  shown.metadata = parts[1].as_object();
  for (std::string& word : shown.command) word = redacted(word);
  for (RoleSpec& role : shown.scaling_config.other_roles) {
    for (std::string& word : role.command) word = redacted(word);
    role.env = shown_environment(role.env);
  }
  for (NotifyRule& rule : shown.run_config.notify) {
    for (std::string& word : rule.command) word = redacted(word);
    if (!rule.webhook.empty() && !secret_reference(rule.webhook))
      rule.webhook = redacted_mark(kWebhookSecret);
  }
  return shown;
}

std::map<std::string, std::string> shown_environment(
    const std::map<std::string, std::string>& env) {
  std::map<std::string, std::string> shown = env;
  for (auto& [name, value] : shown) {
    if (secret_reference(value)) continue;
    value = may_name_a_secret(name) ? redacted_mark(name) : redacted(value);
  }
  return shown;
}

}  // namespace train::spec
