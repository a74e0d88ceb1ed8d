// One field of the run spec as data: its place in the YAML, what it takes, and its place in
// JobSpec. The parser, the JSON Schema, the resolved YAML and docs/spec.md are all derived from the
// table of fields (fields.h).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <variant>

#include "launcher/core/job_spec.h"

namespace train::spec {

/// What a field takes. The reader, the writer and the schema each have one case for every kind.
enum class Kind {
  Section,      // a mapping of known keys, which have rows below its path
  Entries,      // a mapping of names that the user chooses; rows below "<path>.*"
  Version,      // 1
  Extends,      // another file, read before the table is used
  Name,         // becomes the name of a folder
  Text,         // of at most `max` bytes
  Path,         // made absolute
  Paths,        // a path, or a list of paths
  Storage,      // a path, or a URL such as s3://bucket/folder
  Command,      // a list, or a string for the shell
  Commands,     // a list of at most `max` commands
  Environment,  // names → texts or references to secrets
  Free,         // any mapping; goes to the workers as JSON
  Items,        // a list of mappings with the same keys
  Choice,       // one of `choices`
  ChoiceList,   // some of `choices`
  TextList,
  Nodes,    // host:port, …
  Integer,  // min … max
  Boolean,
  Duration,  // min … max, in milliseconds
  Count,     // 8, {min: 4, max: 8}, or auto if `choices` has it
  Resources,
  Stop,           // metric → number
  Mix,            // dataset → number above 0
  Callbacks,      // a list of `choices` and {command}
  Notify,         // a list of {on, command} or {on, webhook}
  Types,          // columns → their types
  Durations,      // names that the user chooses → min … max, in milliseconds
  Shuffle,        // true, false, or {seed: 1, mode: window, window: 32MiB}
  Filter,         // a condition on a row's columns (lib/model/row_filter.h)
  Sides,          // [height, width], each min … max
  Maps,           // a list of maps, or {from: dataset, without: [maps]}
  Preprocessors,  // a list of {name: arguments}, or {from: dataset}
  OnError,        // fail, or {rows: skip, rows_max: 100}
  Ship,           // true, false, a list of patterns, or {files: [patterns], max: 4GiB}
  Roles,          // a list of {name, command, num_workers, …}
  Labels,         // a selector: label → condition; or a list of them
  Gpus,           // a list of indexes and UUIDs
  Umask,          // octal digits
  Limits,         // a limit's name → whole number, or unlimited
  Sweep,          // what `train-run sweep` tries (docs/sweep.md)
};

/// An enum of job_spec.h; its values are in the order of `choices`.
struct EnumRef {
  void* where;
  int (*get)(const void*);
  void (*set)(void*, int);
};

template <class E>
EnumRef enum_ref(E& where) {
  return {&where, [](const void* p) { return static_cast<int>(*static_cast<const E*>(p)); },
          [](void* p, int value) { *static_cast<E*>(p) = static_cast<E>(value); }};
}

using FieldRef =
    std::variant<std::monostate, int*, std::optional<int>*, std::optional<std::int64_t>*, bool*,
                 std::string*, std::optional<std::string>*, Duration*, std::vector<std::string>*,
                 std::map<std::string, std::string>*, boost::json::object*, boost::json::array*,
                 WorkerCount*, Resources*, std::vector<StopCondition>*, std::vector<NotifyRule>*,
                 std::vector<std::vector<std::string>>*, RunConfig*, DatasetSpec*,
                 std::optional<ImageSides>*, train::Umask*, ResourceLimits*,
                 std::map<std::string, Duration>*, std::map<std::string, double>*,
                 std::vector<LabelSelector>*, ShipConfig*, ScalingConfig*, EnumRef>;

/// What a row's `at` points into: the job and, for rows below "datasets.*", the one dataset.
struct Target {
  JobSpec* spec = nullptr;
  DatasetSpec* dataset = nullptr;
};

inline FieldRef nowhere(const Target&) { return {}; }

struct Field {
  std::string_view path;  // "run_config.name"; "*" stands for a name that the user chose
  Kind kind = Kind::Section;
  FieldRef (*at)(const Target&) = nowhere;
  std::string_view what;  // for the schema and docs/spec.md
  std::span<const std::string_view> choices = {};
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<int>::max();
  /// A computed default, in words. Empty: the default is read from JobSpec{}.
  std::string_view default_words = {};
  std::string_view example = {};  // JSON
};

/// Return whether `${NAME:-default}` is replaced in fields of this kind.
constexpr bool is_interpolated(Kind kind) {
  return kind == Kind::Name || kind == Kind::Path || kind == Kind::Paths || kind == Kind::Storage ||
         kind == Kind::Command || kind == Kind::Commands || kind == Kind::Environment ||
         kind == Kind::Nodes || kind == Kind::Callbacks || kind == Kind::Notify ||
         kind == Kind::Roles;
}

}  // namespace train::spec
