// Runs the messages between two workers and their supervisor. Rank 0 sends arbitrary frames; rank 1
// behaves as the SDK does. Once all ranks have called, rank 1 must get an answer, with its own part
// in its position, and it must not wait for work that nobody does.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "daemon/supervisor/workers/answered_collectives.h"
#include "daemon/supervisor/workers/once_per_node.h"
#include "launcher/core/collective_tracker.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "lib/wire/reports.h"
#include "lib/wire/worker_messages.h"

namespace {

using namespace train;

constexpr Rank kBad{0}, kGood{1};
constexpr TimePoint kNow{};

void require(bool holds) {
  if (!holds) std::abort();
}

/// The part of a node in which the frames of one rank reach the other.
class Node {
 public:
  void take(const Frame& frame) {
    switch (frame.type) {
      case MessageType::CollectiveJoin:
        return collective(decode<CollectiveJoin>(frame));
      case MessageType::OnceBegin:
        if (const auto begin = decode<OnceBegin>(frame)) give(once_.begin(kBad, begin->name));
        return;
      case MessageType::OnceEnd:
        if (const auto end = decode<OnceEnd>(frame)) give(once_.end(*end));
        return;
      case MessageType::ReportBatch:
        if (const auto batch = decode<ReportBatch>(frame)) {
          const auto reports = read_reports(*batch, 0);
          require(!reports || reports->size() == batch->count);
        }
        return;
      case MessageType::CollectiveResult:
        if (auto result = decode<CollectiveResult>(frame)) {
          answered_.add(1, std::make_shared<const CollectiveResult>(std::move(*result)));
          require(answered_.from_before(2).size() <= AnsweredCollectives::kCountMax);
        }
        return;
      default:
        (void)decode<WorkerHello>(frame);
        (void)decode<CheckpointStaged>(frame);
        (void)decode<WorkerError>(frame);
        (void)decode<WorkerGoodbye>(frame);
        (void)decode<AllocationStacks>(frame);
        (void)decode<WorkerAnswered>(frame);
        (void)decode<IngestUp>(frame);
        (void)decode<IngestLoad>(frame);
        (void)decode<Welcome>(frame);
        return;
    }
  }

  /// The good rank calls with the sequence that the bad one named last, or with its own next one.
  void good_rank_calls(std::uint64_t sequence) {
    auto release = board_.join(kGood, sequence, "barrier", "good", kNow);
    if (!release) release = board_.join(kBad, sequence, "barrier", "bad", kNow);
    require(release.has_value());  // both have joined: there is an answer, or an error
    if (release->error.empty() && release->sequence == sequence)
      require(release->parts->size() == 2);
  }
  std::uint64_t last_sequence() const { return last_; }

 private:
  void collective(const Result<CollectiveJoin>& join) {
    if (!join) return;
    last_ = join->sequence;
    (void)board_.join(kBad, join->sequence, join->name, join->data, kNow);
    (void)board_.overdue(kNow + kCollectiveWarnAfter);
  }
  void give(const OncePerNode::Replies& replies) {
    for (const auto& [rank, reply] : replies) require(rank == kBad || rank == kGood);
  }

  CollectiveTracker board_{2};
  OncePerNode once_;
  AnsweredCollectives answered_;
  std::uint64_t last_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  Node node;
  // Read a type byte, two length bytes and the payload. The good rank calls in between.
  for (int turn = 0; input.size() >= 3 && turn < 64; ++turn) {
    const auto type = static_cast<std::uint8_t>(input[0]);
    const std::size_t length = static_cast<std::uint8_t>(input[1]) |
                               static_cast<std::size_t>(static_cast<std::uint8_t>(input[2])) << 8;
    input.remove_prefix(3);
    const std::string payload(input.substr(0, std::min(length, input.size())));
    input.remove_prefix(payload.size());
    constexpr MessageType kTypes[] = {MessageType::CollectiveJoin,   MessageType::OnceBegin,
                                      MessageType::OnceEnd,          MessageType::ReportBatch,
                                      MessageType::WorkerHello,      MessageType::CheckpointStaged,
                                      MessageType::CollectiveResult, MessageType::WorkerError};
    if (type % 16 == 15)
      node.good_rank_calls(type % 32 == 15 ? node.last_sequence() : turn);
    else
      node.take({.type = kTypes[type % 8], .attempt = Attempt{0}, .payload = payload});
  }
  return 0;
}
