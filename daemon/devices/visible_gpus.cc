#include "daemon/devices/visible_gpus.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include "lib/model/gpu_choice.h"

namespace train {
namespace {

/// Return the index of the GPU that this entry of CUDA_VISIBLE_DEVICES names.
std::optional<std::size_t> index_of(const std::string& entry,
                                    const std::vector<std::string>& uuids) {
  if (entry.starts_with("GPU-")) {
    const auto named = [&](const std::string& uuid) { return uuid.starts_with(entry); };
    const auto found = std::find_if(uuids.begin(), uuids.end(), named);
    if (found == uuids.end() || std::any_of(found + 1, uuids.end(), named)) return std::nullopt;
    return static_cast<std::size_t>(found - uuids.begin());
  }
  std::size_t index = 0;
  const auto [end, failed] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
  if (failed != std::errc{} || end != entry.data() + entry.size() || index >= uuids.size())
    return std::nullopt;
  return index;
}

}  // namespace

std::vector<std::string> visible_gpus(const char* listed, const std::vector<std::string>& uuids) {
  std::vector<std::string> gpus;
  if (listed == nullptr) {
    for (std::size_t index = 0; index < uuids.size(); ++index)
      gpus.push_back(std::to_string(index));
    return gpus;
  }
  std::istringstream entries(listed);
  for (std::string entry; std::getline(entries, entry, ',');) {
    std::erase(entry, ' ');
    if (entry.starts_with("MIG-") && gpus.empty() && !uuids.empty()) return {entry};
    const auto index = index_of(entry, uuids);
    if (!index) break;
    const std::string gpu = std::to_string(*index);
    if (std::find(gpus.begin(), gpus.end(), gpu) == gpus.end()) gpus.push_back(gpu);
  }
  return gpus;
}

Result<std::vector<std::string>> listed_gpus(const std::string& listed,
                                             const std::vector<std::string>& gpus,
                                             const std::vector<std::string>& uuids) {
  std::vector<std::string> chosen;
  std::istringstream entries(listed);
  for (std::string entry; std::getline(entries, entry, ',');) {
    std::erase(entry, ' ');
    const auto named = std::find_if(gpus.begin(), gpus.end(), [&](const std::string& gpu) {
      const auto index = index_of(gpu, uuids);
      return is_gpu_name(entry) && is_chosen({entry}, gpu, index ? uuids[*index] : "");
    });
    if (named == gpus.end())
      return Error{Errc::InvalidArgument,
                   fmt::format("--gpus names '{}', and this node has {}", entry,
                               gpus.empty() ? "no GPU that it may use"
                                            : fmt::format("the GPUs {}", fmt::join(gpus, ", "))),
                   "write indexes, or UUIDs as nvidia-smi -L shows them"};
    if (std::find(chosen.begin(), chosen.end(), *named) == chosen.end()) chosen.push_back(*named);
  }
  return chosen;
}

}  // namespace train
