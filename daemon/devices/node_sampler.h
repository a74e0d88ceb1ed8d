// Reads what this node is doing from /proc and /sys.
#pragma once

#include <string>

#include "lib/model/node_sample.h"

namespace train {

/// Read a sample. `spool` is a folder on the file system whose space is told. `root` is where /proc
/// and /sys are ("" but in tests). What cannot be read is kNotKnown. Takes less than a millisecond;
/// a network file system below `spool` may block.
NodeSample sample_node(const std::string& spool, const std::string& root = "");

}  // namespace train
