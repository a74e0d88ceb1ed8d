#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/net/handshake.h"
#include "lib/net/listener.h"
#include "lib/net/pch.h"
#include "lib/net/scope.h"
#include "lib/net/within.h"
