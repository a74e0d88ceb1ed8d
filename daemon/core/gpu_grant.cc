#include "daemon/core/gpu_grant.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/model/gpu_choice.h"

namespace train {
namespace {

std::string users_of(const std::vector<std::string>& gpus, const GpusInUse& in_use) {
  std::vector<std::string> users;
  for (const std::string& gpu : gpus) {
    if (const auto found = in_use.find(gpu); found != in_use.end())
      users.push_back(fmt::format("GPU {} is in use by {}", gpu, found->second));
  }
  return fmt::format("{}", fmt::join(users, "; "));
}

}  // namespace

Result<GpuGrant> grant_gpus(std::vector<std::string> free,
                            const std::map<std::string, GpuTraits>& traits, const GpuOrder& order,
                            const GpusInUse& in_use) {
  std::erase_if(free, [&](const std::string& gpu) {
    const auto found = traits.find(gpu);
    return !is_chosen(order.choice, gpu, found == traits.end() ? "" : found->second.uuid);
  });
  const auto is_idle = [&](const std::string& gpu) { return !in_use.contains(gpu); };
  const auto used = std::stable_partition(free.begin(), free.end(), is_idle);
  const std::vector<std::string> used_by_others(used, free.end());
  if (order.refuse_in_use) free.erase(used, free.end());
  if (free.size() >= order.count) {
    GpuGrant grant;
    grant.gpus.assign(free.begin(), free.begin() + static_cast<std::ptrdiff_t>(order.count));
    if (std::string users = users_of(grant.gpus, in_use); !users.empty())
      grant.notes.push_back(std::move(users));
    return grant;
  }
  std::string why =
      fmt::format("{} {} wanted{}, {} free", order.count, order.count == 1 ? "GPU" : "GPUs",
                  order.choice.empty() ? "" : fmt::format(" of {}", fmt::join(order.choice, ", ")),
                  free.size());
  const bool would_do = free.size() + used_by_others.size() >= order.count;
  if (!order.refuse_in_use || used_by_others.empty() || !would_do)
    return Error{Errc::ResourceExhausted, std::move(why)};
  return Error{Errc::Unavailable, why + ": " + users_of(used_by_others, in_use),
               "end that program, name other GPUs by scaling_config.gpus, or write "
               "scaling_config.gpu_in_use: warn"};
}

}  // namespace train
