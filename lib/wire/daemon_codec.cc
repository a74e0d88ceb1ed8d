#include "lib/wire/codec_templates.h"
#include "lib/wire/daemon_messages.h"

namespace train {

TRAIN_CODEC(AttachRun);
TRAIN_CODEC(NodeOffer);
TRAIN_CODEC(PrepareAttempt);
TRAIN_CODEC(AttemptLost);
TRAIN_CODEC(DetachRun);
TRAIN_CODEC(LauncherState);
TRAIN_CODEC(SupervisorHello);
TRAIN_CODEC(NodeDraining);
TRAIN_CODEC(DrainNode);
TRAIN_CODEC(DetachController);
TRAIN_CODEC(DetachedController);
TRAIN_CODEC(ControllerEnded);
TRAIN_CODEC(NodeStatus);
TRAIN_CODEC(ClaimRoom);
TRAIN_CODEC(PrepareFailover);
TRAIN_CODEC(FailoverAnswer);
TRAIN_CODEC(CancelFailover);
TRAIN_CODEC(AskLauncher);
TRAIN_CODEC(LauncherTold);
TRAIN_CODEC(KeptWorkers);

}  // namespace train
