#include "daemon/server/controller_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>

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

}  // namespace
}  // namespace train
