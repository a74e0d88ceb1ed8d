// A journal on a full disk keeps nobody waiting, and catches up once there is free space.
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "launcher/cluster/run/journal_writer.h"
#include "lib/net/scope.h"
#include "tests/fakes/store.h"
#include "tests/unit/launcher_cluster/fakes.h"

namespace train {
namespace {

constexpr const char* kPath = "/run/events.jsonl";

asio::awaitable<void> wait_until_written(JournalWriter* writer, bool* answered) {
  const auto written = co_await writer->written();
  *answered = written.has_value();
}

class JournalWriterDisk : public testing::Test {
 protected:
  JournalWriterDisk() {
    disk_.put("/run/there", "");
    journal_ = std::move(*Journal::open(disk_, kPath));
    EXPECT_TRUE(journal_->take_generation("t", {}));
    writer_.emplace(context_.get_executor(), *journal_, clock_, messages_);
    scope_.spawn("journal", writer_->run());
  }
  ~JournalWriterDisk() override {
    scope_.cancel();
    context_.restart();
    context_.run();
  }
  /// Return whether written() answers.
  bool written() {
    bool answered = false;
    asio::co_spawn(context_, wait_until_written(&*writer_, &answered),
                   [this](const std::exception_ptr&) { context_.stop(); });
    context_.restart();
    context_.run_for(std::chrono::seconds(60));
    return answered;
  }
  std::vector<std::string> remembered() {
    std::vector<std::string> events;
    const auto replay = read_journal(disk_, kPath);
    for (const JournalRecord& record : replay->records) {
      const auto* name = record.event.if_contains("event");
      if (name != nullptr) events.emplace_back(name->as_string());
    }
    return events;
  }

  fakes::MemoryFileSystem disk_;
  SystemClock clock_;
  asio::io_context context_;
  Scope scope_{context_.get_executor()};
  std::unique_ptr<Journal> journal_;
  RecordedMessages messages_;
  std::optional<JournalWriter> writer_;
};
using Events = std::vector<std::string>;

TEST_F(JournalWriterDisk, WhatIsWrittenIsOnDisk) {
  writer_->remember({{"event", "one"}});
  writer_->remember({{"event", "two"}});

  EXPECT_TRUE(written());

  EXPECT_EQ(remembered(), (Events{"generation_taken", "one", "two"}));
  EXPECT_EQ(messages_.warnings, Events{});
}

TEST_F(JournalWriterDisk, AFullDiskKeepsNobodyWaitingAndIsCaughtUpWith) {
  disk_.set_space(0);
  writer_->remember({{"event", "one"}});
  EXPECT_TRUE(written());
  ASSERT_EQ(messages_.warnings.size(), 1u);
  EXPECT_TRUE(messages_.warnings[0].starts_with("the journal cannot be written: "))
      << messages_.warnings[0];
  EXPECT_EQ(remembered(), (Events{"generation_taken"}));

  disk_.set_space(1 << 20);
  writer_->remember({{"event", "two"}});
  EXPECT_TRUE(written());

  EXPECT_EQ(remembered(), (Events{"generation_taken", "one", "two"}));
}

}  // namespace
}  // namespace train
