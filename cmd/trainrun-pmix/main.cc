// trainrun-pmix: serves PMIx to the workers of a node (backend: mpi, pmi: pmix). A supervisor
// starts it, as the workers' user, and speaks with it over the socket that it inherits as file
// descriptor TRAINRUN_PMIX_FD; it is no command for users. It ends with that socket. libpmix is in
// a process of its own because it starts threads, and reads what workers write.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "cmd/trainrun-pmix/pmix_server.h"
#include "lib/base/print.h"
#include "lib/wire/codec.h"

namespace {

using namespace train;

constexpr int kBadUse = 64;
constexpr unsigned kCleanUpSecondsMax = 5;

/// Nodes, and their ranks, as the supervisor may name them.
bool is_complete(const ServePmix& order) {
  constexpr std::int64_t kRanksMax = 1 << 20;
  const auto nodes = static_cast<std::int32_t>(order.node_sizes.size());
  if (order.node_rank < 0 || order.node_rank >= nodes) return false;
  std::int64_t ranks = 0;
  for (const std::int32_t size : order.node_sizes) {
    if (size < 0) return false;
    ranks += size;
  }
  return ranks > 0 && ranks <= kRanksMax && !order.name.empty() &&
         order.name.size() < PMIX_MAX_NSLEN;
}

int serve(FrameSocket& supervisor) {
  const auto first = supervisor.receive();
  if (!first || first->type != MessageType::ServePmix) return kBadUse;
  const auto order = decode<ServePmix>(*first);
  if (order.has_error() || !is_complete(*order)) return kBadUse;
  const auto library = PmixLibrary::open(order->libraries);
  const auto refuse = [&](const Error& error) {
    supervisor.send(encode(PmixServed{.error = error.message}));
    return EXIT_FAILURE;
  };
  if (library.has_error()) return refuse(library.error());
  auto& server =
      *new PmixServer(*order, *library, supervisor);  // libpmix's thread may use it to the end
  const auto served = server.start();
  if (served.has_error()) return refuse(served.error());
  supervisor.send(encode(*served));
  while (const auto frame = supervisor.receive()) {
    if (frame->type != MessageType::PmixFenceOver) continue;
    auto over = decode<PmixFenceOver>(*frame);
    if (over) server.end_fence(std::move(*over));
  }
  ::alarm(kCleanUpSecondsMax);  // the supervisor may be gone
  server.clean_up();
  return EXIT_SUCCESS;
}

}  // namespace

int main() {
  const char* number = std::getenv("TRAINRUN_PMIX_FD");
  if (number == nullptr) {
    print_err("trainrun-pmix is started by traind; it is no command for users\n");
    return kBadUse;
  }
  FrameSocket supervisor{FileDescriptor(std::atoi(number))};
  ::fcntl(std::atoi(number), F_SETFD, FD_CLOEXEC);  // it ends with us, whatever libpmix starts
  ::unsetenv("TRAINRUN_PMIX_FD");
  // Without destructors: libpmix's thread runs. What it leaves in its folder, the supervisor
  // removes.
  ::_exit(serve(supervisor));
}
