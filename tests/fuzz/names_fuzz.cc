// Opens names and paths from others: a file is opened below its folder or not at all, whatever
// links are there, and an accepted name is one component below the folder.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "lib/storage/manifest.h"
#include "lib/storage/run_folder.h"
#include "lib/transfer/open_beneath.h"

namespace {

namespace fs = std::filesystem;
using namespace train;

void require(bool holds) {
  if (!holds) std::abort();
}

/// Holds base/{file, .hidden, a/b/file, out -> .., abs -> /etc, in -> a, link -> ../secret}, and a
/// file beside base.
class Tree {
 public:
  Tree() {
    char name[] = "/tmp/names-fuzz-XXXXXX";
    require(::mkdtemp(name) != nullptr);
    top_ = name;
    base_ = top_ + "/base";
    fs::create_directories(base_ + "/a/b");
    for (const char* file :
         {"/secret", "/base-secret", "/base/file", "/base/.hidden", "/base/a/b/file"})
      std::ofstream(top_ + file) << "text";
    fs::create_symlink("..", base_ + "/out");
    fs::create_symlink("/etc", base_ + "/abs");
    fs::create_symlink("a", base_ + "/in");
    fs::create_symlink("../secret", base_ + "/link");
    fs::create_symlink("../../../secret", base_ + "/a/b/link");
  }
  ~Tree() {
    std::error_code ec;
    fs::remove_all(top_, ec);
  }
  const std::string& base() const { return base_; }

 private:
  std::string top_, base_;
};

/// Turn bytes below 32 into words, so that mutations hit existing names.
std::string path_of(std::string_view bytes) {
  constexpr std::array<std::string_view, 16> kWords{
      "..",    "/",    ".",      "file",    "a",
      "b",     "out",  "abs",    "in",      "link",
      "../",   "a/b/", "secret", ".hidden", "checkpoint_000012",
      "passwd"};
  std::string path;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 32)
      path += kWords[byte % kWords.size()];
    else
      path += c;
  }
  return path;
}

void check_open(const std::string& base, const std::string& path) {
  const auto file = open_beneath(base, path);
  if (!file) return;
  const std::string there =
      fs::read_symlink("/proc/self/fd/" + std::to_string(file->get())).string();
  require(there.starts_with(base + "/"));
  require(fs::canonical(base + "/" + path).string() == there);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Tree tree;
  const std::string path = path_of({reinterpret_cast<const char*>(data), size});
  check_open(tree.base(), path);
  if (check_file_path(path)) {
    const fs::path below = fs::path(tree.base()) / path;
    require(below.lexically_normal() == below && below.string().starts_with(tree.base() + "/"));
  }
  if (check_run_name(path)) {
    const fs::path below = (fs::path(tree.base()) / path).lexically_normal();
    require(below.parent_path() == tree.base() && path.size() <= 128);
  }
  if (const auto number = parse_checkpoint_name(path)) require(checkpoint_name(*number) == path);
  return 0;
}
