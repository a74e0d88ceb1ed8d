#include "daemon/supervisor/workers/worker_welcome.h"

#include <fmt/format.h>

#include <algorithm>

namespace train {

Result<Welcome> make_welcome(const WorkerHello& hello, const WelcomeInput& input) {
  if (input.ranks == nullptr || hello.attempt != input.attempt.value) {
    return Error{Errc::Fenced,
                 fmt::format("rank {} of attempt {} does not belong to attempt {} on this node",
                             hello.rank, hello.attempt, input.attempt.value)};
  }
  if (hello.protocol_min > kProtocolMax || hello.protocol_max < kProtocolMin) {
    return Error{
        Errc::Protocol,
        fmt::format("the worker's SDK ({}) speaks protocol {} to {}, this traind ({}) {} to {}",
                    hello.build, hello.protocol_min, hello.protocol_max, input.build, kProtocolMin,
                    kProtocolMax),
        "build the worker against the SDK of this version, or upgrade traind"};
  }
  if (input.numbering_begun) {
    return Error{Errc::InvalidArgument,
                 fmt::format("another program has already been rank {} of this attempt, and has "
                             "reported or taken part in a collective",
                             hello.rank),
                 "let one program of the command use the SDK for more than its rank, or run a job "
                 "for each"};
  }
  return Welcome{.protocol = std::min(hello.protocol_max, kProtocolMax),
                 .attempt = input.attempt.value,
                 .ranks = *input.ranks,
                 .run = input.run,
                 .run_dir = input.run_dir,
                 .staging_dir = input.staging_dir,
                 .master_listen_fd = hello.rank == 0 ? input.master_listen_fd : -1,
                 .env = input.env};
}

}  // namespace train
