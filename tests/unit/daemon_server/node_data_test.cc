#include "daemon/server/node_data.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <vector>

#include "lib/storage/own_folder.h"
#include "tests/fakes/eventually.h"

namespace train {
namespace {

namespace fs = std::filesystem;

class NodeDataTest : public testing::Test {
 protected:
  NodeDataTest() {
    char name[] = "/tmp/node_data.XXXXXX";
    root_ = ::mkdtemp(name);
  }
  ~NodeDataTest() override { fs::remove_all(root_); }
  void make(const std::string& run_id) const {
    ASSERT_TRUE(make_own_folder(root_ / run_id));
    make_unmarked(run_id);
  }
  void make_unmarked(const std::string& run_id) const {
    fs::create_directories(root_ / run_id / "checkpoints/checkpoint_000001");
    std::ofstream(root_ / run_id / "checkpoints/checkpoint_000001/a") << "a";
  }
  void make_older_than_a_week(const std::string& run_id) const {
    const timespec times[2] = {{1000, 0}, {1000, 0}};
    ::utimensat(AT_FDCWD, (root_ / run_id / "checkpoints").c_str(), times, 0);
  }
  bool is_there(const std::string& run_id) const { return fs::exists(root_ / run_id); }

  fs::path root_;
  std::mutex mutex_;
  std::vector<std::string> said_;
  const NodeData::Say say_ = [this](const std::string& what, const std::string& folder) {
    const std::lock_guard lock(mutex_);
    said_.push_back(folder + ": " + what);
  };
  boost::asio::io_context context_;
  boost::asio::any_io_executor executor_ = context_.get_executor();
};

TEST_F(NodeDataTest, NamesNoFolderOutside) {
  const NodeData data(executor_, root_, {}, say_);

  EXPECT_EQ(data.folder_of("vit-0123456789ab"), root_.string() + "/vit-0123456789ab");
  for (const char* bad : {"", ".", "..", "../x", "a/b", ".trash-1", "a b", "a\nb"})
    EXPECT_EQ(data.folder_of(bad), std::nullopt) << bad;
}

TEST_F(NodeDataTest, RemovesWhatAnEndedRunLeftOnceNobodyLivesThere) {
  make("r1");
  make("r2");
  {
    NodeData data(executor_, root_, {}, say_);
    data.run_ended("r1");

    data.remove_leftovers({"r1"});
    EXPECT_TRUE(is_there("r1"));
    data.remove_leftovers({});
    EXPECT_FALSE(is_there("r1"));
  }
  EXPECT_TRUE(is_there("r2"));
}

TEST_F(NodeDataTest, KeepsWhatARunThatBeganAgainLeft) {
  make("r1");
  NodeData data(executor_, root_, {}, say_);
  data.run_ended("r1");

  data.run_began("r1");
  data.remove_leftovers({});

  EXPECT_TRUE(is_there("r1"));
}

TEST_F(NodeDataTest, RemovesWhatNobodyCameBackTo) {
  make("old");
  make("new");
  make_older_than_a_week("old");
  make(".trash-1-1");
  fs::create_directories(root_ / "not ours");
  NodeData data(executor_, root_, {}, say_);

  data.remove_old_leftovers();

  EXPECT_FALSE(is_there("old"));
  EXPECT_TRUE(is_there("new"));
  EXPECT_TRUE(is_there("not ours"));
  EXPECT_FALSE(is_there(".trash-1-1"));
  EXPECT_EQ(
      said_,
      (std::vector<std::string>{
          root_.string() + "/.trash-1-1: removing data on this node: an earlier traind "
                           "was removing it",
          root_.string() + "/old: removing data on this node: it has been unused for a week"}));
}

TEST_F(NodeDataTest, KeepsCodeThatIsInUseHoweverOldItIs) {
  const auto make_code = [this](const std::string& run_id) {
    ASSERT_TRUE(make_own_folder(root_ / run_id));
    fs::create_directories(root_ / run_id / "code/0123");
    const timespec times[2] = {{1000, 0}, {1000, 0}};
    ::utimensat(AT_FDCWD, (root_ / run_id / "code").c_str(), times, 0);
  };
  make_code("used");
  make_code("old");
  make_code("restored");
  fs::create_directories(root_ / "restored/checkpoints");  // today
  const int held = ::open((root_ / "used/code").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(::flock(held, LOCK_SH), 0);
  {
    NodeData data(executor_, root_, {}, say_);
    data.remove_old_leftovers();
  }
  EXPECT_TRUE(is_there("used"));
  EXPECT_FALSE(is_there("old"));
  EXPECT_TRUE(is_there("restored"));

  ::close(held);
  NodeData data(executor_, root_, {}, say_);
  data.remove_old_leftovers();
  EXPECT_FALSE(is_there("used"));
}

TEST_F(NodeDataTest, RemovesNothingThatItDidNotMake) {
  make_unmarked("thesis");
  make_older_than_a_week("thesis");
  make_unmarked(".trash-of-mine");
  make_unmarked("r1");
  fs::create_directories(root_ / "elsewhere/checkpoints");
  make_older_than_a_week("elsewhere");
  ASSERT_TRUE(make_own_folder(root_ / "target"));
  fs::create_directory_symlink("target", root_ / "link");
  {
    NodeData data(executor_, root_, {}, say_);
    data.remove_old_leftovers();
    data.run_ended("r1");
    data.run_ended("link");
    data.run_ended("never there");
    data.remove_leftovers({});
  }

  for (const char* name : {"thesis", ".trash-of-mine", "r1", "elsewhere", "target", "link"})
    EXPECT_TRUE(is_there(name)) << name;
  EXPECT_TRUE(fs::exists(root_ / "thesis/checkpoints/checkpoint_000001/a"));
  EXPECT_EQ(said_.size(), 2u);  // about r1 and the link
}

TEST_F(NodeDataTest, WhatIsMadeAgainWhileItIsRemovedStays) {
  make("spool");
  std::atomic<int> gone = 0;
  {
    NodeData data(executor_, root_ / "data", {}, say_);
    data.remove_later(root_ / "spool", [&] { ++gone; });
    EXPECT_FALSE(is_there("spool"));
    make("spool");

    EXPECT_TRUE(fakes::eventually([&] { return gone == 1; }));
    EXPECT_TRUE(fs::exists(root_ / "spool/checkpoints/checkpoint_000001/a"));
    EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 1);

    // an earlier traind died while it removed the folder
    fs::rename(root_ / "spool", root_ / "spool.removing");
    data.remove_later(root_ / "spool", [&] { ++gone; });
    EXPECT_TRUE(fakes::eventually([&] { return gone == 2; }));
  }
  EXPECT_TRUE(fs::is_empty(root_));
  EXPECT_TRUE(said_.empty());
}

TEST_F(NodeDataTest, HandsOutShardsThatARunKeepsAndNothingElse) {
  NodeData data(executor_, root_, {}, say_);
  const fs::path shard = root_ / "r1/checkpoints/data-1-0.2/rank-0003";
  fs::create_directories(shard);
  std::ofstream(shard / "state.bin") << "hello";
  std::ofstream(root_ / "r1/checkpoints/data-1-0.2/other") << "secret";
  const auto read = [&](const std::string& run, const std::string& folder,
                        const std::string& path) {
    FileBytes answer;
    bool answered = false;
    ReadFile request{.id = 1, .folder = folder, .path = path};
    request.bytes = 100;
    data.serve(run, request, [&](const FileBytes& said) {
      answer = said;
      answered = true;
    });
    auto work = boost::asio::make_work_guard(context_);
    context_.restart();
    while (!answered) context_.run_one();
    return answer;
  };

  EXPECT_EQ(read("r1", "data-1-0.2/rank-0003", "state.bin").data, "hello");
  EXPECT_EQ(read("r1", "data-1-0.2/rank-0003", "none").error_code, "not_found");
  EXPECT_EQ(read("r2", "data-1-0.2/rank-0003", "state.bin").error_code, "not_found");
  for (const auto& [run, folder, path] :
       std::vector<std::array<std::string, 3>>{{"r1", "data-1-0.2", "other"},
                                               {"r1", "data-1-0.2/rank-0003", "../other"},
                                               {"r1", "data-1-0.2/..", "other"},
                                               {"..", "data-1-0.2/rank-0003", "state.bin"},
                                               {"r1", "checkpoint_000001", "a"}}) {
    const FileBytes answer = read(run, folder, path);
    EXPECT_EQ(answer.error_code, "invalid_argument") << run << " " << folder << " " << path;
    EXPECT_EQ(answer.data, "");
  }
}

// Tests the folder of a --run-as user: nothing that the user puts there makes traind use root's
// privileges.
class UsersNodeData : public NodeDataTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "acting as another user needs root";
    user_ = find_account("nobody").value();
    ::chmod(root_.c_str(), 0711);
    own_ = root_ / "user-65534";
    fs::create_directory(own_);
    ASSERT_EQ(::chown(own_.c_str(), user_.uid, user_.gid), 0);
    std::ofstream(root_ / "shadow") << "root's secret";
    ::chmod((root_ / "shadow").c_str(), 0600);
  }
  /// Make a run's folder as that user's supervisor does; then let the user change it.
  void make_theirs(const std::string& run_id, const std::function<void(const fs::path&)>& then) {
    const ActAs himself(user_);
    ASSERT_TRUE(make_own_folder(own_ / run_id));
    fs::create_directories(own_ / run_id / "checkpoints/data-1-0.2/rank-0000");
    then(own_ / run_id / "checkpoints/data-1-0.2/rank-0000");
  }
  FileBytes read(NodeData& data, const std::string& run_id, const std::string& path) {
    FileBytes answer;
    bool answered = false;
    ReadFile request;
    request.folder = "data-1-0.2/rank-0000";
    request.path = path;
    request.bytes = 100;
    data.serve(run_id, request, [&](const FileBytes& bytes) {
      answer = bytes;
      answered = true;
    });
    while (!answered) {
      context_.restart();
      context_.run_for(std::chrono::milliseconds(10));
    }
    return answer;
  }

  UserAccount user_;
  fs::path own_;
};

TEST_F(UsersNodeData, ReadsForOthersWhatTheOwnerCouldRead) {
  make_theirs("r1", [&](const fs::path& shard) { std::ofstream(shard / "weights") << "theirs"; });
  // If the system lets everybody make a hard link to a file of root, traind cannot recognize it.
  fs::create_hard_link(root_ / "shadow", own_ / "r1/checkpoints/data-1-0.2/rank-0000/more");
  NodeData data(executor_, own_, user_, say_);

  EXPECT_EQ(read(data, "r1", "weights").data, "theirs");
  const FileBytes refused = read(data, "r1", "more");
  EXPECT_EQ(refused.data, "");
  EXPECT_EQ(refused.error_code, "permission") << refused.error;
}

TEST_F(UsersNodeData, RemovesWhatTheOwnerCouldRemove) {
  make_theirs("r1", [](const fs::path&) {});
  // a folder of root, marked as ours, with a name that the user may choose
  ASSERT_TRUE(make_own_folder(own_ / "r2"));
  std::ofstream(own_ / "r2" / "thesis") << "years of work";
  {
    NodeData data(executor_, own_, user_, say_);
    data.run_ended("r1");
    data.run_ended("r2");
    data.remove_leftovers({});
  }
  EXPECT_FALSE(fs::exists(own_ / "r1"));
  EXPECT_TRUE(fs::exists(own_ / "r2" / "thesis"));
}

}  // namespace
}  // namespace train
