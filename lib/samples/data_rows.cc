#include "lib/samples/data_rows.h"

#include <algorithm>
#include <charconv>

#include "lib/model/data_operator.h"

namespace train {

std::string data_row_name(std::string_view dataset, std::string_view operation,
                          std::optional<std::int32_t> rank) {
  std::string name(dataset);
  name += '/';
  name += operation;
  return name + '/' + (rank ? std::to_string(*rank) : "all");
}

std::optional<DataRow> parse_data_row(std::string_view name) {
  const std::size_t first = name.find('/'), last = name.rfind('/');
  if (first == name.npos || first == last) return std::nullopt;
  DataRow row{.dataset = name.substr(0, first),
              .operation = name.substr(first + 1, last - first - 1)};
  const std::string_view rank = name.substr(last + 1);
  if (rank != "all") {
    std::int32_t number = -1;
    const auto [end, error] = std::from_chars(rank.data(), rank.data() + rank.size(), number);
    if (error != std::errc() || end != rank.data() + rank.size() || number < 0) return std::nullopt;
    row.rank = number;
  }
  if (!is_data_name(row.dataset) || row.operation.empty()) return std::nullopt;
  return row;
}

bool is_data_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._- ()").find(c) != std::string_view::npos;
  };
  return !text.empty() && text.size() <= kDataNameBytesMax &&
         std::all_of(text.begin(), text.end(), fits);
}

}  // namespace train
