#include "daemon/supervisor/workers/answered_collectives.h"

#include <algorithm>
#include <utility>

namespace train {

void AnsweredCollectives::add(std::uint64_t generation, SharedResult result) {
  const auto same = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
    return kept.result->sequence == result->sequence;
  });
  if (same != kept_.end()) {
    bytes_ -= same->bytes;
    kept_.erase(same);
  }
  std::size_t bytes = result->error.size();
  for (const std::string& part : result->parts) bytes += part.size();
  bytes_ += bytes;
  kept_.push_back({generation, bytes, std::move(result)});
  while (kept_.size() > kCountMax || (bytes_ > kBytesMax && kept_.size() > 1)) {
    bytes_ -= kept_.front().bytes;
    kept_.pop_front();
  }
}

std::vector<AnsweredCollectives::SharedResult> AnsweredCollectives::from_before(
    std::uint64_t generation) const {
  std::vector<SharedResult> all;
  for (const Kept& kept : kept_) {
    if (kept.generation < generation) all.push_back(kept.result);
  }
  return all;
}

}  // namespace train
