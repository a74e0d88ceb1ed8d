#include "daemon/supervisor/workers/worker_admission.h"

#include "daemon/supervisor/workers/worker_welcome.h"

namespace train {

// Return the rank that the process was started with. For a standby process, wait until it has a
// rank and its output is being read.
Task<Rank> WorkerAdmission::rank_for(const WorkerHello& hello) const {
  if (hello.standby < 0 && !hello.stays) {
    if (parts_.orders.start) co_return Rank{hello.rank};
    co_return Error{Errc::Unavailable, "no worker of this supervisor has a rank yet",
                    "a standby program connects with the number in TRAINRUN_STANDBY"};
  }
  const int number = hello.stays ? hello.rank : hello.standby;
  for (;;) {
    const auto rank = parts_.standbys.rank_of(number, /*was_worker=*/hello.stays);
    if (rank && parts_.slots.at(*rank).pid > 0) co_return *rank;
    const bool for_another_run = hello.stays && stays(Rank{hello.rank});
    const bool in_vain =
        parts_.standbys.ended() || (!rank && !for_another_run && parts_.standbys.closed());
    if (in_vain) co_return Error{Errc::Unavailable, "no rank is left for this process"};
    CO_TRY([[maybe_unused]] const bool woken, co_await parts_.changed.wait_until(TimePoint::max()));
  }
}

/// Return whether the rank has ended in this run, and its process has not.
bool WorkerAdmission::stays(Rank rank) const {
  const auto slot = parts_.slots.find(rank);
  return slot != parts_.slots.end() && slot->second.stayed > 0;
}

Task<Welcome> WorkerAdmission::welcome(WorkerHello hello) const {
  CO_TRY(const Rank rank, co_await rank_for(hello));
  const AttemptOrders& orders = parts_.orders;
  const auto slot = parts_.slots.find(rank);
  WelcomeInput input{.run = orders.start->run,
                     .ranks = slot == parts_.slots.end() ? nullptr : &slot->second.ranks,
                     .attempt = orders.attempt,
                     .run_dir = orders.prepare->run_dir,
                     .staging_dir = parts_.checkpoints.staging_folder(rank),
                     .master_listen_fd = orders.master_port ? orders.master_port->fd() : -1,
                     .build = orders.build,
                     .numbering_begun = slot != parts_.slots.end() && slot->second.numbering_begun};
  if (hello.standby >= 0 || hello.stays) {
    hello.rank = rank.value;
    input.master_listen_fd = -1;  // the process was started before this socket existed
    input.env = not_in(parts_.runner.environment_of(slot->second), slot->second.standby->env);
  }
  CO_TRY(auto message, make_welcome(hello, input));
  CO_TRY_VOID(co_await parts_.checkpoints.make_staging_folder(rank));
  co_return message;
}

}  // namespace train
