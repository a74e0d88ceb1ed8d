#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec_templates.h"

namespace train {

TRAIN_CODEC(Prepared);
TRAIN_CODEC(NodeSetupEnded);
TRAIN_CODEC(StartWorkers);
TRAIN_CODEC(WorkersStarted);
TRAIN_CODEC(StartFailed);
TRAIN_CODEC(WorkerJoined);
TRAIN_CODEC(WorkerExited);
TRAIN_CODEC(GroupGone);
TRAIN_CODEC(StopWorkers);
TRAIN_CODEC(PauseWorkers);
TRAIN_CODEC(WorkerPaused);
TRAIN_CODEC(ReportBatch);
TRAIN_CODEC(AckReports);
TRAIN_CODEC(ShardWritten);
TRAIN_CODEC(WorkerSamples);
TRAIN_CODEC(DataSamples);
TRAIN_CODEC(TakeStacks);
TRAIN_CODEC(StacksTaken);
TRAIN_CODEC(TakeProfile);
TRAIN_CODEC(ProfileTaken);
TRAIN_CODEC(RequestCheckpoint);
TRAIN_CODEC(CheckpointPosition);
TRAIN_CODEC(CallWorkers);
TRAIN_CODEC(WorkerAnswered);
TRAIN_CODEC(StorageTrouble);
TRAIN_CODEC(CheckpointOutcome);
TRAIN_CODEC(OutputChunk);
TRAIN_CODEC(AckOutput);
TRAIN_CODEC(CollectiveJoin);
TRAIN_CODEC(CollectiveResult);
TRAIN_CODEC(CollectiveAnswered);
TRAIN_CODEC(WorkerResult);
TRAIN_CODEC(ReleaseAttempt);
TRAIN_CODEC(AttemptSnapshot);
TRAIN_CODEC(ReadFile);
TRAIN_CODEC(FileBytes);
TRAIN_CODEC(KeepShard);
TRAIN_CODEC(ShardKept);
TRAIN_CODEC(RunValidation);
TRAIN_CODEC(ValidationEnded);
TRAIN_CODEC(AskCheckpoints);
TRAIN_CODEC(ReportedCheckpoints);
TRAIN_CODEC(StartIngest);
TRAIN_CODEC(StopIngest);
TRAIN_CODEC(IngestUp);
TRAIN_CODEC(IngestLoad);
TRAIN_CODEC(IngestEnded);
TRAIN_CODEC(TellIngestRoster);

}  // namespace train
