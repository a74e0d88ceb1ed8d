// A rank on this node: frames over a Unix socket, rows in slots (slots.h).
#pragma once

#include <memory>

#include "lib/base/file_descriptor.h"
#include "lib/data/serve/rank_channel.h"

namespace train::data {

std::unique_ptr<RankChannel> unix_rank_channel(FileDescriptor socket);

}  // namespace train::data
