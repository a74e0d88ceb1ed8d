// The rows of SampleKind::Data: "train/map normalize/3" is one operator of one dataset on rank 3,
// "train/map normalize/all" the same on all ranks. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace train {

struct DataRow {
  std::string_view dataset = {}, operation = {};  // of the row's name
  std::optional<std::int32_t> rank = {};          // none: all ranks
};

std::string data_row_name(std::string_view dataset, std::string_view operation,
                          std::optional<std::int32_t> rank);
/// Return nothing if it is no such name.
std::optional<DataRow> parse_data_row(std::string_view name);

/// Return whether the text can be the name of a dataset or of a map, or what DatasetMeters makes of
/// it: letters, digits and "._- ()", 1 to 64 bytes. Other texts come from programs that are not
/// ours.
bool is_data_name(std::string_view text);

}  // namespace train
