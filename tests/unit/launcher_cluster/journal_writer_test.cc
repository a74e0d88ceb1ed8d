#include "launcher/cluster/run/journal_writer.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "lib/net/scope.h"
#include "lib/storage/posix_file_system.h"
#include "tests/unit/launcher_cluster/fakes.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

class JournalWriterTest : public testing::Test {
 protected:
  JournalWriterTest() : scope_(io_.get_executor()) {
    auto journal = Journal::open(files_, path_);
    EXPECT_TRUE(journal);
    journal_ = std::move(*journal);
    EXPECT_TRUE(journal_->take_generation("2026-11-22T00:00:00Z", {}));
    writer_.emplace(io_.get_executor(), *journal_, clock_, messages_);
    scope_.spawn("journal", writer_->run());
  }
  ~JournalWriterTest() override {
    scope_.cancel();
    run_until([this] { return scope_.size() == 0; });
  }

  void run_until(const std::function<bool()>& done) {
    const TimePoint limit = clock_.now() + seconds(20);
    while (!done() && clock_.now() < limit) {
      io_.restart();
      io_.run_one_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(done());
  }
  static asio::awaitable<void> wait(JournalWriter* writer, bool* written) {
    const auto result = co_await writer->written();
    *written = result.has_value();
  }
  void write() {
    bool written = false;
    scope_.spawn("wait", wait(&*writer_, &written));
    run_until([&] { return written; });
  }
  std::vector<std::string> events() {
    const auto replay = read_journal(files_, path_);
    EXPECT_TRUE(replay && !replay->damage);
    std::vector<std::string> names;
    for (const JournalRecord& record : replay->records)
      names.emplace_back(record.event.at("event").as_string());
    return names;
  }

  TempFolder temp_;
  PosixFileSystem files_;
  std::string path_ = temp_.path() + "/events.jsonl";
  SystemClock clock_;
  boost::asio::io_context io_;
  Scope scope_;
  std::unique_ptr<Journal> journal_;
  RecordedMessages messages_;
  std::optional<JournalWriter> writer_;
};

/// The writer once put such an event back forever, and journaled nothing more.
TEST_F(JournalWriterTest, LeavesOutAnEventThatNoJournalTakesAndGoesOn) {
  writer_->remember({{"event", "first"}});
  writer_->remember({{"event", "long"}, {"cause", std::string(1'200'000, 'x')}});
  writer_->remember({{"event", "bytes"}, {"cause", "\xff"}});
  writer_->remember({{"event", "last"}});
  write();

  EXPECT_EQ(events(), (std::vector<std::string>{"generation_taken", "first", "last"}));
  ASSERT_EQ(messages_.warnings.size(), 2u);
  EXPECT_TRUE(messages_.warnings[0].starts_with(
      "an event was not written to the journal: journal: a record of 12001"))
      << messages_.warnings[0];
}

TEST_F(JournalWriterTest, TakesTheLargestEventWhateverItsPlace) {
  std::string text((1 << 20) - 300, 'x');
  while (check_event({{"event", "large"}, {"cause", text}})) text += 'x';
  text.pop_back();
  writer_->remember({{"event", "large"}, {"cause", text}});
  write();

  EXPECT_EQ(events(), (std::vector<std::string>{"generation_taken", "large"}));
  EXPECT_TRUE(messages_.warnings.empty());
}

// The end of a run that another launcher had taken over once waited ten minutes for it.
TEST_F(JournalWriterTest, KeepsNobodyWaitingForAJournalThatIsAnothersByNow) {
  writer_->remember({{"event", "first"}});
  write();
  auto other = Journal::open(files_, path_);
  ASSERT_TRUE(other && (*other)->take_generation("2026-11-22T00:00:01Z", {}));

  writer_->remember({{"event", "second"}});
  write();
  writer_->remember({{"event", "run_ended"}});
  write();

  EXPECT_EQ(events(), (std::vector<std::string>{"generation_taken", "first", "generation_taken"}));
  ASSERT_EQ(messages_.warnings.size(), 1u);
  EXPECT_TRUE(messages_.warnings[0].ends_with("; another train-run has taken this run over"))
      << messages_.warnings[0];
}

}  // namespace
}  // namespace train
