// A core file of a real process is copied into the run's folder; nothing else is.
#include "daemon/supervisor/workers/core_copy.h"

#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "lib/base/text_file.h"
#include "lib/stacks/core_image.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::uint64_t kHoleBytes = 8u << 20;

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string note(std::uint32_t type, std::string data) {
  const Elf64_Nhdr header{
      .n_namesz = 5, .n_descsz = static_cast<Elf64_Word>(data.size()), .n_type = type};
  data.resize((data.size() + 3) / 4 * 4);
  return bytes_of(header) + std::string("CORE\0\0\0\0", 8) + data;
}

/// Return a core file without memory, of a process with this pid.
std::string core_of(pid_t pid) {
  elf_prpsinfo process{};
  process.pr_pid = pid;
  const std::string notes = note(NT_PRPSINFO, bytes_of(process));
  Elf64_Ehdr elf{};
  std::copy_n(ELFMAG, SELFMAG, elf.e_ident);
  elf.e_ident[EI_CLASS] = ELFCLASS64;
  elf.e_type = ET_CORE;
  elf.e_machine = EM_X86_64;
  elf.e_phoff = sizeof elf;
  elf.e_phentsize = sizeof(Elf64_Phdr);
  elf.e_phnum = 1;
  Elf64_Phdr segment{};
  segment.p_type = PT_NOTE;
  segment.p_offset = sizeof elf + sizeof segment;
  segment.p_filesz = notes.size();
  return bytes_of(elf) + bytes_of(segment) + notes;
}

class CoreCopy : public testing::Test {
 protected:
  CoreCopy() {
    char name[] = "/tmp/core-XXXXXX";
    folder_ = ::mkdtemp(name);
    fs::create_directories(folder_ + "/run/attempts/002");
    order_ = {.core = folder_ + "/core",
              .pid = 1234,
              .run_dir = folder_ + "/run",
              .attempt = Attempt{2},
              .rank = Rank{7}};
    std::ofstream(order_.core) << core_of(1234);
  }
  ~CoreCopy() override { fs::remove_all(folder_); }
  std::string why_not() const {
    const auto copied = copy_core(order_);
    return copied ? "it was copied" : copied.error().describe();
  }
  bool nothing_is_left() const {
    const std::string attempts = folder_ + "/run/attempts";
    return !fs::exists(attempts + "/.core-0") &&
           (!fs::exists(attempts + "/002/cores") || fs::is_empty(attempts + "/002/cores"));
  }

  std::string folder_;
  CoreCopyOrder order_;
};

TEST_F(CoreCopy, IsInTheRunsFolderAndTheOriginalStays) {
  const auto copied = copy_core(order_);
  ASSERT_TRUE(copied) << copied.error().describe();
  EXPECT_EQ(*copied, folder_ + "/run/attempts/002/cores/core.rank-0007.1234");
  EXPECT_EQ(read_text(*copied), core_of(1234));
  EXPECT_EQ(read_text(order_.core), core_of(1234));
  struct stat made {};
  ASSERT_EQ(::stat(copied->c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0600u);
}

TEST_F(CoreCopy, HolesStayHoles) {
  fs::resize_file(order_.core, kHoleBytes);
  std::ofstream(order_.core, std::ios::app) << "the end";
  fs::resize_file(order_.core, 2 * kHoleBytes);
  const auto copied = copy_core(order_);
  ASSERT_TRUE(copied) << copied.error().describe();
  struct stat made {};
  ASSERT_EQ(::stat(copied->c_str(), &made), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(made.st_size), 2 * kHoleBytes);
  EXPECT_LT(static_cast<std::uint64_t>(made.st_blocks) * 512, kHoleBytes / 8);
  EXPECT_EQ(read_text(*copied), read_text(order_.core));
}

TEST_F(CoreCopy, ARunHasFourAtMost) {
  for (int rank = 0; rank < kCoresOfRunMax; ++rank) {
    order_.rank = Rank{rank};
    EXPECT_TRUE(copy_core(order_)) << rank;
  }
  fs::create_directories(folder_ + "/run/attempts/003");
  order_.attempt = Attempt{3};
  EXPECT_EQ(why_not(), "the run has 4 core files");
}

TEST_F(CoreCopy, OnlyOfThisProcessAndUserAndNotTooLarge) {
  order_.pid = 1235;
  EXPECT_THAT(why_not(), HasSubstr("is of another process"));
  order_.pid = 1234;

  std::ofstream(order_.core) << "no core file";
  EXPECT_THAT(why_not(), HasSubstr("is of another process"));
  std::ofstream(order_.core) << core_of(1234) << std::string(64 << 10, 'x');
  order_.bytes_max = 32 << 10;
  EXPECT_THAT(why_not(), HasSubstr("is too large"));
  order_.bytes_max = 1 << 30;
  order_.deadline = TimePoint::min();
  EXPECT_THAT(why_not(), HasSubstr("took too long"));
  order_.deadline = TimePoint::max();

  fs::rename(order_.core, folder_ + "/elsewhere");
  fs::create_symlink(folder_ + "/elsewhere", order_.core);
  EXPECT_NE(why_not(), "it was copied") << "it follows a link";
  fs::remove(order_.core);
  ASSERT_EQ(::mkfifo(order_.core.c_str(), 0600), 0);
  EXPECT_THAT(why_not(), HasSubstr("is no file of the worker's user"));
  fs::remove(order_.core);
  if (::geteuid() == 0) {
    std::ofstream(order_.core) << core_of(1234);
    ASSERT_EQ(::chown(order_.core.c_str(), 65534, 65534), 0);
    EXPECT_THAT(why_not(), HasSubstr("is no file of the worker's user"));
  }
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(CoreCopy, NeedsTheRunsFolderHereAndFollowsNoLinkThere) {
  order_.run_dir = "s3://bucket/run";
  EXPECT_EQ(why_not(), "the run's folder is in an object store");
  order_.run_dir = folder_ + "/not here";
  EXPECT_NE(why_not(), "it was copied");
  order_.run_dir = folder_ + "/run";
  fs::create_directory(folder_ + "/elsewhere");
  fs::create_symlink(folder_ + "/elsewhere", folder_ + "/run/attempts/002/cores");
  EXPECT_NE(why_not(), "it was copied");
  EXPECT_TRUE(fs::is_empty(folder_ + "/elsewhere"));
  EXPECT_FALSE(fs::exists(folder_ + "/run/attempts/.core-0"));
}

TEST(CoreImage, OfWhatIsCutOrWrongIsNothing) {
  char name[] = "/tmp/core-image-XXXXXX";
  const int file = ::mkstemp(name);
  ::unlink(name);
  const std::string whole = core_of(1234);
  const auto image_of = [file](const std::string& bytes) {
    EXPECT_EQ(::ftruncate(file, 0), 0);
    EXPECT_EQ(::pwrite(file, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    return read_core_image(file);
  };
  ASSERT_TRUE(image_of(whole));
  EXPECT_EQ(image_of(whole)->pid, 1234);
  for (std::size_t size = 0; size < sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr); ++size)
    EXPECT_FALSE(image_of(whole.substr(0, size))) << size;
  std::string wrong = whole;
  for (std::size_t place = 0; place < whole.size(); ++place) {
    wrong[place] = '\xff';
    (void)image_of(wrong);  // whatever it says, it ends
    wrong[place] = whole[place];
  }
  ::close(file);
}

}  // namespace
}  // namespace train
