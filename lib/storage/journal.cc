#include "lib/storage/journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>

#include "lib/base/check.h"

namespace train {
namespace {

/// Add what the error means for the journal, and what to do about it.
Error with_advice(Error error, const std::string& path, std::string_view doing) {
  const std::string folder = parent_path(path);
  if (error.hint.empty() && error.code == Errc::NoSpace)
    error.hint =
        fmt::format("free some space on the disk of '{}'; the journal then continues", folder);
  if (error.hint.empty() && error.code == Errc::Permission)
    error.hint = fmt::format(
        "make '{}' writable for this user; a failing disk may be mounted read-only (see dmesg). "
        "Records acknowledged so far are kept",
        folder);
  if (error.hint.empty() && error.code == Errc::Io)
    error.hint = fmt::format(
        "is the disk of '{}' failing (see dmesg)? Records acknowledged so far are kept", folder);
  return error.code == Errc::Corrupt ? error : std::move(error).with_context(doing);
}

constexpr int kLooksMax = 20;

}  // namespace

Result<JournalReplay> read_journal(FileSystem& fs, const std::string& path) {
  TRY(const std::string text, read_small_file(fs, path, kJournalBytesMax));
  return replay_journal(text);
}

Result<std::unique_ptr<Journal>> Journal::open(FileSystem& fs, std::string path,
                                               JournalLimits limits, JournalCopy copy) {
  std::unique_ptr<Journal> journal(new Journal(fs, std::move(path), limits, std::move(copy)));
  if (auto loaded = journal->load(); loaded.has_error())
    return with_advice(std::move(loaded).error(), journal->path_,
                       "the journal cannot be opened for writing");
  return journal;
}

// An owner from whom the run is taken by force may write a last group while we copy the file: look
// again.
Result<Unit> Journal::load() {
  for (int looks = 1;; ++looks) {
    auto loaded = load_once();
    const bool changed = loaded.has_error() && loaded.error().code == Errc::Fenced;
    if (!changed || looks == kLooksMax) return loaded;
  }
}

Result<Unit> Journal::load_once() {
  const auto status = fs_.status(path_);
  if (status.has_error() && status.error().code != Errc::NotFound) return status.error();
  std::string text;
  if (!status.has_error()) {
    inode_ = status->inode;
    TRY(text, read_small_file(fs_, path_, limits_.bytes_max));
    replayed_ = replay_journal(text);
  }
  if (replayed_.damage && !replayed_.damage->torn_tail)
    return Error{Errc::Corrupt,
                 fmt::format("'{}' is damaged at line {} (byte {}): {}; {} records before it are "
                             "intact, but later ones were acknowledged",
                             path_, replayed_.damage->line, replayed_.damage->offset,
                             replayed_.damage->what, replayed_.records.size()),
                 "restore the file from a backup, or start a new run from this one's newest "
                 "checkpoint with resume_from_checkpoint"};
  generation_ = replayed_.generation();
  last_seq_ = replayed_.last_seq();
  good_bytes_ = replayed_.valid_bytes;
  if (status.has_error()) return Unit{};  // the first record creates it
  // Always write a new file. Nobody can tell whether the earlier owner's last sync of the old file
  // failed, or whether that owner was killed before it synced the file's name; our own sync would
  // succeed in any case.
  return write_anew(std::string_view(text).substr(0, good_bytes_), text.size());
}

Result<Generation> Journal::take_generation(const std::string& time,
                                            const boost::json::object& about, Generation after) {
  TRAIN_CHECK(!generation_taken_, "an incarnation takes one generation");
  boost::json::object event = {{"event", kGenerationTaken}};
  for (const auto& member : about) event[member.key()] = member.value();
  const Generation taken = std::max(generation_, after).next();
  TRY_VOID(append_group({event}, time, taken));
  generation_ = taken;
  generation_taken_ = true;
  return generation_;
}

Result<Unit> Journal::append(const std::vector<boost::json::object>& events,
                             const std::string& time) {
  TRAIN_CHECK(generation_taken_, "an incarnation takes its generation before it writes");
  if (events.empty()) return Unit{};
  for (const boost::json::object& event : events)
    if (const auto* name = event.if_contains("event");
        name != nullptr && *name == boost::json::value(kGenerationTaken))
      return Error{Errc::InvalidArgument,
                   fmt::format("journal: '{}' is the journal's own event", kGenerationTaken)};
  return append_group(events, time, generation_);
}

Result<Unit> Journal::append_group(const std::vector<boost::json::object>& events,
                                   const std::string& time, Generation generation) {
  const std::uint64_t group = last_seq_ + 1;
  std::uint64_t seq = last_seq_;
  std::string lines;
  for (const boost::json::object& event : events) {
    TRY(const std::string line, format_record({.seq = ++seq,
                                               .group = group,
                                               .generation = generation,
                                               .time = time,
                                               .event = event}));
    lines += line;
  }
  if (good_bytes_ + lines.size() > limits_.bytes_max)
    return Error{Errc::ResourceExhausted,
                 fmt::format("'{}' has {} bytes, and {} more would be over its limit of {}", path_,
                             good_bytes_, lines.size(), limits_.bytes_max),
                 "start a new run from this one's newest checkpoint with resume_from_checkpoint"};
  auto written = write_group(lines);
  if (!written.has_error()) written = copy_group(lines);
  if (written.has_error())
    return with_advice(std::move(written).error(), path_,
                       fmt::format("records {} to {} are not in the journal", group, seq));
  last_seq_ = seq;
  good_bytes_ += lines.size();
  return Unit{};
}

Result<Unit> Journal::write_group(std::string_view lines) {
  if (inode_ == 0) return write_anew(lines, std::nullopt);
  if (end_in_doubt_) return write_anew_with(lines);
  if (auto wrote = file_->write(lines); wrote.has_error()) {
    // The disk is full. Remove what was written before another group follows: otherwise it could be
    // read as the end of that group.
    end_in_doubt_ = file_->truncate(good_bytes_).has_error() || file_->sync().has_error();
    return wrote;
  }
  // Never sync the same file again: Linux may have dropped the pages (FORMAT.md section 2).
  if (file_->sync().has_error()) return write_anew_with(lines);
  auto ours = check_name(std::nullopt);
  end_in_doubt_ = ours.has_error();
  return ours;
}

/// Put the group into the copy. If that fails, the group does not count although this file has it:
/// the next group goes to a new file, without it.
Result<Unit> Journal::copy_group(std::string_view lines) {
  if (!copy_) return Unit{};
  auto copied = copy_(lines, [&]() -> Result<std::string> {
    TRY(std::string text, read_small_file(fs_, path_, limits_.bytes_max));
    text.resize(std::min<std::size_t>(text.size(), good_bytes_ + lines.size()));
    return text;
  });
  end_in_doubt_ = copied.has_error();
  return copied;
}

Result<Unit> Journal::write_anew_with(std::string_view lines) {
  end_in_doubt_ = true;
  TRY_VOID(check_name(std::nullopt));
  TRY(std::string text, read_small_file(fs_, path_, limits_.bytes_max));
  text.resize(std::min<std::size_t>(text.size(), good_bytes_));
  const JournalReplay again = replay_journal(text);
  if (text.size() != good_bytes_ || again.damage || again.last_seq() != last_seq_)
    return Error{Errc::Corrupt,
                 fmt::format("'{}' no longer holds its {} acknowledged bytes", path_, good_bytes_)};
  return write_anew(text.append(lines), std::nullopt);
}

Result<Unit> Journal::write_anew(std::string_view text, std::optional<std::uint64_t> bytes_before) {
  end_in_doubt_ = true;
  const std::string temporary =
      join_path(parent_path(path_), fmt::format(".{}.tmp", path_.substr(path_.rfind('/') + 1)));
  auto replaced = replace_by(temporary, text, bytes_before);
  // On a full disk the temporary file would take up space.
  if (replaced.has_error()) (void)fs_.remove_file(temporary);
  return replaced;
}

Result<Unit> Journal::replace_by(const std::string& temporary, std::string_view text,
                                 std::optional<std::uint64_t> bytes_before) {
  {
    auto file = fs_.create(temporary);
    if (file.has_error() && file.error().code == Errc::AlreadyExists) {
      // A killed owner left this file, which never got the final name.
      TRY_VOID(fs_.remove_file(temporary));
      file = fs_.create(temporary);
    }
    if (file.has_error()) return file.error();
    TRY_VOID((*file)->write(text));
    TRY_VOID((*file)->sync());
  }
  TRY(const FileStatus status, fs_.status(temporary));
  TRY_VOID(check_name(bytes_before));
  TRY_VOID(fs_.rename(temporary, path_));
  inode_ = status.inode;
  TRY(file_, fs_.open_to_append(path_));
  TRY_VOID(check_name(std::nullopt));  // else we may have opened another owner's file
  TRY_VOID(fs_.sync_folder(parent_path(path_)));
  end_in_doubt_ = false;
  return Unit{};
}

/// Check that the name still belongs to our file, and, if `bytes` is given, that the file has this
/// size.
Result<Unit> Journal::check_name(std::optional<std::uint64_t> bytes) const {
  const auto status = fs_.status(path_);
  const bool is_there = !status.has_error();
  if (!is_there && status.error().code != Errc::NotFound) return status.error();
  if (!is_there && inode_ == 0) return Unit{};
  std::string_view what = "removed";
  if (is_there && status->inode == inode_) {
    if (!bytes || status->bytes == *bytes) return Unit{};
    what = "written";
  } else if (is_there) {
    what = inode_ == 0 ? "created" : "replaced";
  }
  return Error{Errc::Fenced, fmt::format("'{}' was {} meanwhile by another process", path_, what),
               "only the run's owner may write it; `train-run status` shows who that is"};
}

}  // namespace train
