#include "lib/data/plan/row_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lib/base/check.h"

namespace train::data {
namespace {

/// Append rows [first, first + count) of `unit`. Extends the last range if they follow it.
void append_range(std::vector<RowRange>& out, std::int64_t unit, std::int64_t first,
                  std::int64_t count) {
  if (count == 0) return;
  if (!out.empty() && out.back().unit == unit && out.back().first + out.back().count == first) {
    out.back().count += count;
  } else {
    out.push_back({unit, first, count});
  }
}

std::vector<std::int64_t> permuted(std::int64_t size, std::uint64_t key) {
  const Permutation permutation(size, key);
  std::vector<std::int64_t> images(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) images[static_cast<std::size_t>(i)] = permutation(i);
  return images;
}

/// Return the units file by file, with the files in the order that `key` gives.
std::vector<std::int64_t> units_by_file(const std::vector<std::int64_t>& file_units,
                                        std::uint64_t key) {
  std::vector<std::int64_t> begin(file_units.size() + 1);
  std::partial_sum(file_units.begin(), file_units.end(), begin.begin() + 1);
  std::vector<std::int64_t> units;
  units.reserve(static_cast<std::size_t>(begin.back()));
  for (const std::int64_t file : permuted(static_cast<std::int64_t>(file_units.size()), key)) {
    const auto at = static_cast<std::size_t>(file);
    for (std::int64_t unit = begin[at]; unit < begin[at + 1]; ++unit) units.push_back(unit);
  }
  return units;
}

constexpr std::int64_t kLanesOfVersion1 = 8;

}  // namespace

std::string_view to_string(Shuffle shuffle) {
  switch (shuffle) {
    case Shuffle::None:
      return "none";
    case Shuffle::Files:
      return "files";
    case Shuffle::Window:
      return "window";
    case Shuffle::Rows:
      return "rows";
  }
  return "none";
}

RowOrder::RowOrder(const UnitLayout& layout, const OrderSpec& spec, std::uint64_t epoch)
    : spec_(spec), key_(mix(spec.seed, epoch)), unit_rows_(layout.unit_rows) {
  const auto count = static_cast<std::int64_t>(layout.unit_rows.size());
  if (spec_.shuffle == Shuffle::Window) units_ = permuted(count, key_);
  if (spec_.shuffle == Shuffle::Files) {
    units_ = units_by_file(layout.file_units, key_);
    TRAIN_CHECK(units_.size() == layout.unit_rows.size(), "each unit belongs to a file");
  }
  begin_.reserve(static_cast<std::size_t>(count) + 1);
  begin_.push_back(0);
  for (std::int64_t place = 0; place < count; ++place) {
    const auto unit = static_cast<std::size_t>(unit_at(place));
    begin_.push_back(begin_.back() + layout.unit_rows[unit]);
  }
  if (spec_.shuffle == Shuffle::Rows) rows_ = Permutation(total_rows(), key_);
}

std::int64_t RowOrder::unit_at(std::int64_t place) const {
  return units_.empty() ? place : units_[static_cast<std::size_t>(place)];
}

/// Return the place of the unit that has this row of the sequence.
std::int64_t RowOrder::place_of(std::int64_t row) const {
  return std::upper_bound(begin_.begin(), begin_.end(), row) - begin_.begin() - 1;
}

void RowOrder::append(std::int64_t first, std::int64_t count, std::vector<RowRange>& out) const {
  if (spec_.shuffle == Shuffle::Rows) {
    for (std::int64_t i = first; i < first + count; ++i) {
      const std::int64_t row = rows_(i);
      const std::int64_t unit = place_of(row);
      append_range(out, unit, row - begin_[static_cast<std::size_t>(unit)], 1);
    }
    return;
  }
  while (count > 0) {
    const std::int64_t place = place_of(first);
    const std::int64_t begin = begin_[static_cast<std::size_t>(place)];
    const std::int64_t rows = begin_[static_cast<std::size_t>(place) + 1] - begin;
    const std::int64_t offset = first - begin;
    const std::int64_t taken = std::min(count, rows - offset);
    if (spec_.shuffle == Shuffle::Window)
      append_shuffled(unit_at(place), offset, taken, out);
    else
      append_range(out, unit_at(place), offset, taken);
    first += taken;
    count -= taken;
  }
}

void RowOrder::append_units(std::int64_t first, std::int64_t count,
                            std::vector<std::int64_t>& out) const {
  if (count <= 0) return;
  const bool all = spec_.shuffle == Shuffle::Rows;
  const std::int64_t last = all ? units() - 1 : place_of(first + count - 1);
  for (std::int64_t place = all ? 0 : place_of(first); place <= last; ++place) {
    const std::int64_t unit = unit_at(place);
    if (unit_rows_[static_cast<std::size_t>(unit)] > 0) out.push_back(unit);
  }
}

std::int64_t RowOrder::lane_begin(std::int64_t lane) const {
  // the first lanes have one more row if the rows do not divide evenly
  return lane * (total_rows() / spec_.lanes) + std::min(lane, total_rows() % spec_.lanes);
}

void RowOrder::append_part(std::int64_t begin, std::int64_t end, std::int64_t skip,
                           std::int64_t count, std::vector<RowRange>& out) const {
  for_each_lane(begin, end, skip, count,
                [&](std::int64_t lane, std::int64_t from, std::int64_t taken) {
                  append(lane_begin(lane) + from, taken, out);
                });
}

/// Return the key of a unit's rows, which for one block are in the order that they had in
/// version 1.
std::uint64_t RowOrder::unit_key(std::int64_t unit) const {
  return mix(key_, static_cast<std::uint64_t>(unit) + 1);
}

Block RowOrder::block_of(std::int64_t unit, std::int64_t row) const {
  const std::int64_t rows = unit_rows_[static_cast<std::size_t>(unit)];
  const std::int64_t size = spec_.block_rows;
  if (size == 0 || size >= rows) return {.number = 0, .first = 0, .rows = rows};
  std::int64_t first_size = size;
  if (spec_.shuffle == Shuffle::Window) {
    constexpr std::uint64_t kFirstBlock = ~std::uint64_t{0};
    first_size = 1 + static_cast<std::int64_t>(mix(unit_key(unit), kFirstBlock) %
                                               static_cast<std::uint64_t>(size));
  }
  if (row < first_size) return {.number = 0, .first = 0, .rows = first_size};
  const std::int64_t number = (row - first_size) / size;
  const std::int64_t first = first_size + number * size;
  return {.number = number + 1, .first = first, .rows = std::min(size, rows - first)};
}

/// Append rows [first, first + count) of a unit whose blocks are shuffled.
void RowOrder::append_shuffled(std::int64_t unit, std::int64_t first, std::int64_t count,
                               std::vector<RowRange>& out) const {
  while (count > 0) {
    const Block block = block_of(unit, first);
    const std::int64_t taken = std::min(count, block.first + block.rows - first);
    const auto number = static_cast<std::uint64_t>(block.number);
    const Permutation inside(block.rows,
                             number == 0 ? unit_key(unit) : mix(unit_key(unit), number));
    for (std::int64_t i = first - block.first; i < first - block.first + taken; ++i)
      append_range(out, unit, block.first + inside(i), 1);
    first += taken;
    count -= taken;
  }
}

std::string digest_of(const UnitLayout& layout) {
  std::uint64_t id = 2;
  for (const auto* list : {&layout.unit_rows, &layout.file_units, &layout.file_bytes}) {
    id = mix(id, list->size());
    for (const std::int64_t value : *list) id = mix(id, static_cast<std::uint64_t>(value));
  }
  return fmt::format("{:016x}", id);
}

OrderSpec order_of_version_1(const std::vector<std::int64_t>& unit_rows, bool shuffle,
                             std::uint64_t seed) {
  if (!shuffle) return {};
  if (static_cast<std::int64_t>(unit_rows.size()) <= kLanesOfVersion1)
    return {.shuffle = Shuffle::Rows, .seed = seed};
  return {.shuffle = Shuffle::Window, .seed = seed, .lanes = kLanesOfVersion1};
}

std::string digest_of_version_1(const std::vector<std::int64_t>& unit_rows, bool shuffle,
                                std::uint64_t seed) {
  std::uint64_t id = mix(shuffle ? 1 : 0, shuffle ? seed : 0);
  for (const std::int64_t rows : unit_rows) id = mix(id, static_cast<std::uint64_t>(rows));
  return fmt::format("{:016x}", id);
}

}  // namespace train::data
