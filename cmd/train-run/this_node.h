// What a private traind would offer on this machine.
#pragma once

#include "launcher/core/placement.h"

namespace train {

NodeCapacity this_node();

}  // namespace train
