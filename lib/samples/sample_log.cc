#include "lib/samples/sample_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>
#include <vector>

#include "lib/base/write_all.h"
#include "lib/samples/sample_json.h"
#include "lib/samples/sample_lines.h"
#include "lib/samples/sample_thinner.h"

namespace train {
namespace {

constexpr std::uint64_t kCompactBytesMin = 1u << 20;
constexpr std::int64_t kRoundingMs = 500;  // a second that is a little short is a second
constexpr std::array<std::int64_t, 3> kSpansMs{1000, 10'000, 60'000};
constexpr std::size_t kWriteBytes = 1u << 20;
constexpr int kHalvingsMax = 8;

/// What to do with a table and the position of its line.
using Thin = std::function<void(SampleThinner&, SampleTable, std::uint64_t)>;

std::string new_name(const std::string& path) { return path + ".new"; }

Result<FileDescriptor> open_new(const std::string& path) {
  const std::string name = new_name(path);
  ::unlink(name.c_str());  // left by a launcher that died
  FileDescriptor file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.get() < 0) return system_error(errno, "opening " + name);
  return file;
}

/// Give the new file its name, if it was `written`; else remove it.
Result<Unit> put_in_place(const std::string& path, Result<Unit> written) {
  const std::string name = new_name(path);
  if (!written.has_error() && ::rename(name.c_str(), path.c_str()) != 0)
    written = system_error(errno, "renaming " + name);
  if (written.has_error()) ::unlink(name.c_str());
  return written;
}

/// Rewrite the file with what is left after `thin`, and return its size.
Result<std::uint64_t> rewrite(const std::string& path, const Thin& thin) {
  TRY(const FileDescriptor file, open_new(path));
  Result<Unit> written = Unit{};
  std::string text;
  std::uint64_t bytes = 0;
  const auto flush = [&] {
    bytes += text.size();
    if (!written.has_error()) written = write_all(file.get(), text, new_name(path));
    text.clear();
  };
  SampleThinner thinner([&](const SampleTable& table) {
    append_sample_line(text, table);
    if (text.size() >= kWriteBytes) flush();
  });
  const auto read = for_each_line(path, [&](std::string_view line, std::uint64_t begins) {
    auto table = parse_sample_line(line);
    if (table) thin(thinner, std::move(*table), begins);
  });
  thinner.finish();
  flush();
  if (read.has_error()) written = read.error();
  TRY_VOID(put_in_place(path, std::move(written)));
  return bytes;
}

/// Merge the neighbours in the first half of the file.
Result<std::uint64_t> halve_older_half(const std::string& path, std::uint64_t bytes) {
  return rewrite(path, [bytes](SampleThinner& thinner, SampleTable table, std::uint64_t begins) {
    if (begins < bytes / 2)
      thinner.add_pair(std::move(table));
    else
      thinner.add(std::move(table), 0);
  });
}

Result<std::uint64_t> leave_out_older_half(const std::string& path, std::uint64_t bytes) {
  return rewrite(path, [bytes](SampleThinner& thinner, SampleTable table, std::uint64_t begins) {
    if (begins >= bytes / 2) thinner.add(std::move(table), 0);
  });
}

/// Return the time of the last line; 0 if there is none.
Result<std::int64_t> newest_time(const std::string& path) {
  std::int64_t newest = 0;
  TRY_VOID(for_each_line(path, [&newest](std::string_view line, std::uint64_t) {
    if (const auto head = parse_sample_head(line)) newest = head->end_ms;
  }));
  return newest;
}

}  // namespace

Result<Unit> SampleLog::add(SampleTable table) {
  Pending& pending = pending_[static_cast<std::size_t>(table.kind)];
  if (pending.table && pending.table->attempt != table.attempt) TRY_VOID(append(pending));
  if (pending.table) {
    const std::vector<SampleTable> both{std::move(*pending.table), std::move(table)};
    pending.table = merge_samples(both);
  } else {
    pending.table = std::move(table);
  }
  if (pending.table->span_ms + kRoundingMs < pending.span_ms) return Unit{};
  return append(pending);
}

Result<Unit> SampleLog::flush() {
  Result<Unit> flushed = Unit{};
  for (Pending& pending : pending_) {
    if (!pending.table) continue;
    if (auto appended = append(pending); appended.has_error()) flushed = std::move(appended);
  }
  return flushed;
}

Result<Unit> SampleLog::append(Pending& pending) {
  std::string line;
  append_sample_line(line, *pending.table);
  pending.table.reset();
  const auto small_enough = [&line](std::int64_t span_ms) {
    return line.size() <= kSampleBytesPerSecondMax * static_cast<std::size_t>(span_ms / 1000);
  };
  const auto* span = std::find_if(kSpansMs.begin(), kSpansMs.end(), small_enough);
  pending.span_ms = span == kSpansMs.end() ? kSpansMs.back() : *span;
  if (line.size() > kSampleLineBytesMax) return Unit{};  // no reader would take it
  auto written = write(line);
  if (written.has_error()) file_.reset();  // it may end with a part of the line
  return written;
}

Result<Unit> SampleLog::write(const std::string& line) {
  if (file_.get() < 0) TRY_VOID(open());
  if (bytes_ + line.size() > compact_at_) {
    if (const auto compacted = compact(); compacted.has_error()) {
      if (bytes_ + line.size() > bytes_max_) return compacted.error();
      compact_at_ = bytes_max_;
    }
    TRY_VOID(open());
  }
  TRY_VOID(write_all(file_.get(), line, path_));
  bytes_ += line.size();
  return Unit{};
}

Result<Unit> SampleLog::open() {
  // Without waiting: a program of the run may have put a FIFO there.
  file_.reset(::open(path_.c_str(),
                     O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  struct stat status {};
  if (file_.get() < 0 || ::fstat(file_.get(), &status) != 0)
    return system_error(errno, "opening " + path_);
  if (!S_ISREG(status.st_mode)) {
    file_.reset();
    return Error{Errc::Io, path_ + " is not a regular file"};
  }
  bytes_ = static_cast<std::uint64_t>(status.st_size);
  if (compact_at_ == 0) compact_at_ = std::min(std::max(2 * bytes_, kCompactBytesMin), bytes_max_);
  char last = '\n';
  if (bytes_ > 0 && ::pread(file_.get(), &last, 1, static_cast<off_t>(bytes_ - 1)) != 1)
    return system_error(errno, "reading " + path_);
  if (last == '\n') return Unit{};
  ++bytes_;  // a launcher died while it wrote that line, or the disk was full
  return write_all(file_.get(), "\n", path_);
}

Result<Unit> SampleLog::compact() {
  file_.reset();
  TRY(const std::int64_t newest, newest_time(path_));
  TRY(bytes_, rewrite(path_, [newest](SampleThinner& thinner, SampleTable table, std::uint64_t) {
        const std::int64_t span_ms = span_at_age(newest - table.end_ms);
        thinner.add(std::move(table), span_ms);
      }));
  for (int i = 0; i < kHalvingsMax && bytes_ > bytes_max_ / 2; ++i) {
    TRY(bytes_, halve_older_half(path_, bytes_));
  }
  if (bytes_ > bytes_max_ / 4 * 3) {  // of many attempts, which are not merged
    TRY(bytes_, leave_out_older_half(path_, bytes_));
  }
  compact_at_ = std::min(std::max(2 * bytes_, kCompactBytesMin), bytes_max_);
  return Unit{};
}

Result<Unit> replace_unsynced(const std::string& path, const std::string& text) {
  TRY(const FileDescriptor file, open_new(path));
  return put_in_place(path, write_all(file.get(), text, new_name(path)));
}

}  // namespace train
