#include "daemon/core/room_queue.h"

#include <algorithm>
#include <utility>

#include "daemon/core/claims.h"
#include "lib/model/gpu_choice.h"

namespace train {
namespace {

Resources room_of(const ClaimRoom& claim) {
  Resources room = claim_of(claim.per_worker, claim.workers_here);
  add(room, claim.ingest);
  for (const auto& [name, value] : claim.ingest.custom) room.custom[name] += value;
  return room;
}

}  // namespace

bool RoomQueue::claim(const std::string& run_id, const ClaimRoom& claim) {
  if (claim.workers == 0) return forget(run_id);
  const auto [entry, fresh] = claims_.try_emplace(run_id, claim);
  return fresh || std::exchange(entry->second, claim) != claim;
}

const ClaimRoom* RoomQueue::find(const std::string& run_id) const {
  const auto found = claims_.find(run_id);
  return found == claims_.end() ? nullptr : &found->second;
}

Resources RoomQueue::kept_for(const std::string& run_id, const ClaimRoom& claim,
                              const ClaimedByRun& claimed) {
  const auto has = claimed.find(run_id);
  return has == claimed.end() ? room_of(claim) : beyond(room_of(claim), has->second);
}

// A run with workers keeps its own room, whoever waits. Beyond that it comes last, as does a run
// that has asked for nothing: it takes nothing from those that wait.
Resources RoomQueue::free_for(const std::string& run_id, const Resources& unclaimed,
                              const ClaimedByRun& claimed) const {
  const ClaimRoom* own = find(run_id);
  const bool waits = own != nullptr && !own->place.placed;
  Resources base = unclaimed;
  for (const auto& [other, claim] : claims_)
    if (other != run_id && claim.place.placed) take(base, kept_for(other, claim, claimed));
  Resources rest = base;
  for (const auto& [other, claim] : claims_) {
    if (other == run_id || claim.place.placed) continue;
    if (waits && !goes_before(claim.place, other, own->place, run_id)) continue;
    take(rest, kept_for(other, claim, claimed));
  }
  if (own != nullptr && !waits) rest = larger(rest, smaller(room_of(*own), base));
  return beyond(rest, Resources{});
}

bool RoomQueue::keeps(const std::string& run_id, const ClaimedByRun& claimed) const {
  const ClaimRoom* claim = find(run_id);
  if (claim == nullptr) return false;
  const Resources kept = kept_for(run_id, *claim, claimed);
  return kept.cpu > 0 || kept.gpu > 0 || kept.memory_bytes > 0 ||
         std::any_of(kept.custom.begin(), kept.custom.end(),
                     [](const auto& amount) { return amount.second > 0; });
}

Resources RoomQueue::wanted_before(const std::string& run_id,
                                   const std::function<bool(const std::string&)>& among) const {
  const ClaimRoom* own = find(run_id);
  Resources sum;
  for (const auto& [other, claim] : claims_) {
    const bool keeps_nothing = claim.workers_here == 0 && claim.ingest == Resources{};
    if (other == run_id || claim.place.placed || keeps_nothing || !among(other)) continue;
    const bool before =
        own == nullptr || goes_before_of_owner(claim.place, other, own->place, run_id);
    if (!before) continue;
    sum.cpu += claim.workers * claim.per_worker.cpu;
    sum.gpu += claim.workers * claim.per_worker.gpu;
  }
  return sum;
}

bool RoomQueue::is_wanted(const std::string& gpu, const std::string& uuid,
                          const std::string& by_others_than) const {
  return std::any_of(claims_.begin(), claims_.end(), [&](const auto& entry) {
    const ClaimRoom& claim = entry.second;
    return entry.first != by_others_than && claim.workers_here > 0 && !claim.gpu_choice.empty() &&
           is_chosen(claim.gpu_choice, gpu, uuid);
  });
}

}  // namespace train
