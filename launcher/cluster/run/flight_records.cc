#include "launcher/cluster/run/flight_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/secrets.h"
#include "lib/base/terminal_text.h"
#include "lib/flight/flight_comparison.h"
#include "lib/flight/flight_record.h"
#include "lib/flight/pickle.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

constexpr std::size_t kRanksMax = 4096;
constexpr std::size_t kCallsMax = 1u << 18;  // of all ranks together: about 100 MiB at most

/// Return the rank in "rank-3"; -1 if it is another name.
std::int32_t rank_in(std::string_view name) {
  constexpr std::string_view kBegin = "rank-";
  std::int32_t rank = -1;
  if (!name.starts_with(kBegin)) return -1;
  name.remove_prefix(kBegin.size());
  const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), rank);
  return failed == std::errc() && end == name.data() + name.size() ? rank : -1;
}

/// Return the paths by rank. A link in the folder's place is not followed.
std::map<std::int32_t, std::string> records_in(FileSystem& files, const std::string& folder) {
  std::map<std::int32_t, std::string> paths;
  const auto status = files.status(folder);
  if (!status || status->kind != FileKind::Folder) return paths;
  const auto listed = files.list(folder);
  if (!listed) return paths;
  for (const FolderEntry& entry : *listed)
    if (const std::int32_t rank = rank_in(entry.name); rank >= 0 && paths.size() < kRanksMax)
      paths.emplace(rank, join_path(folder, entry.name));
  return paths;
}

}  // namespace

void remove_flight_records(const std::string& folder) {
  PosixFileSystem files;
  for (const auto& [rank, path] : records_in(files, folder)) (void)files.remove_file(path);
}

std::string flight_records_text(const std::string& folder, TimePoint until) {
  PosixFileSystem files;
  const auto paths = records_in(files, folder);
  const std::size_t calls_max =
      std::clamp<std::size_t>(kCallsMax / std::max<std::size_t>(paths.size(), 1), 64, 4096);
  std::map<std::int32_t, FlightRecord> ranks;
  std::string unread;
  for (const auto& [rank, path] : paths) {
    if (std::chrono::steady_clock::now() >= until) {
      unread +=
          fmt::format("of {} flight records, there was time for {}\n", paths.size(), ranks.size());
      break;
    }
    const auto bytes = read_small_file(files, path, kPickleBytesMax);
    auto record = bytes ? read_flight_record(*bytes, calls_max) : bytes.error();
    if (record)
      ranks[rank] = std::move(*record);
    else if (unread.empty())
      unread = fmt::format("the flight record of rank {} cannot be read: {}\n", rank,
                           record.error().describe());
  }
  std::string lines;
  for (const std::string& line : compare_flight_records(ranks))
    lines += terminal_safe(redacted(line)) + "\n";
  return lines + unread;
}

}  // namespace train
