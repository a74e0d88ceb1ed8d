// Serves one rank: takes its frames from a channel, reads what it asks for, and answers. It does
// not know how rows are made: who starts it says that.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "lib/data/serve/part_reader.h"
#include "lib/data/serve/rank_channel.h"

namespace train::data {

/// Rows and bytes that were handed over, of all ranks.
struct HandedOver {
  std::atomic<std::int64_t> rows = 0, bytes = 0;
};

class RankSession {
 public:
  /// `stop`: a descriptor that becomes ready to read when the session is to end. All of these
  /// outlive it.
  RankSession(RankChannel& channel, const OpenPart& open, HandedOver& handed_over,
              const std::atomic<bool>& stopping, int stop)
      : channel_(channel),
        open_(open),
        handed_over_(handed_over),
        stopping_(stopping),
        stop_(stop) {}

  /// Serve until the rank leaves, or until it is to stop. The error says why the connection ended.
  Result<Unit> serve();

 private:
  Result<Unit> take_frames();
  Result<Unit> take(const ServeFrame& frame);
  Result<Unit> open(const OpenPass& pass);
  Result<Unit> answer(const Ask& ask);
  Result<PartRows> read(const Ask& ask);

  RankChannel& channel_;
  const OpenPart& open_;
  HandedOver& handed_over_;
  const std::atomic<bool>& stopping_;
  const int stop_;
  std::unique_ptr<PartReader> reader_;
  std::vector<Ask> asks_;
};

}  // namespace train::data
