// Which files a program loads, and how nodes' files are told apart. Checked against what the
// dynamic linker has really loaded, and against small programs made for this.
#include "daemon/supervisor/code/program_digests.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "daemon/supervisor/code/library_search.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/text_file.h"

namespace train {
namespace {

namespace fs = std::filesystem;

std::string own_program() { return fs::read_symlink("/proc/self/exe").string(); }

class ProgramDigests : public testing::Test {
 protected:
  ProgramDigests() {
    std::string pattern = testing::TempDir() + "digestsXXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~ProgramDigests() override { fs::remove_all(folder_); }

  std::string put(const std::string& name, const std::string& text) const {
    const fs::path file = fs::path(folder_) / name;
    std::ofstream(file) << text;
    fs::permissions(file, fs::perms::owner_all);
    return file.string();
  }
  /// Put a program that needs libtrainrun_digest.so beside it.
  void put_program() const { fs::copy_file(DIGEST_PROGRAM, fs::path(folder_) / "program"); }
  void put_library() const {
    fs::copy_file(DIGEST_LIBRARY, fs::path(folder_) / "libtrainrun_digest.so");
  }
  NodeDigests digests(std::vector<std::string> command,
                      const std::string& library_path = "") const {
    return program_digests({.command = std::move(command),
                            .working_dir = folder_,
                            .path = "/usr/bin:/bin",
                            .library_path = library_path},
                           folder_);
  }
  std::string folder_;
};

std::string digest_of_file(const NodeDigests& digests, const std::string& name) {
  const auto found = std::find_if(digests.files.begin(), digests.files.end(),
                                  [&](const FileDigest& file) { return file.name == name; });
  return found == digests.files.end() ? "none" : found->digest;
}

// The sanitizers' runtimes come from elsewhere, but are found like all others.
TEST_F(ProgramDigests, FindsWhatTheLinkerHasLoaded) {
  std::set<std::string> loaded;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find('/');
    if (path != line.npos && line.find(" r-xp ") != line.npos && line.find(".so") != line.npos)
      loaded.insert(fs::canonical(line.substr(path)).string());
  }
  const LoadedFiles found = loaded_files("self", own_program(), library_paths("", "/"), 512);

  std::set<std::string> paths;
  for (const LoadedFile& file : found.files) paths.insert(fs::canonical(file.path).string());
  paths.erase(own_program());
  EXPECT_EQ(paths, loaded);
  EXPECT_TRUE(found.missing.empty());
}

TEST_F(ProgramDigests, NamesALibraryThatIsMissingAndFindsItWhereTheProgramSays) {
  put_program();
  const NodeDigests without = digests({"./program"});
  ASSERT_EQ(without.missing.size(), 1u);
  EXPECT_EQ(without.missing[0].soname, "libtrainrun_digest.so");
  EXPECT_EQ(without.missing[0].needed_by, "./program");

  put_library();
  const NodeDigests with = digests({"./program"});
  EXPECT_TRUE(with.missing.empty());
  EXPECT_NE(digest_of_file(with, "libtrainrun_digest.so"), "none");
  EXPECT_NE(digest_of_file(with, "libc.so.6"), "none");
  EXPECT_EQ(with.files[0].name, "./program");
}

TEST_F(ProgramDigests, LooksInLdLibraryPathAsWell) {
  put_program();
  fs::create_directory(folder_ + "/libs");
  fs::copy_file(DIGEST_LIBRARY, folder_ + "/libs/libtrainrun_digest.so");

  EXPECT_TRUE(digests({"./program"}, "/nowhere:" + folder_ + "/libs").missing.empty());
  EXPECT_TRUE(digests({"./program"}, "libs").missing.empty());  // from the working folder on
}

// As a virtual environment starts python3: the linker takes the folder of the file, not of the
// link.
TEST_F(ProgramDigests, AProgramBehindALinkHasItsLibrariesBesideTheFile) {
  put_program();
  put_library();
  fs::create_directory(folder_ + "/bin");
  fs::create_symlink("../program", folder_ + "/bin/link");

  const NodeDigests found = digests({"bin/link"});

  EXPECT_TRUE(found.missing.empty());
  EXPECT_NE(digest_of_file(found, "libtrainrun_digest.so"), "none");
}

// "LD_LIBRARY_PATH=/x:$LD_LIBRARY_PATH" ends in a colon if there was none before.
TEST_F(ProgramDigests, AnEmptyFolderIsTheWorkingFolder) {
  fs::create_directory(folder_ + "/bin");
  fs::copy_file(DIGEST_PROGRAM, folder_ + "/bin/program");
  put_library();

  EXPECT_EQ(digests({"bin/program"}, "/nowhere").missing.size(), 1u);
  EXPECT_EQ(digests({"bin/program"}, "").missing.size(), 1u);
  for (const char* path : {"/nowhere:", ":/nowhere", "/nowhere::/none"})
    EXPECT_TRUE(digests({"bin/program"}, path).missing.empty()) << path;
}

TEST_F(ProgramDigests, RelativePathsInAProgramCountFromTheWorkingFolder) {
  fs::create_directories(folder_ + "/bin/libs");
  fs::copy_file(DIGEST_RELATIVE_PROGRAM, folder_ + "/bin/program");
  EXPECT_EQ(digests({"bin/program"}).missing.size(), 2u);

  fs::create_directory(folder_ + "/libs");
  fs::copy_file(DIGEST_LIBRARY, folder_ + "/libs/libtrainrun_digest.so");
  fs::copy_file(DIGEST_PATH_LIBRARY, folder_ + "/libs/libtrainrun_by_path.so");
  EXPECT_TRUE(digests({"bin/program"}).missing.empty());
}

TEST_F(ProgramDigests, WithoutPathAProgramIsFoundWhereItWouldBeStarted) {
  const NodeDigests found = program_digests(
      {.command = {"cat"}, .working_dir = folder_, .path = "", .library_path = ""}, folder_);
  EXPECT_NE(digest_of_file(found, "cat"), "none");
}

TEST_F(ProgramDigests, AnotherFileHasAnotherDigestWhereverItLies) {
  put("train.py", "print(1)\n");
  put("same.py", "print(1)\n");
  const std::string one = digest_of_file(digests({"cat", "train.py"}), "train.py");
  EXPECT_EQ(digest_of_file(digests({"cat", "same.py"}), "same.py"), one);
  put("train.py", "print(2)\n");
  EXPECT_NE(digest_of_file(digests({"cat", "train.py"}), "train.py"), one);
  EXPECT_NE(digest_of_file(digests({"cat", "train.py"}), "cat"), "none");
}

TEST_F(ProgramDigests, AScriptCountsWithItsInterpreter) {
  put("script", "#!/usr/bin/env  cat \nx\n");

  const NodeDigests found = digests({"./script", "--flag", "missing.py"});

  std::vector<std::string> names;
  for (const FileDigest& file : found.files) names.push_back(file.name);
  EXPECT_EQ(names[0], "./script");
  EXPECT_EQ(names[1], "/usr/bin/env");
  EXPECT_NE(std::find(names.begin(), names.end(), "cat"), names.end());
  EXPECT_NE(std::find(names.begin(), names.end(), "libc.so.6"), names.end());
}

TEST_F(ProgramDigests, ScriptsThatAreEachOthersInterpretersEnd) {
  const std::string b = folder_ + "/b", a = put("a", "#!" + b + "\n");
  put("b", "#!" + a + "\n");

  EXPECT_LE(digests({"./a"}).files.size(), 6u);
}

TEST_F(ProgramDigests, WhatIsNotThereHasNoDigestAndStartsWithItsOwnError) {
  EXPECT_TRUE(digests({"./gone"}).files.empty());
  EXPECT_TRUE(digests({}).files.empty());
}

// A pipe that nobody writes would be waited for, and a device may do something when it is opened.
TEST_F(ProgramDigests, OpensNothingButRegularFiles) {
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);

  EXPECT_EQ(digest_of_file(digests({"cat", "pipe", "/dev/zero"}), "pipe"), "none");
  EXPECT_LT(open_regular("/dev/zero").get(), 0);
}

TEST_F(ProgramDigests, TellsTheDriversVersion) {
  fs::create_directories(folder_ + "/module/nvidia");
  put("module/nvidia/version", "550.54.14\n");

  EXPECT_EQ(digests({"cat"}).driver, "550.54.14");
}

// Any byte of a program may be anything: nothing of it may make us read or loop without end.
TEST_F(ProgramDigests, ADamagedProgramIsReadSafely) {
  const std::string whole = read_text(DIGEST_PROGRAM);
  for (std::size_t at = 0; at < std::min<std::size_t>(whole.size(), 4096); at += 3) {
    std::string damaged = whole;
    for (std::size_t i = at; i < at + 3; ++i) damaged[i] = static_cast<char>(0xff);
    const std::string path = put("damaged", damaged);
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const auto elf = read_dynamic_file(file.get());
    if (elf) EXPECT_LE(elf->needed.size(), 256u);
  }
  const std::string path = put("cut", whole.substr(0, 100));
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(!read_dynamic_file(file.get()) || !read_dynamic_file(file.get())->is_dynamic);
}

TEST(LibraryCache, OfThisMachineHasTheLibraryOfC) {
  const LibraryCache cache = parse_library_cache(read_text("/etc/ld.so.cache"));
  ASSERT_TRUE(cache.contains("libc.so.6"));
}

TEST(LibraryCache, CutOrDamagedGivesWhatIsLeft) {
  const std::string whole = read_text("/etc/ld.so.cache");
  for (std::size_t bytes = 0; bytes < std::min<std::size_t>(whole.size(), 400); ++bytes)
    (void)parse_library_cache(whole.substr(0, bytes));
  std::string damaged = whole;
  for (std::size_t at = 20; at < std::min<std::size_t>(damaged.size(), 2000); ++at)
    damaged[at] = static_cast<char>(0xff);
  (void)parse_library_cache(damaged);
  EXPECT_TRUE(parse_library_cache("").empty());
}

}  // namespace
}  // namespace train
