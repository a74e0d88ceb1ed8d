#include "daemon/supervisor/backends/pmi_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace train {

std::optional<std::string> pmi_process_mapping(const std::vector<std::int32_t>& node_sizes) {
  std::string mapping = "(vector";
  for (std::size_t first = 0; first < node_sizes.size();) {
    std::size_t end = first;
    while (end < node_sizes.size() && node_sizes[end] == node_sizes[first]) ++end;
    mapping += fmt::format(",({},{},{})", first, end - first, node_sizes[first]);
    if (mapping.size() >= kPmiValueBytesMax) return std::nullopt;
    first = end;
  }
  return mapping + ")";
}

PmiSpace::PmiSpace(std::string name, int world_size, const std::vector<std::int32_t>& node_sizes)
    : name_(std::move(name)), world_size_(world_size) {
  if (const auto mapping = pmi_process_mapping(node_sizes))
    values_["PMI_process_mapping"] = *mapping;
}

// A run's id ends in 32 random digits.
std::string pmi_space_name(const std::string& run_id, std::uint32_t attempt) {
  const std::size_t kept = std::min<std::size_t>(run_id.size(), 32);
  return fmt::format("trainrun-{}-{}", run_id.substr(run_id.size() - kept), attempt);
}

std::optional<std::string> PmiSpace::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

// A part is "key value\n" for each put.
Result<Unit> PmiSpace::merge(std::uint64_t barrier, const std::vector<std::string>& parts) {
  if (barrier <= merged_) return Unit{};
  merged_ = barrier;
  for (const std::string& part : parts) {
    std::string_view rest = part;
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      const std::size_t space = line.find(' ');
      if (space == std::string_view::npos) continue;
      std::string& value = values_[std::string(line.substr(0, space))];
      bytes_ += line.size();
      value = line.substr(space + 1);
    }
  }
  if (bytes_ <= kPmiSpaceBytesMax) return Unit{};
  return Error{Errc::ResourceExhausted,
               fmt::format("the processes have put more than {} bytes", kPmiSpaceBytesMax)};
}

}  // namespace train
