#include "launcher/core/failover_vote.h"

#include <fmt/format.h>

namespace train {

Result<Unit> may_take_over(const std::vector<FailoverVoter>& voters) {
  if (voters.empty())
    return Error{Errc::Unavailable, "the run's controller was in touch with no other node"};
  std::size_t answered = 0;
  for (const FailoverVoter& voter : voters) {
    if (voter.attached)
      return Error{Errc::Unavailable,
                   fmt::format("the run's controller lives: {} is in touch with it", voter.node)};
    answered += voter.answered ? 1 : 0;
  }
  if (answered * 2 > voters.size()) return Unit{};
  return Error{Errc::Unavailable,
               fmt::format("only {} of the {} nodes that the run's controller was in touch with "
                           "answer here: it may live among the others",
                           answered, voters.size())};
}

}  // namespace train
