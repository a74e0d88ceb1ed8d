#include "launcher/dashboard/line_reader.h"

#include <algorithm>

namespace train {

bool LineReader::update(const FolderFiles& files, std::uint64_t bytes_max, const Line& line,
                        const std::function<void()>& restarted) {
  constexpr std::size_t kChunkBytes = 1u << 20;
  const auto stamp = files.stamp(name_);
  if (!stamp) return false;
  if (stamp->inode != stamp_.inode || stamp->bytes < offset_) {
    offset_ = 0;
    failed_ = false;
    if (stamp_.inode != 0) restarted();
  }
  if (failed_) return false;
  stamp_ = *stamp;
  std::size_t chunk = kChunkBytes;
  for (std::uint64_t taken = 0; taken < bytes_max && offset_ < stamp->bytes;) {
    const auto read = files.read(name_, offset_, chunk);
    if (!read || read->stamp.inode != stamp_.inode) return false;
    std::string_view rest = read->text;
    for (std::size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
      if (!line(rest.substr(0, end), offset_)) return false;
      offset_ += end + 1;
      taken += end + 1;
      rest.remove_prefix(end + 1);
    }
    if (rest.size() < read->text.size()) {
      chunk = kChunkBytes;
      continue;
    }
    if (read->text.size() < chunk) return false;  // the last line is not complete yet
    if (chunk > line_bytes_max_) {
      failed_ = true;
      return false;
    }
    chunk *= 2;  // the line is longer than what was read
  }
  return offset_ < stamp->bytes;
}

}  // namespace train
