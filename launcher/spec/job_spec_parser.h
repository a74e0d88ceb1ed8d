// Turns a job.yaml into a JobSpec: the entry point of this folder. `train-run` (run, validate,
// --dry-run, --print-config, schema) and `resume` call it. It finds every mistake in one pass. The
// returned spec is complete: defaults are filled in and paths are absolute.
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/core/search/search_spec.h"

namespace train {

/// "scaling_config.num_workers=4", and the option that says so.
struct SpecOverride {
  SpecOverride(std::string assignment, std::string said_by = "--set")
      : text(std::move(assignment)), option(std::move(said_by)) {}
  SpecOverride(const char* assignment) : text(assignment) {}

  std::string text;
  std::string option = "--set";
};

struct SpecSource {
  std::string path = {};                     // of the YAML file, as messages show it; empty: none
  std::vector<SpecOverride> overrides = {};  // lie over the file; the last one wins
  /// The words after "--": they follow the spec's command. Without a file, they are the command.
  std::optional<std::vector<std::string>> arguments = {};
  std::map<std::string, std::string> environment = {};  // for ${NAME} and TRAINRUN_CLUSTER
  std::string program = {};      // what a run without a file is called after; empty: its command
  std::string timestamp = {};    // the end of a default name: "20261121-101500"
  std::string home = {};         // for ~
  std::string current_dir = {};  // absolute, for a relative `path`; empty: the process's own
};

struct ParsedSpec {
  JobSpec spec;
  std::optional<SearchSpec> sweep = {};  // for `train-run sweep` alone; a run has none
  std::string text;                      // as it was read; without a file, the resolved spec
  std::string resolved_yaml;             // everything spelled out; parses back to the same JobSpec
  /// The same for people: with each value's origin as a comment, and with secrets redacted.
  std::string annotated_yaml;
  std::vector<std::string> warnings;  // ready to print
};

/// Read and check the file. Return the spec, or all mistakes as one text that is ready to print.
/// From now on, redacted() (lib/base/secrets.h) hides the secrets that the spec spells out; so do
/// the texts that are returned for people.
std::variant<ParsedSpec, std::string> parse_job_spec(const SpecSource& source);
/// Do the same for a text, which `source.path` names; that file need not exist. The only file that
/// this reads is the one that `extends` names.
std::variant<ParsedSpec, std::string> parse_job_spec_text(const std::string& text,
                                                          const SpecSource& source);

/// Put a number in the place of `num_workers: auto`, everywhere.
void set_workers(ParsedSpec& parsed, int count);

/// Return the JSON Schema draft-07 of the run spec (`train-run schema`).
std::string job_spec_schema_json();
/// Return docs/spec.md, the table of all keys.
std::string job_spec_reference_markdown();

/// Return what a worker's get_dataset_shard needs: name → {format, path (a list), columns,
/// schema, delimiter, newlines_in_values, labels, items, split, shuffle, shuffle_seed,
/// shuffle_mode, shuffle_window, lanes, preserve_order, on_change, filter, limit}, and for some of
/// them more: ingest_workers, the greatest number, if there are any.
boost::json::object datasets_json(const JobSpec& spec);

}  // namespace train
