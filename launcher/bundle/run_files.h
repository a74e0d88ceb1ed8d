// Lists and reads the files of a run's folder for somebody who does not trust what is in it: a
// worker may have put links, pipes, devices and files of any size there. Nothing is followed,
// waited for, or read outside the folder. Calls block.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/bundle/bundle_plan.h"

namespace train {

inline constexpr std::size_t kRunFilesMax = 100'000;

struct RunFiles {
  std::vector<BundleCandidate> files;  // regular ones, at most kRunFilesMax
  std::vector<std::string> notes;      // what cannot be read, or is no file, and why
};

/// List the files in the folder and in those below that `enter` accepts (its argument is relative
/// to `folder`).
RunFiles list_run_files(const std::string& folder,
                        const std::function<bool(std::string_view)>& enter);

struct ReadPart {
  std::string text;     // as far as it could be read
  std::string problem;  // why there is not more; "" at the end of the file, or of the part
};

/// Read up to `bytes` of a file below `folder`, from `offset` on. The caller bounds `bytes`.
ReadPart read_run_file(const std::string& folder, const std::string& path, std::uint64_t offset,
                       std::uint64_t bytes);

/// Return the text without the line that the end of the part has cut, or that its beginning has
/// cut: redaction finds only whole secrets. Of a line that is longer than the largest secret,
/// as many bytes as a secret may have are cut off.
std::string_view without_cut_end(std::string_view text);
std::string_view without_cut_begin(std::string_view text);

}  // namespace train
