#include "lib/storage/journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>

#include "lib/base/check.h"

namespace train {

Result<JournalReplay> read_journal(FileSystem& fs, const std::string& path) {
  TRY(const std::string text, read_small_file(fs, path, kJournalBytesMax));
  return replay_journal(text);
}

Journal::Journal(FileSystem& fs, std::string path, JournalReplay replayed)
    : fs_(fs),
      path_(std::move(path)),
      replayed_(std::move(replayed)),
      epoch_(replayed_.epoch()),
      last_seq_(replayed_.last_seq()),
      good_bytes_(replayed_.valid_bytes) {}

Result<std::unique_ptr<Journal>> Journal::open(FileSystem& fs, std::string path, bool anew) {
  auto replay = read_journal(fs, path);
  const bool is_new = replay.has_error() && replay.error().code == Errc::NotFound;
  if (replay.has_error() && !is_new) return replay.error();
  if (is_new) replay = JournalReplay{};
  if (replay->damage && !replay->damage->torn_tail)
    return Error{Errc::Corrupt,
                 fmt::format("'{}' is damaged at line {} (byte {}): {}; {} records before it are "
                             "whole, later ones were acknowledged",
                             path, replay->damage->line, replay->damage->offset,
                             replay->damage->what, replay->records.size()),
                 "restore the file from a backup, or start a new run from this one's newest "
                 "checkpoint with resume_from_checkpoint"};

  std::unique_ptr<Journal> journal(new Journal(fs, std::move(path), std::move(*replay)));
  if (is_new) {
    TRY(journal->file_, fs.create(journal->path_));
    TRY_VOID(journal->file_->sync());
    TRY_VOID(fs.sync_folder(parent_path(journal->path_)));
  } else if (anew) {
    TRY_VOID(journal->rewrite(""));
  } else {
    TRY(journal->file_, fs.open_to_append(journal->path_));
    if (journal->replayed_.damage) TRY_VOID(journal->file_->truncate(journal->good_bytes_));
    // Also without damage: a killed owner may have written the last lines without syncing them.
    if (journal->file_->sync().has_error()) TRY_VOID(journal->rewrite(""));
  }
  return journal;
}

Result<Epoch> Journal::take_epoch(const std::string& time, const boost::json::object& about) {
  TRAIN_CHECK(!epoch_taken_, "an incarnation takes one epoch");
  boost::json::object event = {{"event", kEpochTaken}};
  for (const auto& member : about) event[member.key()] = member.value();
  TRY_VOID(append_group({event}, time, epoch_.next()));
  epoch_ = epoch_.next();
  epoch_taken_ = true;
  return epoch_;
}

Result<Unit> Journal::append(const std::vector<boost::json::object>& events,
                             const std::string& time) {
  TRAIN_CHECK(epoch_taken_, "an incarnation takes its epoch before it writes");
  if (events.empty()) return Unit{};
  for (const boost::json::object& event : events)
    if (const auto* name = event.if_contains("event");
        name != nullptr && *name == boost::json::value(kEpochTaken))
      return Error{Errc::InvalidArgument,
                   fmt::format("journal: '{}' is the journal's own event", kEpochTaken)};
  return append_group(events, time, epoch_);
}

Result<Unit> Journal::append_group(const std::vector<boost::json::object>& events,
                                   const std::string& time, Epoch epoch) {
  if (lost_)
    return Error{
        Errc::Io,
        fmt::format("'{}' could not be brought back to its last good byte ({}) after an error",
                    path_, good_bytes_),
        "start train-run resume: it cuts off the torn tail"};
  const std::uint64_t group = last_seq_ + 1;
  std::uint64_t seq = last_seq_;
  std::string lines;
  for (const boost::json::object& event : events) {
    TRY(const std::string line,
        format_record(
            {.seq = ++seq, .group = group, .epoch = epoch, .time = time, .event = event}));
    lines += line;
  }
  TRY_VOID(write_group(lines));
  last_seq_ = seq;
  good_bytes_ += lines.size();
  return Unit{};
}

Result<Unit> Journal::write_group(std::string_view lines) {
  auto wrote = file_->write(lines);
  if (wrote.has_error()) {
    // A full disk: take back the part that was written, so that the next group follows a whole
    // line.
    lost_ = file_->truncate(good_bytes_).has_error();
    return wrote;
  }
  if (!file_->sync().has_error()) return Unit{};
  // The same file must not be synced again: Linux may have dropped the pages (FORMAT.md section 2).
  auto rewritten = rewrite(lines);
  lost_ = rewritten.has_error();
  return rewritten;
}

Result<Unit> Journal::rewrite(std::string_view more) {
  TRY(std::string text, read_small_file(fs_, path_, kJournalBytesMax));
  text.resize(std::min<std::size_t>(text.size(), good_bytes_));
  const JournalReplay again = replay_journal(text);
  if (text.size() != good_bytes_ || again.damage || again.last_seq() != last_seq_)
    return Error{Errc::Corrupt,
                 fmt::format("'{}' no longer holds its {} acknowledged bytes", path_, good_bytes_)};
  TRY_VOID(write_small_file(fs_, path_, text.append(more)));
  TRY(file_, fs_.open_to_append(path_));
  return Unit{};
}

}  // namespace train
