#include "daemon/server/controller_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <vector>

namespace train {
namespace {

class SetClock : public Clock {
 public:
  TimePoint now() const override { return now_; }
  std::chrono::system_clock::time_point wall() const override { return {}; }
  void advance(Duration by) { now_ += by; }

 private:
  TimePoint now_{seconds(1000)};
};

class ControllerWatchTest : public testing::Test {
 protected:
  ControllerWatchTest() {
    char name[] = "/tmp/watch-XXXXXX";
    dir_ = ::mkdtemp(name);
  }
  ~ControllerWatchTest() override {
    scope_.cancel();
    context_.restart();
    context_.run_for(seconds(5));
    std::filesystem::remove_all(dir_);
  }

  std::string dir_;
  asio::io_context context_;
  Scope scope_{context_.get_executor()};
  SetClock clock_;
};

// Its predecessor's long life is not the life of one that could not be started: the next attempt
// would follow without a pause, and so on for ever.
TEST_F(ControllerWatchTest, PausesBetweenAttemptsToStartOneThatCannotBeStarted) {
  const ControllerFiles files = controller_files(dir_, "1");
  DetachedNote note;
  note.request.run_dir = dir_;
  note.request.argv = note.request.resume_argv = {"true"};
  ASSERT_TRUE(write_note(files.note, note));
  std::filesystem::create_directory(files.log);  // so that it cannot be opened
  ControllerWatch watch(
      context_.get_executor(), scope_, clock_, dir_, Log(),
      [](uid_t) -> Result<UserAccount> {
        return Error{Errc::Permission, ""};
      },
      [] {});
  watch.resume_all();
  context_.run_for(milliseconds(100));
  ::alarm(60);  // the program of the test would never end

  clock_.advance(seconds(60));
  context_.restart();
  context_.run_for(milliseconds(1500));

  ::alarm(0);
  EXPECT_FALSE(watch.empty());
}

/// A process in place of a controller on another node.
class TakeOver : public ControllerWatchTest {
 protected:
  /// Start a shell that runs `first` and is replaced by one that runs `again`, and wait until
  /// `enough` holds.
  void run(const std::string& first, const std::string& again,
           const std::function<bool()>& enough) {
    DetachController request;
    request.argv = {"/bin/sh", "-c", first};
    request.resume_argv = {"/bin/sh", "-c", again};
    request.env = {{"PATH", "/usr/bin:/bin"}};
    request.run_dir = dir_;
    ASSERT_TRUE(watch_.take_over(std::move(request), {},
                                 [this](const ControllerEnd& end) { ends_.push_back(end); }));
    ::alarm(60);  // the program of the test would never end
    while (!enough()) {
      context_.restart();
      context_.run_for(milliseconds(5));
    }
    ::alarm(0);
  }
  bool made(const std::string& file) const { return std::filesystem::exists(dir_ + "/" + file); }

  std::vector<ControllerEnd> ends_;
  ControllerWatch watch_{context_.get_executor(),
                         scope_,
                         clock_,
                         dir_,
                         Log(),
                         [](uid_t) -> Result<UserAccount> {
                           return Error{Errc::Permission, ""};
                         },
                         [] {}};
};

TEST_F(TakeOver, OneThatDiesBeforeItOwnsTheRunIsNotStartedAgain) {
  run("echo looking; kill -9 $$", "touch '" + dir_ + "/again'", [&] { return !ends_.empty(); });
  EXPECT_EQ(ends_[0].how, ControllerEnd::How::Killed);
  EXPECT_FALSE(made("again"));
  EXPECT_TRUE(watch_.empty());
}

// It prints to the run's log from then on.
TEST_F(TakeOver, OneThatDiesWhileItOwnsTheRunIsStartedAgain) {
  run("exec >/dev/null 2>&1; while [ ! -e '" + dir_ + "/go' ]; do sleep 0.01; done; kill -9 $$",
      "touch '" + dir_ + "/again'", [&] {
        bool owns = false;
        for (const std::string& tag : list_controller_tags(dir_)) {
          const auto note = read_note(controller_files(dir_, tag).note);
          owns |= note && note->takeover == DetachedNote::Takeover::Done;
        }
        if (owns) std::ofstream(dir_ + "/go") << "go";
        return !ends_.empty();
      });
  EXPECT_TRUE(made("again"));
  EXPECT_EQ(ends_[0].exit_code, 0);
}

TEST_F(TakeOver, TheEndOfItsRunIsNoDeath) {
  std::ofstream(dir_ + "/exit.json") << "{}";
  run("exec >/dev/null 2>&1; sleep 0.2; kill -9 $$", "touch '" + dir_ + "/again'",
      [&] { return !ends_.empty(); });
  EXPECT_TRUE(ends_[0].run_ended);
  EXPECT_FALSE(made("again"));
}

TEST_F(TakeOver, ANoteOfAUserWhoMayNotRunControllersIsDropped) {
  for (const auto takeover : {DetachedNote::Takeover::Begun, DetachedNote::Takeover::Done}) {
    DetachedNote note;
    note.takeover = takeover;
    note.uid = 12345;  // whom --run-as does not name
    note.request.resume_argv = {"true"};
    const ControllerFiles files = controller_files(dir_, "1");
    ASSERT_TRUE(write_note(files.note, note));
    const auto read = read_note(files.note);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->takeover, takeover);
    EXPECT_EQ(read->uid, note.uid);
    watch_.resume_all();
    EXPECT_TRUE(watch_.empty());
    EXPECT_FALSE(std::filesystem::exists(files.note));
  }
}

}  // namespace
}  // namespace train
