// Which files of a run's folder the dashboard hands out: stacks, profiles and logs, by their paths
// below the folder. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace train {

struct RunFileId {
  std::string path, kind;  // kind: stacks, profile or log
  std::optional<std::int64_t> attempt, rank = {};
  std::string why = {};  // "hung", "cpu", "out", "launcher"; "" if the name does not say
};

/// Return what the file is; nothing if it is none of these.
std::optional<RunFileId> parse_run_file_id(std::string_view path);

}  // namespace train
