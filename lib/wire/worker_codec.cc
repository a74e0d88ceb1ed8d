#include "lib/wire/codec_templates.h"
#include "lib/wire/worker_messages.h"

namespace train {

TRAIN_CODEC(WorkerHello);
TRAIN_CODEC(Welcome);
TRAIN_CODEC(CheckpointStaged);
TRAIN_CODEC(OnceBegin);
TRAIN_CODEC(OnceReply);
TRAIN_CODEC(OnceEnd);
TRAIN_CODEC(WorkerError);
TRAIN_CODEC(WorkerGoodbye);
TRAIN_CODEC(GoodbyeAck);
TRAIN_CODEC(TakeMemoryProfile);
TRAIN_CODEC(AllocationStacks);

}  // namespace train
