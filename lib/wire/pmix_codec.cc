#include "lib/wire/codec_templates.h"
#include "lib/wire/pmix_messages.h"

namespace train {

TRAIN_CODEC(ServePmix);
TRAIN_CODEC(PmixServed);
TRAIN_CODEC(PmixFence);
TRAIN_CODEC(PmixFenceOver);
TRAIN_CODEC(PmixNotice);

}  // namespace train
