// Precompiled header of test programs (train_test of packaging/cmake/train_targets.cmake).
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lib/base/precompiled.h"
