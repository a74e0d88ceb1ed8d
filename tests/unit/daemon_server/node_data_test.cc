#include "daemon/server/node_data.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <fstream>

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
    fs::create_directories(root_ / run_id / "checkpoints/checkpoint_000001");
    std::ofstream(root_ / run_id / "checkpoints/checkpoint_000001/a") << "a";
  }
  void make_older_than_a_week(const std::string& run_id) const {
    const timespec times[2] = {{1000, 0}, {1000, 0}};
    ::utimensat(AT_FDCWD, (root_ / run_id / "checkpoints").c_str(), times, 0);
  }
  bool is_there(const std::string& run_id) const { return fs::exists(root_ / run_id); }

  fs::path root_;
  boost::asio::io_context context_;
  boost::asio::any_io_executor executor_ = context_.get_executor();
};

TEST_F(NodeDataTest, NamesNoFolderOutside) {
  const NodeData data(executor_, root_);

  EXPECT_EQ(data.folder_of("vit-0123456789ab"), root_.string() + "/vit-0123456789ab");
  for (const char* bad : {"", ".", "..", "../x", "a/b", ".trash-1", "a b", "a\nb"})
    EXPECT_EQ(data.folder_of(bad), std::nullopt) << bad;
}

TEST_F(NodeDataTest, RemovesWhatAnEndedRunLeftOnceNobodyLivesThere) {
  make("r1");
  make("r2");
  {
    NodeData data(executor_, root_);
    data.run_ended("r1");

    data.sweep({"r1"});
    EXPECT_TRUE(is_there("r1"));
    data.sweep({});
    EXPECT_FALSE(is_there("r1"));
  }
  EXPECT_TRUE(is_there("r2"));
}

TEST_F(NodeDataTest, KeepsWhatARunThatBeganAgainLeft) {
  make("r1");
  NodeData data(executor_, root_);
  data.run_ended("r1");

  data.run_began("r1");
  data.sweep({});

  EXPECT_TRUE(is_there("r1"));
}

TEST_F(NodeDataTest, RemovesWhatNobodyCameBackTo) {
  make("old");
  make("new");
  make_older_than_a_week("old");
  fs::create_directories(root_ / ".trash-1-1/x");
  fs::create_directories(root_ / "not ours");
  NodeData data(executor_, root_);

  data.sweep_old();

  EXPECT_FALSE(is_there("old"));
  EXPECT_TRUE(is_there("new"));
  EXPECT_TRUE(is_there("not ours"));
  EXPECT_FALSE(is_there(".trash-1-1"));
}

TEST_F(NodeDataTest, HandsOutPartsThatARunKeepsAndNothingElse) {
  NodeData data(executor_, root_);
  const fs::path part = root_ / "r1/checkpoints/data-1-0.2/rank-0003";
  fs::create_directories(part);
  std::ofstream(part / "state.bin") << "hello";
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

}  // namespace
}  // namespace train
