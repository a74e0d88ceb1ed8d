// A fake NVML (tests/e2e/programs/fake_nvml.cc) plays the GPUs.
#include "daemon/devices/gpu_watch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/fakes/eventually.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using fakes::eventually;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class GpuWatchTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    char name[] = "/tmp/gpu_watch_test.XXXXXX";
    folder_ = ::mkdtemp(name);
    ::setenv("TRAINRUN_FAKE_NVML", (folder_ / "nvml").c_str(), 1);  // before any thread
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }

  static void put(const std::string& settings) {
    std::ofstream(folder_ / "nvml.new") << settings;
    fs::rename(folder_ / "nvml.new", folder_ / "nvml");
  }
  std::vector<GpuSample> newest(Duration later = {}) {
    return watch_->newest(SystemClock().now() + later);
  }
  void watch(const std::vector<std::string>& gpus) {
    watch_.emplace(gpus, FAKE_NVML, milliseconds(20));
    ASSERT_TRUE(eventually([this] { return !newest().empty(); }));
  }
  bool eventually_is(std::size_t gpu, const GpuSample& wanted) {
    return eventually([&] { return newest().at(gpu) == wanted; });
  }

  static fs::path folder_;
  std::optional<GpuWatch> watch_;
};
fs::path GpuWatchTest::folder_;

TEST_F(GpuWatchTest, ReadsWhatEachGpuTellsAndNothingElse) {
  put("gpus 2\n0.use 37\n0.memory 1000\n0.memory_used 400\n0.power_mw 250000\n"
      "0.power_limit_mw 700000\n0.temperature 61\n0.clock 1980\n0.memory_clock 2619\n"
      "0.slowdowns 100\n0.ecc_corrected 3\n0.ecc_uncorrected 1\n1.use unsupported\n");
  watch({"0", "1", "MIG-7"});

  EXPECT_TRUE(eventually_is(0, {.gpu = "0",
                                .name = "Fake GPU",
                                .use_percent = 37,
                                .memory_use_percent = 0,
                                .memory_bytes = 1000,
                                .memory_used_bytes = 400,
                                .power_mw = 250'000,
                                .power_limit_mw = 700'000,
                                .temperature_c = 61,
                                .clock_mhz = 1980,
                                .memory_clock_mhz = 2619,
                                .slowed_by = "power cap, thermal",
                                .ecc_corrected = 3,
                                .ecc_uncorrected = 1}));
  EXPECT_TRUE(eventually_is(1, {.gpu = "1", .name = "Fake GPU"}));
  EXPECT_THAT(newest(), SizeIs(2));
}

TEST_F(GpuWatchTest, SaysThatAGpuIsLostAndFollowsItsReturn) {
  put("gpus 2\n0.use 10\n1.use 20\n1.lost 1\n");
  watch({"0", "1"});
  EXPECT_TRUE(eventually([this] { return newest().at(1).state == "lost"; }));
  EXPECT_EQ(newest().at(1).use_percent, kNotKnown);
  EXPECT_TRUE(eventually([this] { return newest().at(0).use_percent == 10; }));

  put("gpus 2\n0.use 10\n1.use 20\n");
  EXPECT_TRUE(eventually([this] { return newest().at(1).use_percent == 20; }));
  EXPECT_EQ(newest().at(1).state, "ok");
}

TEST_F(GpuWatchTest, DoesNotWaitForAGpuThatDoesNotAnswer) {
  put("gpus 2\n0.use 10\n1.use 20\n");
  watch({"0", "1"});
  ASSERT_TRUE(eventually([this] { return newest().at(1).use_percent == 20; }));

  put("gpus 2\n0.use 10\n1.use 20\n1.hang 1\n");
  ASSERT_TRUE(eventually([this] {
    const auto later = newest(seconds(10));
    return later.at(1).state == "not answering" && later.at(0).state == "unknown";
  }));
  EXPECT_EQ(newest(seconds(10)).at(0).use_percent, kNotKnown);

  put("gpus 2\n0.use 11\n1.use 20\n");
  EXPECT_TRUE(eventually([this] { return newest().at(0).use_percent == 11; }));
}

TEST_F(GpuWatchTest, CountsXids) {
  put("gpus 2\n0.use 10\n1.use 20\n");
  watch({"0", "1"});

  put("gpus 2\n0.use 10\n1.use 20\n1.xid 79\n");
  EXPECT_TRUE(eventually([this] { return newest().at(1).last_xid == 79; }));
  put("gpus 2\n0.use 10\n1.use 20\n1.xid 31\n");
  EXPECT_TRUE(eventually([this] { return newest().at(1).last_xid == 31; }));

  EXPECT_EQ(newest().at(1).xids, 2);
  EXPECT_EQ(newest().at(0).xids, 0);
}

TEST_F(GpuWatchTest, KnowsNothingWithoutGpusOrWithoutTheLibrary) {
  const GpuWatch none({}, FAKE_NVML);
  const GpuWatch instance({"MIG-7"}, FAKE_NVML);
  const GpuWatch no_library({"0"}, "/nowhere/libnvidia-ml.so.1");
  for (const GpuWatch* watch : {&none, &instance, &no_library})
    EXPECT_THAT(watch->newest(SystemClock().now() + seconds(60)), IsEmpty());
}

class ForeignProcesses : public testing::Test {
 protected:
  static std::string owner() { return std::string(" of ") + ::getpwuid(::getuid())->pw_name; }
  ForeignProcesses() {
    char name[] = "/tmp/foreign_test.XXXXXX";
    proc_ = ::mkdtemp(name);
    fs::create_directories(proc_ / "self/ns");
    in_namespace("pid:[4026531836]");
  }
  ~ForeignProcesses() override { fs::remove_all(proc_); }
  void in_namespace(const char* name) {
    fs::remove(proc_ / "self/ns/pid");
    fs::create_symlink(name, proc_ / "self/ns/pid");
  }
  void process(int pid, int parent, const std::string& name, const std::string& arguments) {
    const fs::path folder = proc_ / std::to_string(pid);
    fs::create_directories(folder);
    std::ofstream(folder / "comm") << name << "\n";
    std::ofstream(folder / "cmdline") << arguments;
    std::ofstream(folder / "stat") << pid << " (" << name << ") S " << parent << " 1 1";
  }
  fs::path proc_;
};

TEST_F(ForeignProcesses, AreThoseBelowNoSupervisor) {
  using namespace std::string_literals;
  process(10, 1, "traind", "/proc/self/exe\0supervise\0--run\0"s);
  process(13, 1, "traind", "/usr/bin/traind\0supervise\0--run\0"s);
  process(11, 10, "worker", "worker\0"s);
  process(12, 11, "loader) (", "loader\0"s);
  process(20, 1, "python3", "python3\0traind\0supervise\0"s);
  process(21, 1, "traind", "traind\0serve\0"s);

  EXPECT_EQ(foreign_processes({11, 12, 10, 13}, proc_.string()), "");
  EXPECT_EQ(foreign_processes({12, 20, 21, 999}, proc_.string()),
            fmt::format("pid 20 (python3){0}, pid 21 (traind){0}", owner()));
}

// A worker of a run that ends just now belongs to nobody any more.
TEST_F(ForeignProcesses, AreNotThoseThatEndMeanwhile) {
  process(20, 1, "python3", "python3");
  process(21, 20, "loader", "loader");
  fs::remove(proc_ / "20/stat");

  EXPECT_EQ(foreign_processes({20, 21}, proc_.string()), "");
}

TEST_F(ForeignProcesses, AreNamedUpToALimitAndSafely) {
  for (int pid = 30; pid < 36; ++pid) process(pid, 1, "\x1b[2Jx", "x");

  EXPECT_EQ(foreign_processes({30, 31, 32, 33, 34, 35}, proc_.string()),
            fmt::format("pid 30 (x){0}, pid 31 (x){0}, pid 32 (x){0}, pid 33 (x){0} and 2 more",
                        owner()));
}

TEST_F(ForeignProcesses, AreNotJudgedWhereNumbersMeanOtherProcesses) {
  process(20, 1, "python3", "python3");
  in_namespace("pid:[4026532999]");

  EXPECT_EQ(foreign_processes({20}, proc_.string()), "");
}

}  // namespace
}  // namespace train
