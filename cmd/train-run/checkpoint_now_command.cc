// checkpoint now: asks the train-run that controls a run for a checkpoint, through the run's
// folder, and waits until it is committed. The run goes on.
#include "cmd/train-run/ask_run.h"
#include "cmd/train-run/commands.h"
#include "lib/base/print.h"
#include "lib/storage/manifest.h"

namespace train {

int checkpoint_now_command(const RunReference& reference) {
  // The launcher answers within ten minutes.
  constexpr auto kAnswerWithin = std::chrono::minutes(10) + std::chrono::seconds(30);
  const auto folder = folder_to_ask(reference);
  if (!folder) return not_answered(folder.error());
  auto request = PendingRequest::leave(*folder, CheckpointNowRequest{});
  if (!request) return not_answered(request.error());
  const auto answered =
      request_answer(std::move(*request), *folder, kAnswerWithin, "checkpoint", OfLauncher::Same);
  if (!answered) {
    Error error = answered.error();
    if (!error.message.starts_with(folder->path()))
      error.message = "no checkpoint was made: " + error.message;
    return not_answered(error);
  }
  print_out("{}\n", checkpoint_name(CheckpointNumber{answered->checkpoint}));
  return 0;
}

}  // namespace train
