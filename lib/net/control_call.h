// This file lets a user's command call that user's traind: `traind drain`, `train-run --detach`.
#pragma once

#include <memory>
#include <string>

#include "lib/base/time.h"
#include "lib/net/connection.h"

namespace train {

/// Connect to the traind of this runtime folder and do the handshake. Waits up to `timeout` for
/// traind to start. Errc::Unavailable if none runs there; the caller adds the hint. credentials()
/// tells whose traind it is. The strings must outlive the flow.
Task<std::unique_ptr<Connection>> call_traind(asio::any_io_executor executor,
                                              const std::string& runtime_dir,
                                              const std::string& build, Duration timeout = {});

}  // namespace train
