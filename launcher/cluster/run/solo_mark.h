// A file in the folder that train-run makes for a program that runs alone (num_workers: 0). No
// other run may use that folder: its reports would have the numbers of those that are there.
#pragma once

#include <string_view>

namespace train {

inline constexpr std::string_view kSoloMark = ".solo";

}  // namespace train
