#include "cmd/build_info.h"

namespace train {

const char* const kBuild = TRAIN_BUILD;

}  // namespace train
