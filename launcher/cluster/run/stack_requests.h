// Receives requests for stacks from `train-run stacks`, through the run's folder: files
// `.stacks-ID`, which name the ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/core/run_events.h"
#include "lib/net/task.h"

namespace train {

inline constexpr const char* kStackRequestPrefix = ".stacks-";
inline constexpr std::size_t kStackRequestIdBytesMax = 64;

/// Look for requests in `folder` until the flow is cancelled, and pass each on once.
asio::awaitable<void> watch_stack_requests(std::string folder,
                                           std::function<void(const StacksAsked&)> asked);

/// Return the content of a request: the ranks as JSON.
std::string stack_request_text(const std::vector<Rank>& ranks);

}  // namespace train
