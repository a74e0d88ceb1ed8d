// Tests the explorer of journal_lives.h: it catches journals with one error, each an error of real
// programs, and accepts the same journal without an error.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cerrno>
#include <iostream>
#include <utility>

#include "tests/unit/lib_storage/journal_lives.h"

namespace train {
namespace {

namespace json = boost::json;

enum class Wrong {
  Nothing,
  TornTailIsKept,         // the next group is written behind it
  TornTailIsCutUnsynced,  // within the same file
  NewFileIsNotSynced,     // before the rename
  NameIsNotSynced,        // when the journal is opened
  ReplacedInPlace,        // truncated and rewritten, without a second file
  EarlierOwnerIsTrusted,  // goes on in its file, after another sync of file and folder
  AcknowledgedBeforeSync,
  FailedSyncIsRepeated,
  RefusedGroupIsLeft,         // the next group follows it
  RefusedGroupIsCutUnsynced,  // taken back, but not durably
  GenerationIsOfTheLastOwner,
  SequenceBeginsAnew,
};

/// The protocol of FORMAT.md section 4, in short form, with one error.
class MutantJournal final : public JournalOwner {
 public:
  MutantJournal(FileSystem& fs, Wrong wrong) : fs_(fs), wrong_(wrong) {}

  Result<Unit> open() {
    auto read = read_small_file(fs_, kJournalPath, kJournalBytesMax);
    const bool is_new = read.has_error();
    if (is_new && read.error().code != Errc::NotFound) return read.error();
    std::string text = is_new ? "" : *read;
    replayed_ = replay_journal(text);
    if (replayed_.damage && !replayed_.damage->torn_tail)
      return Error{Errc::Corrupt, replayed_.damage->what};
    good_bytes_ = wrong_ == Wrong::TornTailIsKept ? text.size() : replayed_.valid_bytes;
    text.resize(good_bytes_);
    seq_ = wrong_ == Wrong::SequenceBeginsAnew ? 0 : replayed_.last_seq();
    generation_ = replayed_.generation();
    if (is_new) return write_anew("");
    switch (wrong_) {
      case Wrong::ReplacedInPlace: {
        TRY(file_, fs_.open_to_append(kJournalPath));
        TRY_VOID(file_->truncate(0));
        TRY_VOID(file_->write(text));
        return file_->sync();
      }
      case Wrong::TornTailIsKept:
      case Wrong::TornTailIsCutUnsynced:
      case Wrong::EarlierOwnerIsTrusted: {
        TRY(file_, fs_.open_to_append(kJournalPath));
        if (wrong_ != Wrong::TornTailIsKept) TRY_VOID(file_->truncate(good_bytes_));
        if (wrong_ == Wrong::EarlierOwnerIsTrusted) TRY_VOID(file_->sync());
        return fs_.sync_folder("/run");
      }
      default:
        return write_anew(text);
    }
  }

  std::vector<JournalRecord> found() const override { return replayed_.records; }

  Result<Generation> take_generation() override {
    const Generation next =
        wrong_ == Wrong::GenerationIsOfTheLastOwner && generation_ != Generation{}
            ? generation_
            : generation_.next();
    TRY_VOID(write_group({{{"event", kGenerationTaken}}}, next));
    return generation_ = next;
  }
  Result<Unit> append(const std::vector<json::object>& events) override {
    return write_group(events, generation_);
  }

 private:
  Result<Unit> write_anew(std::string_view text) {
    const std::string temporary = "/run/.events.jsonl.tmp";
    (void)fs_.remove_file(temporary);
    TRY(file_, fs_.create(temporary));
    TRY_VOID(file_->write(text));
    if (wrong_ != Wrong::NewFileIsNotSynced) TRY_VOID(file_->sync());
    TRY_VOID(fs_.rename(temporary, kJournalPath));
    if (wrong_ == Wrong::NameIsNotSynced) return Unit{};
    return fs_.sync_folder("/run");
  }

  Result<Unit> write_group(const std::vector<json::object>& events, Generation generation) {
    if (refuses_) return Error{Errc::Io, "an earlier error"};
    std::string lines;
    std::uint64_t seq = seq_;
    for (const json::object& event : events) {
      TRY(const std::string line,
          format_record({++seq, seq_ + 1, generation, kJournalTime, event}));
      lines += line;
    }
    if (auto wrote = file_->write(lines); wrote.has_error()) {
      if (wrong_ == Wrong::RefusedGroupIsCutUnsynced) (void)file_->truncate(good_bytes_);
      refuses_ = wrong_ != Wrong::RefusedGroupIsLeft && wrong_ != Wrong::RefusedGroupIsCutUnsynced;
      return wrote;
    }
    if (wrong_ != Wrong::AcknowledgedBeforeSync) {
      auto synced = file_->sync();
      if (synced.has_error() && wrong_ == Wrong::FailedSyncIsRepeated) synced = file_->sync();
      refuses_ = synced.has_error();
      if (refuses_) return synced;
    }
    seq_ = seq;
    good_bytes_ += lines.size();
    return Unit{};
  }

  FileSystem& fs_;
  Wrong wrong_;
  JournalReplay replayed_;
  std::unique_ptr<WritableFile> file_;
  Generation generation_;
  std::uint64_t seq_ = 0, good_bytes_ = 0;
  bool refuses_ = false;
};

OpenJournal open_mutant(Wrong wrong) {
  return [wrong](FileSystem& fs) -> Result<std::unique_ptr<JournalOwner>> {
    auto journal = std::make_unique<MutantJournal>(fs, wrong);
    TRY_VOID(journal->open());
    return journal;
  };
}

/// Explore until there is a violation.
std::vector<std::string> violations_of(JournalExplorer explorer) {
  explorer.fail_then_cut_power(EIO);
  explorer.cut_power_everywhere();
  explorer.kill_then_cut_power();
  explorer.fail_then_kill_then_cut_power();
  return explorer.violations();
}

std::vector<std::string> violations_of(Wrong wrong) {
  return violations_of(JournalExplorer(open_mutant(wrong), JournalExplorer::Until::FirstViolation));
}

TEST(JournalMutant, WithNothingWrongIsNotCaught) {
  EXPECT_EQ(violations_of(Wrong::Nothing), std::vector<std::string>{});
}

class JournalMutants : public testing::TestWithParam<std::pair<Wrong, const char*>> {};

TEST_P(JournalMutants, AreCaught) {
  const auto violations = violations_of(GetParam().first);
  ASSERT_FALSE(violations.empty());
  std::cout << violations.front() << "\n";
}

INSTANTIATE_TEST_SUITE_P(
    Each, JournalMutants,
    testing::Values(std::pair(Wrong::TornTailIsKept, "TornTailIsKept"),
                    std::pair(Wrong::TornTailIsCutUnsynced, "TornTailIsCutUnsynced"),
                    std::pair(Wrong::NewFileIsNotSynced, "NewFileIsNotSynced"),
                    std::pair(Wrong::NameIsNotSynced, "NameIsNotSynced"),
                    std::pair(Wrong::ReplacedInPlace, "ReplacedInPlace"),
                    std::pair(Wrong::EarlierOwnerIsTrusted, "EarlierOwnerIsTrusted"),
                    std::pair(Wrong::AcknowledgedBeforeSync, "AcknowledgedBeforeSync"),
                    std::pair(Wrong::FailedSyncIsRepeated, "FailedSyncIsRepeated"),
                    std::pair(Wrong::RefusedGroupIsLeft, "RefusedGroupIsLeft"),
                    std::pair(Wrong::RefusedGroupIsCutUnsynced, "RefusedGroupIsCutUnsynced"),
                    std::pair(Wrong::GenerationIsOfTheLastOwner, "GenerationIsOfTheLastOwner"),
                    std::pair(Wrong::SequenceBeginsAnew, "SequenceBeginsAnew")),
    [](const auto& info) { return std::string(info.param.second); });

TEST(JournalMutant, OnADiskThatSkipsSyncsOfFilesIsCaught) {
  JournalExplorer explorer(open_right_journal, JournalExplorer::Until::FirstViolation);
  explorer.skip_syncs(/*of_files=*/true, /*of_folders=*/false);
  EXPECT_FALSE(violations_of(std::move(explorer)).empty());
}

TEST(JournalMutant, OnADiskThatSkipsSyncsOfFoldersIsCaught) {
  JournalExplorer explorer(open_right_journal, JournalExplorer::Until::FirstViolation);
  explorer.skip_syncs(/*of_files=*/false, /*of_folders=*/true);
  EXPECT_FALSE(violations_of(std::move(explorer)).empty());
}

}  // namespace
}  // namespace train
