#include "sdk/client/checkpoint_gate.h"

#include <algorithm>

namespace train::sdk {
namespace {

/// Take the orders whose `place` is here, and forget them: one checkpoint answers them all. Return
/// the newest request.
std::uint64_t take(std::vector<CheckpointOrder>& orders, std::uint64_t CheckpointOrder::*place,
                   std::uint64_t here) {
  std::uint64_t newest = 0;
  std::erase_if(orders, [&](const CheckpointOrder& order) {
    if (order.*place != here) return false;
    newest = std::max(newest, order.request);
    return true;
  });
  return newest;
}

}  // namespace

bool CheckpointGate::order(const CheckpointOrder& order) {
  if (order.step == CheckpointStep::Ask) {
    if (order.request <= decided_ || order.request < asked_) return false;
    asked_ = order.request;
    return true;
  }
  if (order.request <= decided_) return false;
  decided_ = order.request;
  // Only a rank that was asked, and has told where it is, may take part.
  if (order.step == CheckpointStep::Make && asked_ == order.request) to_make_.push_back(order);
  return false;
}

std::uint64_t CheckpointGate::take_report(std::uint64_t report_seq) {
  return to_make_.empty() ? 0 : take(to_make_, &CheckpointOrder::report_seq, report_seq);
}

std::uint64_t CheckpointGate::take_call(std::uint64_t call) {
  return to_make_.empty() ? 0 : take(to_make_, &CheckpointOrder::call, call);
}

}  // namespace train::sdk
