#include "sdk/data/cursor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "lib/base/utf8.h"

namespace train::sdk {
namespace {

constexpr std::int64_t kVersion = 2;
constexpr std::size_t kNamedMax = 5;  // files that an error names of each kind
constexpr data::Shuffle kShuffles[] = {data::Shuffle::None, data::Shuffle::Files,
                                       data::Shuffle::Window, data::Shuffle::Rows};

/// Return how many bytes of every path are the folder that all have in common.
std::size_t common_folder(const std::vector<data::FileRows>& files) {
  if (files.empty()) return 0;
  std::string_view common = files.front().path;
  for (const data::FileRows& file : files) {
    const auto end =
        std::mismatch(common.begin(), common.end(), file.path.begin(), file.path.end());
    common = common.substr(0, static_cast<std::size_t>(end.first - common.begin()));
  }
  const std::size_t slash = common.rfind('/');
  return slash == std::string_view::npos ? 0 : slash + 1;
}

/// Return whether a checkpoint can hold the list: JSON holds only UTF-8, and metadata is bounded.
bool can_be_listed(const std::vector<data::FileRows>& files) {
  std::size_t bytes = 0;
  for (const data::FileRows& file : files) {
    bytes += file.path.size() + file.version.size();
    if (utf8_text(file.path) != file.path) return false;
  }
  return files.size() <= kCursorFilesMax && bytes <= kCursorPathBytesMax;
}

Result<data::OrderSpec> read_order(const Config& entry) {
  data::OrderSpec order;
  const auto word = entry.get<std::string>("shuffle");
  const auto shuffle =
      std::find_if(std::begin(kShuffles), std::end(kShuffles),
                   [&](data::Shuffle known) { return data::to_string(known) == word; });
  order.lanes = entry.get<std::int64_t>("lanes");
  order.block_rows = entry.get<std::int64_t>("block_rows");
  order.seed = static_cast<std::uint64_t>(entry.get<std::int64_t>("seed"));
  if (shuffle == std::end(kShuffles) || order.lanes < 1 || order.lanes > data::kLanesMax ||
      order.block_rows < 0) {
    return Error{Errc::Corrupt,
                 fmt::format("the checkpoint's position is in an order that cannot be (shuffle {}, "
                             "{} lanes, blocks of {} rows)",
                             word, order.lanes, order.block_rows)};
  }
  order.shuffle = *shuffle;
  return order;
}

std::vector<data::FileRows> read_files(const List& list) {
  std::vector<data::FileRows> files;
  for (const Value& entry : list) {
    const List parts = entry.as<List>();
    if (parts.size() != 3 && parts.size() != 4) throw Failure("invalid_argument", "not a file");
    files.push_back({.path = parts[0].as<std::string>(),
                     .rows = parts[1].as<std::int64_t>(),
                     .bytes = parts[2].as<std::int64_t>(),
                     .version = parts.size() == 4 ? parts[3].as<std::string>() : std::string()});
  }
  return files;
}

Result<Unit> read_order_into(const Dict& entry, Cursor& cursor) {
  const Config config(entry);
  const auto version = config.get<std::int64_t>("version");
  if (version != kVersion) {
    return Error{Errc::InvalidArgument,
                 fmt::format("the checkpoint's position has version {}, and this program knows "
                             "versions up to {}",
                             version, kVersion),
                 "build the program with a newer SDK"};
  }
  TRY(cursor.order, read_order(config));
  cursor.digest = config.get<std::string>("layout");
  if (config.contains("files")) cursor.files = read_files(config.get<List>("files"));
  return Unit{};
}

std::string list_of(std::string_view what, std::vector<std::string> names) {
  if (names.empty()) return {};
  const std::size_t more = names.size() > kNamedMax ? names.size() - kNamedMax : 0;
  names.resize(names.size() - more);
  return fmt::format("{}: {}{}", what, fmt::join(names, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

/// Say what differs between two lists of files, whose paths begin at their common folders.
std::string changes(const std::vector<data::FileRows>& before,
                    const std::vector<data::FileRows>& now) {
  std::map<std::string_view, const data::FileRows*> old;
  for (const data::FileRows& file : before) old[file.path] = &file;
  std::vector<std::string> came, changed, gone;
  for (const data::FileRows& file : now) {
    const auto found = old.find(file.path);
    if (found == old.end()) {
      came.push_back(file.path);
      continue;
    }
    const data::FileRows& then = *found->second;
    if (then.rows != file.rows)
      changed.push_back(fmt::format("{} ({} rows, not {})", file.path, file.rows, then.rows));
    else if (then.bytes != file.bytes)
      changed.push_back(fmt::format("{} ({} bytes, not {})", file.path, file.bytes, then.bytes));
    else if (then.version != file.version)
      changed.push_back(fmt::format("{} (replaced by another of the same size)", file.path));
    old.erase(found);
  }
  for (const auto& [path, file] : old) gone.emplace_back(path);
  std::vector<std::string> parts;
  for (std::string part : {list_of("new", std::move(came)), list_of("gone", std::move(gone)),
                           list_of("changed", std::move(changed))}) {
    if (!part.empty()) parts.push_back(std::move(part));
  }
  return parts.empty() ? "its rows have other names, or lie in other units"
                       : fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace

DatasetLayout layout_of(const data::RowSource& source) {
  DatasetLayout layout{.units = {.unit_rows = source.unit_rows()}, .files = source.files()};
  for (const data::FileRows& file : layout.files) {
    layout.units.file_units.push_back(file.units);
    layout.units.file_bytes.push_back(
        file.digest == 0 ? file.bytes
                         : static_cast<std::int64_t>(
                               data::mix(static_cast<std::uint64_t>(file.bytes), file.digest)));
  }
  if (layout.files.empty())
    layout.units.file_units = {static_cast<std::int64_t>(layout.units.unit_rows.size())};
  const std::size_t folder = common_folder(layout.files);
  for (data::FileRows& file : layout.files) file.path.erase(0, folder);
  layout.digest = data::digest_of(layout.units);
  return layout;
}

Dict cursor_order(const DatasetLayout& layout, const data::OrderSpec& order) {
  Dict entry{{"version", kVersion},
             {"layout", layout.digest},
             {"shuffle", std::string(data::to_string(order.shuffle))},
             {"seed", static_cast<std::int64_t>(order.seed)},
             {"lanes", order.lanes},
             {"block_rows", order.block_rows}};
  if (!can_be_listed(layout.files)) return entry;
  List files;
  for (const data::FileRows& file : layout.files) {
    List parts{file.path, file.rows, file.bytes};
    if (!file.version.empty()) parts.emplace_back(file.version);
    files.emplace_back(std::move(parts));
  }
  entry["files"] = std::move(files);
  return entry;
}

Result<std::optional<Cursor>> read_cursor(const Value& value) {
  if (!value.is_dict()) return std::optional<Cursor>();
  const Dict entry = value.as<Dict>();
  Cursor cursor;
  try {
    const Config config(entry);
    cursor.epoch = static_cast<std::uint64_t>(config.get<std::int64_t>("epoch"));
    cursor.rows_consumed = config.get<std::int64_t>("rows");
    const auto order = entry.find("order");
    if (order != entry.end() && order->second.is_dict()) {
      TRY_VOID(read_order_into(order->second.as<Dict>(), cursor));
    } else {
      cursor.digest = config.get<std::string>("order", "");
    }
  } catch (const Failure&) {
    return std::optional<Cursor>();
  }
  return std::optional<Cursor>(std::move(cursor));
}

std::optional<std::string> difference(const Cursor& cursor, const DatasetLayout& layout,
                                      bool shuffle, std::uint64_t seed) {
  if (cursor.order) {
    if (cursor.digest == layout.digest) return std::nullopt;
    if (!cursor.files)
      return "the checkpoint has no list of its files, which are too many, or have names that are "
             "no UTF-8";
    return changes(*cursor.files, layout.files);
  }
  if (cursor.digest.empty() ||
      cursor.digest == data::digest_of_version_1(layout.units.unit_rows, shuffle, seed))
    return std::nullopt;
  return "the checkpoint is of an earlier version, which kept no list of the files";
}

}  // namespace train::sdk
