// Which output streams of which local ranks are meant, as torchrun's --redirects and --tee say it:
// "3" is both streams of all, "0:1,2:3" is stdout of local rank 0 and both of local rank 2. Pure.
//
// Source of the syntax: Std.from_str of torch.distributed.elastic.multiprocessing, PyTorch 2.11.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "lib/base/result.h"

namespace train {

class StreamChoice {
 public:
  /// Parse "0" (none), "1" (stdout), "2" (stderr), "3" (both), or "RANK:N,RANK:N". InvalidArgument
  /// says which part is wrong.
  static Result<StreamChoice> parse(std::string_view text);

  /// Return whether it names the stream (1 stdout, 2 stderr) of the local rank.
  bool contains(std::int32_t local_rank, int stream) const;

 private:
  static constexpr std::int32_t kAll = -1;
  std::map<std::int32_t, int> streams_;  // by local rank: the sum of its streams' numbers
};

}  // namespace train
