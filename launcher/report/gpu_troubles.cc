#include "launcher/report/gpu_troubles.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace train {
namespace {

struct Xid {
  std::int64_t number;
  std::string_view meaning;
};
/// NVIDIA, "Xid Errors", those that end a training.
constexpr std::array kXids{
    Xid{13, "an error of a kernel"},
    Xid{31, "a kernel accessed memory that is not its own"},
    Xid{43, "a kernel was stopped after an error"},
    Xid{45, "the work on the GPU was cleaned up after an error"},
    Xid{48, "a memory error that could not be corrected"},
    Xid{62, "its microcontroller has halted"},
    Xid{63, "a page of its memory is retired"},
    Xid{64, "a page of its memory could not be retired"},
    Xid{74, "an error of NVLink"},
    Xid{79, "it has fallen off the bus"},
    Xid{92, "many memory errors were corrected"},
    Xid{94, "a memory error that could not be corrected ended a program"},
    Xid{95, "a memory error that could not be corrected: the GPU needs a reset"},
    Xid{119, "its system processor does not answer"},
    Xid{120, "an error of its system processor"},
};

std::string xid_text(std::int64_t number) {
  const auto* known = std::find_if(kXids.begin(), kXids.end(),
                                   [number](const Xid& xid) { return xid.number == number; });
  return known == kXids.end() ? fmt::format("Xid {}", number)
                              : fmt::format("Xid {}: {}", number, known->meaning);
}

}  // namespace

std::vector<std::string> GpuTroubles::sampled(const std::string& node, const std::string& ranks,
                                              const GpuSample& gpu) {
  const bool one = ranks.find_first_of(",-") == ranks.npos;
  const std::string who =
      fmt::format("GPU {} of {} ({} {})", gpu.gpu, node, one ? "rank" : "ranks", ranks);
  std::vector<std::string> troubles;
  const auto [before, first] = xids_.try_emplace(node + "/" + gpu.gpu, gpu.xids);
  if (!first && gpu.xids > before->second)
    troubles.push_back(who + " reported " + xid_text(gpu.last_xid));
  before->second = gpu.xids;
  if (gpu.state == "lost") troubles.push_back(who + " is lost: its driver cannot reach it");
  if (gpu.state == "not answering") troubles.push_back(who + " does not answer its driver");
  if (!gpu.foreign.empty())
    troubles.push_back(fmt::format("{} is also used by {}, of no run", who, gpu.foreign));
  std::erase_if(troubles, [this](const std::string& trouble) {
    return said_.size() >= kGpuTroublesMax || !said_.insert(trouble).second;
  });
  return troubles;
}

}  // namespace train
