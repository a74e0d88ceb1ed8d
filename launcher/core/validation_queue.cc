#include "launcher/core/validation_queue.h"

#include <utility>

namespace train {

std::optional<CheckpointInfo> ValidationQueue::add(const CheckpointInfo& checkpoint) {
  if (every_ == 0 || checkpoint.number % every_ != 0) return std::nullopt;
  waiting_.push_back(checkpoint);
  if (waiting_.size() <= kValidationsWaitingMax) return std::nullopt;
  CheckpointInfo oldest = std::move(waiting_.front());
  waiting_.pop_front();
  return oldest;
}

std::optional<CheckpointInfo> ValidationQueue::begin(NodeId node) {
  if (running_ || waiting_.empty()) return std::nullopt;
  running_ = Running{std::move(waiting_.front()), node};
  waiting_.pop_front();
  return running_->checkpoint;
}

void ValidationQueue::lost(NodeId node) {
  if (running_ && running_->node == node) queue_again();
}

void ValidationQueue::end_attempt() {
  said_ = false;
  queue_again();
}

void ValidationQueue::queue_again() {
  if (!running_) return;
  waiting_.push_front(std::move(running_->checkpoint));
  running_.reset();
}

void ValidationQueue::finished(std::uint64_t number) {
  if (running_ && running_->checkpoint.number == number) running_.reset();
  std::erase_if(waiting_, [&](const CheckpointInfo& one) { return one.number == number; });
}

const CheckpointInfo* ValidationQueue::running_on(NodeId node) const {
  return running_ && running_->node == node ? &running_->checkpoint : nullptr;
}

std::vector<std::uint64_t> ValidationQueue::unfinished() const {
  std::vector<std::uint64_t> numbers;
  if (running_) numbers.push_back(running_->checkpoint.number);
  for (const CheckpointInfo& one : waiting_) numbers.push_back(one.number);
  return numbers;
}

}  // namespace train
