// A thread stands for LibTorch's: it reads the pipe, and writes the dump.
#include "daemon/supervisor/workers/flight_dumps.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "lib/base/text_file.h"

namespace train {
namespace {

namespace fs = std::filesystem;

class FlightDumps : public ::testing::Test {
 protected:
  FlightDumps() {
    char name[] = "/tmp/flight_dumps_test.XXXXXX";
    folder_ = ::mkdtemp(name);
    fs::create_directories(folder_ / "spool");
    fs::create_directories(folder_ / "attempts/000");
  }
  ~FlightDumps() override { fs::remove_all(folder_); }

  std::string spool() const { return folder_ / "spool"; }
  std::string kept() const { return folder_ / "attempts/000/flight_records"; }
  /// Make a rank's pipe as LibTorch does, and return its end.
  int make_pipe(int rank) const {
    const std::string pipe = flight_variables(spool()).at("TORCH_NCCL_DEBUG_INFO_PIPE_FILE") +
                             std::to_string(rank) + ".pipe";
    EXPECT_EQ(::mkfifo(pipe.c_str(), 0666), 0);
    return ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  }
  std::string dump_of(int rank) const {
    return flight_variables(spool()).at("TORCH_NCCL_DEBUG_INFO_TEMP_FILE") + std::to_string(rank);
  }
  void keep(const std::vector<std::int32_t>& ranks, Duration within = seconds(60)) const {
    keep_flight_dumps(spool(), ranks, kept(), std::chrono::steady_clock::now() + within);
  }

  fs::path folder_;
};

TEST_F(FlightDumps, AreAskedForAndKeptOnceTheyAreComplete) {
  const int pipe = make_pipe(3);
  std::ofstream(dump_of(3)) << "an earlier one.";

  ASSERT_EQ(ask_flight_recorders(spool(), {1, 3}), std::vector<std::int32_t>{3});
  char asked = 0;
  EXPECT_EQ(::read(pipe, &asked, 1), 1);
  std::ofstream dump(dump_of(3));
  dump << "half" << std::flush;
  keep({3}, {});
  EXPECT_FALSE(fs::exists(kept() + "/rank-3"));
  std::thread writer([&] { dump << " and whole." << std::flush; });
  keep({3});
  writer.join();

  EXPECT_EQ(read_text(kept() + "/rank-3"), "half and whole.");
  EXPECT_EQ(std::distance(fs::directory_iterator(kept()), {}), 1);
  ::close(pipe);
}

TEST_F(FlightDumps, NobodyIsAskedWhoHasNoRecorder) {
  EXPECT_TRUE(ask_flight_recorders(spool(), {0, 1}).empty());
  ::close(make_pipe(0));  // its process has ended
  EXPECT_TRUE(ask_flight_recorders(spool(), {0}).empty());
}

// A worker may put anything there.
TEST_F(FlightDumps, OnlyPlainFilesOfABoundedSizeAreKept) {
  std::ofstream(folder_ / "secret") << "of somebody.";
  fs::create_symlink(folder_ / "secret", dump_of(0));
  EXPECT_EQ(::mkfifo(dump_of(1).c_str(), 0666), 0);
  std::ofstream(dump_of(2)) << ".";
  fs::resize_file(dump_of(2), 1u << 30);
  fs::create_directory(dump_of(3));
  keep({0, 1, 2, 3}, {});
  EXPECT_TRUE(fs::is_empty(kept()));
}

TEST_F(FlightDumps, WhatLiesInTheWayOfAKeptDumpIsReplacedAndNotOpened) {
  fs::create_directory(kept());
  EXPECT_EQ(::mkfifo((kept() + "/rank-0.tmp").c_str(), 0666), 0);  // opening it would wait
  std::ofstream(folder_ / "other") << "of somebody";
  fs::create_symlink(folder_ / "other", kept() + "/rank-0");
  std::ofstream(dump_of(0)) << "whole.";
  keep({0}, {});
  EXPECT_EQ(read_text(kept() + "/rank-0"), "whole.");
  EXPECT_FALSE(fs::is_symlink(kept() + "/rank-0"));
  EXPECT_EQ(read_text(folder_ / "other"), "of somebody");
}

TEST_F(FlightDumps, NothingIsKeptThroughALink) {
  fs::create_directory(folder_ / "elsewhere");
  fs::create_directory_symlink(folder_ / "elsewhere", kept());
  std::ofstream(dump_of(0)) << "whole.";
  keep({0}, {});
  EXPECT_TRUE(fs::is_empty(folder_ / "elsewhere"));
}

TEST_F(FlightDumps, NothingIsMadeWhereTheRunsFolderIsNotSeen) {
  std::ofstream(dump_of(0)) << "whole.";
  keep_flight_dumps(spool(), {0}, folder_ / "elsewhere/000/flight_records",
                    std::chrono::steady_clock::now());
  EXPECT_FALSE(fs::exists(folder_ / "elsewhere"));
}

}  // namespace
}  // namespace train
