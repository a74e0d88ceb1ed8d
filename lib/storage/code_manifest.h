// The table of a run's code: the files that train-run has copied from the job's working_dir into
// the run's folder, for its nodes. It lies beside them as kCodeManifestName, and names their
// folder: that is called after its digest. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/model/checkpoint_file.h"

namespace train {

inline constexpr std::string_view kCodeManifestName = ".trainrun-code.json";
inline constexpr std::uint64_t kCodeManifestBytesMax = 64u << 20;
inline constexpr std::size_t kCodeFilesMax = 100'000;

struct CodeFile : CheckpointFile {
  bool executable = false;
  bool operator==(const CodeFile&) const = default;
};

/// Refuse a path that would leave its folder, disturb a terminal, or be the table itself.
Result<Unit> check_code_path(std::string_view path);

/// Return the table's text. Sorts the files; their paths must satisfy check_code_path().
std::string format_code(std::vector<CodeFile> files);
/// Parse such a text; the error says what is wrong with it.
Result<std::vector<CodeFile>> parse_code(std::string_view text);

/// Return the name of the folder with this table.
std::string code_name(std::string_view text);
/// Return whether this is the name of such a folder.
bool is_code_name(std::string_view name);

}  // namespace train
