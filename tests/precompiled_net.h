// Precompiled header of test programs that say PRECOMPILED train_net_test_precompiled.
#pragma once

#include "lib/net/precompiled.h"
#include "tests/precompiled.h"
