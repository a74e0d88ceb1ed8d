#include "launcher/core/start_refusal.h"

#include <fmt/format.h>

#include <optional>

namespace train {

AttemptCause::Failure failure_of(const StartRefused& event, bool was_prepared,
                                 const std::string& node) {
  const bool permanent = event.error.code == Errc::NotFound ||
                         event.error.code == Errc::Permission ||
                         event.error.code == Errc::InvalidArgument;
  std::optional<Rank> rank;
  if (was_prepared) rank = event.rank;
  const std::string what =
      rank ? fmt::format("rank {} could not be started on {}", rank->value, node)
           : fmt::format("no worker could be started on {}", node);
  const std::string hint = event.error.hint.empty() ? "" : fmt::format(" ({})", event.error.hint);
  return {.kind = permanent ? FailureKind::Permanent : FailureKind::Start,
          .cause = fmt::format("{}: {}{}", what, event.error.message, hint),
          .rank = rank,
          .node = event.node,
          .start_error = event.error};
}

}  // namespace train
