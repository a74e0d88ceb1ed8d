#include "tests/e2e/outer_group.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace train::e2e {
namespace {

namespace fs = std::filesystem;
const std::string kTree = "/sys/fs/cgroup";

bool write_to(const std::string& file, const std::string& text) {
  std::ofstream out(file);
  return static_cast<bool>((out << text).flush());
}

bool in_v2(const std::string& controller) {
  std::ifstream controllers(kTree + "/cgroup.controllers");
  for (std::string word; controllers >> word;) {
    if (word == controller) return ::access((kTree + "/cgroup.subtree_control").c_str(), W_OK) == 0;
  }
  return false;
}

bool in_v1(const std::string& controller) {
  return ::access((kTree + "/" + controller + "/cgroup.procs").c_str(), W_OK) == 0;
}

/// Remove the group's children, then the group.
bool remove_group(const std::string& path) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path, ignored))
    if (entry.is_directory(ignored) && !remove_group(entry.path().string())) return false;
  return ::rmdir(path.c_str()) == 0;
}

StartOptions moved_by(const std::string& script) {
  return {.env = {}, .prefix = {"sh", "-c", script + " && exec \"$@\"", "sh"}, .cwd = {}};
}

}  // namespace

bool can_limit(const std::string& controller) {
  return ::geteuid() == 0 && (in_v2(controller) || in_v1(controller));
}

OuterGroup::OuterGroup(const std::string& name, const std::string& controller)
    : v2_(in_v2(controller)) {
  path_ = kTree + (v2_ ? "/" : "/" + controller + "/") + name + "-" + std::to_string(::getpid());
  if (v2_) EXPECT_TRUE(write_to(kTree + "/cgroup.subtree_control", "+" + controller));
  EXPECT_EQ(::mkdir(path_.c_str(), 0755), 0) << path_;
}

OuterGroup::~OuterGroup() {
  EXPECT_TRUE(wait_until([&] { return remove_group(path_); })) << path_;
}

bool OuterGroup::limit_memory(int mebibytes) const {
  if (v2_) (void)write_to(path_ + "/memory.swap.max", "0");
  return write_to(path_ + (v2_ ? "/memory.max" : "/memory.limit_in_bytes"),
                  std::to_string(mebibytes) + "M");
}

int OuterGroup::memory_used() const {
  const std::string file = path_ + (v2_ ? "/memory.current" : "/memory.usage_in_bytes");
  return static_cast<int>(std::stoull(read_file(file)) >> 20);
}

OuterGroup& OuterGroup::delegate() {
  if (v2_) EXPECT_EQ(::setxattr(path_.c_str(), "trusted.delegate", "1", 1, 0), 0);
  return *this;
}

StartOptions OuterGroup::inside() const { return moved_by("echo $$ > " + path_ + "/cgroup.procs"); }

StartOptions OuterGroup::inside_without_groups() const {
  StartOptions options =
      moved_by("echo $$ > " + path_ + "/cgroup.procs && for m in " + kTree + " " + kTree +
               "/*; do mountpoint -q $m && mount -o remount,bind,ro $m; done; true");
  options.prefix.insert(options.prefix.begin(), {"unshare", "--mount"});
  return options;
}

LimitingGroup::LimitingGroup(const std::string& controller) {
  if (in_v2(controller)) group_.emplace("limits", controller).delegate();
}

}  // namespace train::e2e
