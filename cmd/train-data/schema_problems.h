// Names what is wrong with the files of a dataset that cannot be opened as a whole.
#pragma once

#include <string>
#include <vector>

#include "sdk/data/dataset_spec.h"

namespace train {

/// Open each file by itself, and return what is wrong: files that cannot be read, and columns that
/// are not the same in all files. At most 20 of each are named.
std::vector<std::string> schema_problems(const sdk::DatasetSpec& spec);

}  // namespace train
