// Tests how checkpoint files are read once with their digests, and copied to a staging folder.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "lib/base/quota.h"
#include "lib/storage/manifest.h"
#include "sdk/client/checked_files.h"
#include "sdk/client/checkpoint_impl.h"
#include "sdk/client/staging.h"

namespace train::sdk {
namespace {

namespace fs = std::filesystem;

std::string failure_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Failure& why) {
    return why.kind() + ": " + why.what();
  }
  return "nothing was thrown";
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put(const fs::path& path, std::string_view text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string any_bytes(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + i / 251);
  return text;
}

class Files : public testing::Test {
 protected:
  explicit Files(const std::string& below = "/tmp") {
    std::string name = below + "/sdk-files-XXXXXX";
    root = ::mkdtemp(name.data());
  }
  ~Files() override {
    ::umount((root / "mounted").c_str());
    fs::remove_all(root);
  }
  ManifestFile entry(const std::string& name) const {
    const std::string text = text_of(root / name);
    return {name, text.size(), digest_of(text), {Rank{0}}};
  }

  fs::path root;
};

// ---- reading

TEST_F(Files, RangesAreReadInAnyOrderAndTheFileIsDigested) {
  const std::string text = any_bytes(700'000);
  put(root / "model", text);
  const CheckedFiles files(root.string(), {entry("model")});
  FileScan scan = files.open("model");
  EXPECT_EQ(scan.bytes(), text.size());
  EXPECT_EQ(scan.path(), (root / "model").string());
  EXPECT_EQ(files.folder(), root.string());

  for (const auto& [begin, end] :
       std::vector<std::pair<std::size_t, std::size_t>>{{0, 0},
                                                        {300'000, 600'001},
                                                        {100, 350'000},
                                                        {0, 600'002},
                                                        {5, 5},
                                                        {599'000, 650'000},
                                                        {699'999, 700'000}}) {
    std::string got(end - begin, '?');
    scan.read(begin, end, got.data());
    ASSERT_EQ(got, text.substr(begin, end - begin)) << begin << " to " << end;
  }
  scan.finish();
}

TEST_F(Files, WhatIsNotAsTheManifestSaysIsNamed) {
  put(root / "model", "0123456789");
  const CheckedFiles files(root.string(), {entry("model")});
  const std::string folder = root.string();

  put(root / "model", "01234x6789");
  EXPECT_EQ(failure_of([&] { files.read("model"); }),
            "corrupt: " + folder + ": 'model': xxh3-128 is " + to_hex(digest_of("01234x6789")) +
                ", expected " + to_hex(digest_of("0123456789")));
  put(root / "model", "01234");
  EXPECT_EQ(failure_of([&] { files.open("model"); }),
            "corrupt: " + folder + ": 'model': 5 bytes, expected 10");
  EXPECT_EQ(failure_of([&] { files.open("other"); }),
            "not_found: checkpoint '" + folder + "' has no 'other'");
  fs::remove(root / "model");
  EXPECT_EQ(failure_of([&] { files.open("model"); }),
            "not_found: opening " + folder + "/model: No such file or directory");
}

TEST_F(Files, NothingIsReadBehindTheEnd) {
  put(root / "plain", "0123456789");
  FileScan scan((root / "plain").string());
  std::string got(20, '?');

  EXPECT_EQ(
      failure_of([&] { scan.read(5, 11, got.data()); }),
      "corrupt: " + (root / "plain").string() + ": bytes 5 to 11 were requested, but it has 10");
  EXPECT_EQ(
      failure_of([&] { scan.read(6, 5, got.data()); }),
      "corrupt: " + (root / "plain").string() + ": bytes 6 to 5 were requested, but it has 10");
  scan.read(7, 10, got.data());
  scan.read(0, 3, got.data() + 3);
  EXPECT_EQ(got.substr(0, 6), "789012");
  scan.finish();
  EXPECT_EQ(::truncate((root / "plain").c_str(), 4), 0);  // meanwhile
  EXPECT_EQ(failure_of([&] { scan.read(0, 10, got.data()); }),
            "io: reading " + (root / "plain").string() + ": Input/output error");
}

TEST_F(Files, AFolderIsNoFile) {
  put(root / "sub/file", "x");
  EXPECT_EQ(failure_of([&] { CheckedFiles(root.string()).read("sub"); }),
            "io: reading " + (root / "sub").string() + ": Is a directory");
}

TEST_F(Files, OfACheckpointAreThoseOfItsManifest) {
  put(root / "a", "A");
  put(root / "b", "B");
  const CheckedFiles checkpoint(root.string(), {entry("a")});
  const CheckedFiles folder(root.string());

  EXPECT_TRUE(checkpoint.has("a"));
  EXPECT_FALSE(checkpoint.has("b"));
  EXPECT_TRUE(folder.has("b"));
  EXPECT_FALSE(folder.has("c"));
  EXPECT_EQ(checkpoint.read("a"), "A");
  EXPECT_EQ(folder.read("b"), "B");
}

TEST_F(Files, AreVerifiedOnce) {
  for (const char* name : {"a", "b", "c"}) put(root / name, any_bytes(1000));
  const CheckedFiles files(root.string(), {entry("a"), entry("b"), entry("c")});
  EXPECT_EQ(files.read("b"), any_bytes(1000));
  put(root / "b", "of no use");

  files.verify_rest();  // b has been read already
  for (const char* name : {"a", "c"}) put(root / name, "of no use");
  files.verify_rest();

  put(root / "d", "D");
  const CheckedFiles others(root.string(), {entry("a"), entry("d")});
  put(root / "d", "E");
  EXPECT_TRUE(failure_of([&] { others.verify_rest(); }).starts_with("corrupt: "));
  EXPECT_TRUE(failure_of([&] { others.verify_rest(); }).starts_with("corrupt: ")) << "again";
}

TEST_F(Files, OfACheckpointToBeReportedCannotBeRead) {
  put(root / "state", "x");
  for (const Checkpoint& made :
       {Checkpoint::from_directory(root), Checkpoint::take_directory(root),
        Checkpoint::from_json(1), Checkpoint::from_writer([](const fs::path&) {})}) {
    EXPECT_EQ(failure_of([&] { made.as_directory(); }),
              "invalid_argument: this checkpoint is about to be reported; only a committed one, "
              "from get_checkpoint(), has a folder to read");
    EXPECT_TRUE(failure_of([&] { made.to_value(); }).starts_with("invalid_argument: "));
  }
  EXPECT_EQ(failure_of([] { Checkpoint::from_writer({}); }),
            "invalid_argument: Checkpoint::from_writer: the function is empty");
  EXPECT_EQ(
      failure_of([&] { Checkpoint::from_directory(root / "state"); }),
      "not_found: the checkpoint's folder '" + (root / "state").string() + "' is not a directory");
  EXPECT_EQ(failure_of([&] { Checkpoint::take_directory(root / "none"); }),
            "not_found: the checkpoint's folder '" + (root / "none").string() +
                "' is not a directory: No such file or directory");
}

TEST(Checkpoint, OfAValueThatCouldNotBeReadAgainIsRefused) {
  Value deep = 1;
  for (int i = 0; i < 128; ++i) deep = List{deep};

  EXPECT_EQ(failure_of([&] { Checkpoint::from_json(deep); }), "nothing was thrown");
  EXPECT_EQ(failure_of([&] { Checkpoint::from_json(List{deep}); }),
            "invalid_argument: Checkpoint::from_json: the value could not be read again: JSON, "
            "byte 129: nested deeper than 128 levels");
  EXPECT_EQ(failure_of([] {
              Checkpoint::from_json(Dict{{"\xfe", 1}, {"\xff", 2}});
            }),
            "invalid_argument: Checkpoint::from_json: the value could not be read again: JSON, "
            "byte 9: a repeated key");
}

// ---- staging

/// Write a folder like a user's program.
void write_checkpoint(const fs::path& folder) {
  put(folder / "model", any_bytes(600'000));
  put(folder / "sub/deep/state", "state");
  fs::create_directories(folder / "empty");
  put(folder / ".hidden", "no");
  put(folder / "sub/.cache/file", "no");
  fs::create_symlink("/etc/passwd", folder / "sub/.link");
}
void expect_staged(const fs::path& folder) {
  EXPECT_EQ(text_of(folder / "model"), any_bytes(600'000));
  EXPECT_EQ(text_of(folder / "sub/deep/state"), "state");
  EXPECT_TRUE(fs::is_directory(folder / "empty"));
  for (const char* hidden : {".hidden", "sub/.cache", "sub/.link"})
    EXPECT_FALSE(fs::exists(fs::symlink_status(folder / hidden))) << hidden;
  EXPECT_FALSE(fs::exists(folder / "left"));
}

class OnTwoFileSystems : public Files {
 protected:
  OnTwoFileSystems() {
    std::string name = "/dev/shm/sdk-files-XXXXXX";
    if (::mkdtemp(name.data()) != nullptr) other = name;
    struct stat here {
    }, there{};
    if (other.empty() || ::stat(root.c_str(), &here) != 0 || ::stat(other.c_str(), &there) != 0 ||
        here.st_dev == there.st_dev)
      different = false;
  }
  ~OnTwoFileSystems() override { fs::remove_all(other); }
  fs::path other;
  bool different = true;
};

TEST_F(OnTwoFileSystems, ACopyHoldsWhatIsNotHidden) {
  for (const fs::path& from : {root / "mine", other / "mine"}) {
    write_checkpoint(from);
    put(root / "staged/left", "by an earlier attempt");

    const auto copied = copy_tree(from, root / "staged");

    ASSERT_FALSE(copied.has_error()) << copied.error().describe();
    expect_staged(root / "staged");
    EXPECT_EQ(text_of(from / "model"), any_bytes(600'000));
    EXPECT_TRUE(fs::exists(from / ".hidden"));
  }
}

TEST_F(OnTwoFileSystems, WhatCannotBeMovedIsCopiedAndRemoved) {
  if (!different) GTEST_SKIP() << "/tmp and /dev/shm are one file system";
  write_checkpoint(other / "mine");

  const auto moved = move_tree(other / "mine", root / "staged");

  ASSERT_FALSE(moved.has_error()) << moved.error().describe();
  expect_staged(root / "staged");
  EXPECT_FALSE(fs::exists(other / "mine"));
}

TEST_F(OnTwoFileSystems, AFolderThatCannotBeRemovedIsCopiedAllTheSame) {
  if (!different) GTEST_SKIP() << "/tmp and /dev/shm are one file system";
  write_checkpoint(other / "mine");
  const fs::path from = other / "mine" / ".";  // rmdir refuses such a name
  testing::internal::CaptureStderr();

  const auto moved = move_tree(from, root / "staged");

  const std::string warning = testing::internal::GetCapturedStderr();
  ASSERT_FALSE(moved.has_error()) << moved.error().describe();
  expect_staged(root / "staged");
  EXPECT_EQ(warning, "trainrun: the checkpoint's folder '" + from.string() +
                         "' was copied, but cannot be removed: Invalid argument (remove what is "
                         "left of it)\n");
}

TEST_F(Files, AreRefusedBeforeAnythingIsMovedOrCopied) {
  put(root / "mine/a", "A");
  fs::create_symlink("a", root / "mine/link");
  put(root / "file", "x");
  using Stage = Result<Unit> (*)(const fs::path&, const fs::path&);
  for (const Stage stage : {Stage(copy_tree), Stage(move_tree), Stage(rename_tree)}) {
    EXPECT_EQ(stage(root / "mine", root / "staged").error(),
              (Error{Errc::InvalidArgument,
                     "'" + (root / "mine/link").string() + "' is neither a file nor a folder",
                     "a checkpoint holds only files and folders; copy what a link points to"}));
    EXPECT_EQ(stage(root / "none", root / "staged").error(),
              (Error{Errc::NotFound,
                     "the checkpoint's folder '" + (root / "none").string() + "' does not exist",
                     "each rank reports a folder of its own: one that was moved is gone"}));
    EXPECT_EQ(
        stage(root / "file", root / "staged").error(),
        (Error{Errc::InvalidArgument, "'" + (root / "file").string() + "' is not a directory"}));
    EXPECT_FALSE(fs::exists(root / "staged"));
    EXPECT_TRUE(fs::exists(root / "mine/a"));
  }
}

TEST_F(Files, CannotBeStagedBelowAFile) {
  put(root / "mine/a", "A");
  put(root / "file", "x");
  const std::string folder = (root / "file/staged").string();

  for (const auto& refused : {copy_tree(root / "mine", folder), move_tree(root / "mine", folder)}) {
    ASSERT_TRUE(refused.has_error());
    EXPECT_EQ(refused.error().message,
              "making the staging folder '" + folder + "': Not a directory");
  }
  EXPECT_TRUE(fs::exists(root / "mine/a"));
}

TEST_F(Files, AreCountedAsFarAsTheyCanBeRead) {
  put(root / "mine/a", "12345");
  put(root / "mine/sub/b", "123");
  put(root / "mine/.hidden", "1");
  put(root / "other", "not below");
  fs::create_symlink("../other", root / "mine/link");
  EXPECT_EQ(bytes_below(root / "mine"), 9u);
  EXPECT_EQ(bytes_below(root / "none"), 0u);
}

TEST_F(Files, OnAFullDiskSayWhatIsNeededAndLeaveNothing) {
  fs::create_directory(root / "mounted");
  if (::mount("none", (root / "mounted").c_str(), "tmpfs", 0, "size=512k") != 0)
    GTEST_SKIP() << "no right to mount";
  write_checkpoint(root / "mine");
  fs::create_directory(root / "mounted/staging");
  ASSERT_FALSE(check_free_space(root / "mounted/staging").has_error());

  const auto refused = copy_tree(root / "mine", root / "mounted/staging/ckpt-1");

  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().code, Errc::NoSpace);
  EXPECT_EQ(refused.error().hint, "free some space, or lower checkpoint_config.num_to_keep");
  EXPECT_NE(
      refused.error().message.find("No space left on device: the checkpoint has 600009 bytes, "),
      std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(refused.error().message.ends_with(" are free in '" +
                                                (root / "mounted/staging").string() + "'"))
      << refused.error().message;
  EXPECT_TRUE(fs::is_empty(root / "mounted/staging"));

  put(root / "mounted/other", std::string(600'000, 'x'));  // fills it
  EXPECT_EQ(check_free_space(root / "mounted/staging").error().code, Errc::NoSpace);
  EXPECT_TRUE(fs::is_empty(root / "mounted/staging"));
}

TEST_F(Files, OnlyForWantOfSpaceTheFreeBytesAreSaid) {
  const Error io{Errc::Io, "reading 'x': Input/output error", "look at the disk"};
  EXPECT_EQ(with_free_space(io, root / "ckpt-1"), io);
  const Error lost{Errc::NoSpace, "writing 'x': No space left on device"};
  EXPECT_EQ(with_free_space(lost, root / "none/ckpt-1"), lost);
  const std::string over_quota = std::make_error_code(std::errc(EDQUOT)).message();
  EXPECT_EQ(with_free_space({Errc::NoSpace, over_quota}, root / "ckpt-1"),
            (Error{Errc::NoSpace, over_quota, std::string(kOverQuotaHint)}));
}

}  // namespace
}  // namespace train::sdk
