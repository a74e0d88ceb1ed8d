// Makes docs/spec.md from the table of fields; tests/unit/launcher_spec checks the file against it.
#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <string>
#include <vector>

#include "launcher/spec/fields.h"
#include "launcher/spec/job_spec_parser.h"
#include "launcher/spec/spec_values.h"
#include "lib/yaml/scalar.h"

namespace train {
namespace {

using spec::Field;
using spec::Kind;

constexpr std::string_view kIntroduction = R"(# The run spec

The table in `launcher/spec/fields.cc` defines this file (a test compares them), the parser and the JSON Schema. For
completion and checks in an editor:

    train-run schema > train-run.schema.json
    # first line of job.yaml:  # yaml-language-server: $schema=train-run.schema.json

`train-run validate job.yaml` reports every mistake in one pass, each with its place and what to do;
`train-run job.yaml --print-config` prints the complete spec and the origin of each value.

    command: [./train]                 # the smallest spec

## How train-run reads it

- A spec is one YAML 1.2 document in UTF-8: at most 1 MiB, 50,000 values and 32 levels of nesting. train-run counts
  after it expands aliases, merges and variables. The keys on the path to a value have at most 1,024 bytes. Anchors,
  aliases and `<<` work; tags do not. A mapping may contain a key only once. Unknown keys are errors, except top-level
  keys that begin with `x-`, which are for your own use, such as anchors.
- Each key determines the type of its value: a name may be `012`, an environment value `no` or `true`. Inside
  `train_loop_config`, `metadata` and `items`, YAML 1.2's core schema decides: `no` is a string, `012` is 12, `1e-3` a
  float.
- A key without a value keeps its default.
- A duration is a number and `ms`, `s`, `m`, `h` or `d` (`30s`, `1.5h`). A size is a number of bytes, or a number and
  `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024) or `KB`, `MB`, `GB`, `TB` (powers of 1000).
- train-run replaces `${NAME}` and `${NAME:-default}` (the default also applies if NAME is empty) with variables of the
  submitter's environment, in these places only:)";

constexpr std::string_view kIntroductionEnd = R"(.
  train-run leaves a `command` that is one string to its shell. Write `$${` for a literal `${`. A variable that is not
  set and has no default is an error at its place.
- Relative paths start at the folder of the file that contains them (in `--set`: the spec's folder); `~/` is the home
  folder.
- `--set key.path=value` (any number of times; the value is YAML) overrides the file, and the file overrides what it
  `extends`: mappings merge key by key; for other values, the last one wins.
- Options for single keys (`train-run run --help`: `-n`, `--gpus`, `--name`, …) do the same. train-run appends words
  after `--` to `command` unchanged: without `${NAME}`.

## Keys

| key | takes | default | |
|---|---|---|---|
)";

std::string kind_words(const Field& field) {
  switch (field.kind) {
    case Kind::Section:
      return "mapping";
    case Kind::Entries:
      return "name → mapping";
    case Kind::Version:
      return "1";
    case Kind::Extends:
    case Kind::Path:
      return "path";
    case Kind::Paths:
      return "path or URL, or list of these";
    case Kind::Storage:
      return "path or URL";
    case Kind::Name:
      return "name";
    case Kind::Text:
      return "string";
    case Kind::Command:
      return "list of strings, or string";
    case Kind::Commands:
      return "list of commands";
    case Kind::Environment:
      return "name → string";
    case Kind::Free:
      return "any mapping";
    case Kind::Items:
      return "list of mappings";
    case Kind::Choice:
      return fmt::format("{}", fmt::join(field.choices, ", "));
    case Kind::ChoiceList:
      return fmt::format("list of: {}", fmt::join(field.choices, ", "));
    case Kind::TextList:
      return "list of strings";
    case Kind::Nodes:
      return "list of host:port, ssh:host";
    case Kind::Integer:
      if (field.max >= std::numeric_limits<int>::max())
        return fmt::format("whole number, {} or more", field.min);
      return fmt::format("whole number, {} to {}", field.min, field.max);
    case Kind::Boolean:
      return "true, false";
    case Kind::Duration:
      return fmt::format("duration, {} to {}", yaml::format_duration_yaml(milliseconds(field.min)),
                         yaml::format_duration_yaml(milliseconds(field.max)));
    case Kind::Count:
      return fmt::format("whole number, {} to {}, {}{{min, max}}", field.min, field.max,
                         field.choices.empty() ? "or " : "auto, or ");
    case Kind::Resources:
      return field.path.starts_with("dataset_config.") ? "CPU, memory → amount"
                                                       : "CPU, GPU, memory, others → amount";
    case Kind::Stop:
      return "metric → number";
    case Kind::Callbacks:
      return fmt::format("list of: {}, {{command}}", fmt::join(field.choices, ", "));
    case Kind::Notify:
      return "list of {on, command} or {on, webhook}";
    case Kind::Types:
      return "column → type";
    case Kind::Durations:
      return fmt::format("name → duration, {} to {}",
                         yaml::format_duration_yaml(milliseconds(field.min)),
                         yaml::format_duration_yaml(milliseconds(field.max)));
    case Kind::Ship:
      return "true, false, list of patterns, {files, max}";
    case Kind::Shuffle:
      return "true, false, {seed, mode, window}";
    case Kind::Filter:
      return "condition";
    case Kind::Sides:
      return "[height, width]";
    case Kind::Maps:
      return "list of maps, or {from, without}";
    case Kind::Mix:
      return "dataset → number";
    case Kind::Preprocessors:
      return "list of preprocessors, or {from}";
    case Kind::OnError:
      return "fail, {rows, rows_max}";
    case Kind::Labels:
      return "label → condition, or list of these";
    case Kind::Gpus:
      return "list of indexes, UUIDs";
    case Kind::Umask:
      return "three octal digits";
    case Kind::Limits:
      return "limit → whole number, or unlimited";
    case Kind::Roles:
      return "list of mappings ([roles.md](roles.md))";
    case Kind::Sweep:
      return "mapping ([sweep.md](sweep.md))";
  }
  return "";
}

std::string default_words(const Field& field) {
  if (!field.default_words.empty()) return std::string(field.default_words);
  JobSpec job;
  DatasetSpec dataset;
  const boost::json::value value = spec::spec_value(field, {&job, &dataset}, spec::Escape::None);
  if (value.is_null()) return "";
  if (value.is_string()) return fmt::format("`{}`", std::string_view(value.as_string()));
  if ((value.is_object() && value.as_object().empty()) ||
      (value.is_array() && value.as_array().empty()))
    return "none";
  return fmt::format("`{}`", boost::json::serialize(value));
}

/// Return ", "-separated words on lines of their own, indented as the text of a list.
std::string wrapped(const std::vector<std::string>& words) {
  constexpr std::size_t kColumnsMax = 120;
  std::string text, line;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i] + (i + 1 < words.size() ? "," : "");
    if (line.empty() || line.size() + 1 + word.size() > kColumnsMax - 1) {  // "." may follow
      text += line + "\n";
      line = " ";
    }
    line += " " + word;
  }
  return text + line;
}

}  // namespace

std::string job_spec_reference_markdown() {
  std::string text(kIntroduction);
  std::vector<std::string> locations;
  for (const Field& field : spec::fields()) {
    if (spec::is_interpolated(field.kind)) locations.push_back(fmt::format("`{}`", field.path));
  }
  text += wrapped(locations);
  text += kIntroductionEnd;
  for (const Field& field : spec::fields()) {
    text += fmt::format("| `{}` | {} | {} | {} |\n", field.path, kind_words(field),
                        default_words(field), field.what);
  }
  return text;
}

}  // namespace train
