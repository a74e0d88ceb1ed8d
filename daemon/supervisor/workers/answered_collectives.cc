#include "daemon/supervisor/workers/answered_collectives.h"

#include <algorithm>
#include <utility>

namespace train {

void AnsweredCollectives::add(std::uint64_t generation, SharedResult result) {
  const auto same = std::find_if(answers_.begin(), answers_.end(), [&](const Answer& answer) {
    return answer.result->sequence == result->sequence;
  });
  if (same != answers_.end()) {
    bytes_ -= same->bytes;
    answers_.erase(same);
  }
  std::size_t bytes = result->error.size();
  for (const std::string& part : result->parts) bytes += part.size();
  bytes_ += bytes;
  answers_.push_back({generation, bytes, std::move(result)});
  while (answers_.size() > kCountMax || (bytes_ > kBytesMax && answers_.size() > 1)) {
    bytes_ -= answers_.front().bytes;
    answers_.pop_front();
  }
}

std::vector<AnsweredCollectives::SharedResult> AnsweredCollectives::from_before(
    std::uint64_t generation) const {
  std::vector<SharedResult> all;
  for (const Answer& answer : answers_) {
    if (answer.generation < generation) all.push_back(answer.result);
  }
  return all;
}

}  // namespace train
