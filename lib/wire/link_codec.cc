#include "lib/wire/codec_templates.h"
#include "lib/wire/link_messages.h"

namespace train {

TRAIN_CODEC(Hello);
TRAIN_CODEC(HelloReply);
TRAIN_CODEC(Refused);
TRAIN_CODEC(Heartbeat);
TRAIN_CODEC(HeartbeatAck);

}  // namespace train
