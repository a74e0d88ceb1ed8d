#include "lib/base/user_account.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

#include "lib/base/check.h"
#include "lib/base/file_descriptor.h"

namespace train {
namespace {

constexpr std::size_t kEntryBytesMax = 1u << 20;
constexpr int kGroupsMax = 65536;        // NGROUPS_MAX
constexpr int kCapabilityMax = 63;       // higher than any capability of today's kernels
constexpr long kJoinSessionKeyring = 1;  // KEYCTL_JOIN_SESSION_KEYRING: a new one

gid_t file_group() { return static_cast<gid_t>(::setfsgid(static_cast<gid_t>(-1))); }

Result<std::vector<gid_t>> groups_of(const std::string& name, gid_t gid) {
  std::vector<gid_t> groups(64);
  for (;;) {
    int count = static_cast<int>(groups.size());
    const bool all = ::getgrouplist(name.c_str(), gid, groups.data(), &count) >= 0;
    const bool more = count > static_cast<int>(groups.size()) && count <= kGroupsMax;
    if (!all && !more)
      return Error{Errc::Io, fmt::format("looking up the groups of the user {} failed", name)};
    groups.resize(static_cast<std::size_t>(count));
    if (all) return groups;
  }
}

/// `ask`: getpwnam_r() or getpwuid_r().
template <class Ask>
Result<UserAccount> find_entry(const std::string& shown, const Ask& ask) {
  passwd entry{}, *found = nullptr;
  std::vector<char> text(4096);
  int error = 0;
  while ((error = ask(&entry, text.data(), text.size(), &found)) == ERANGE &&
         text.size() < kEntryBytesMax)
    text.resize(text.size() * 2);
  if (error != 0) return system_error(error, fmt::format("looking up the user {}", shown));
  if (found == nullptr)
    return Error{Errc::NotFound, fmt::format("there is no user {} on this machine", shown),
                 "`getent passwd` lists those that it knows"};
  TRY(auto groups, groups_of(entry.pw_name, entry.pw_gid));
  return UserAccount{entry.pw_name,     entry.pw_uid, entry.pw_gid,
                     std::move(groups), entry.pw_dir, entry.pw_shell};
}

std::vector<gid_t> thread_groups() {
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  TRAIN_CHECK(count >= 0, "getgroups");
  groups.resize(static_cast<std::size_t>(count));
  return groups;
}

void empty_bounding_set() {
  for (int capability = 0; capability <= kCapabilityMax; ++capability)
    ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
}

}  // namespace

Result<UserAccount> find_account(const std::string& name) {
  return find_entry(name, [&](passwd* entry, char* text, std::size_t size, passwd** found) {
    return ::getpwnam_r(name.c_str(), entry, text, size, found);
  });
}

Result<UserAccount> find_account(uid_t uid) {
  return find_entry(fmt::format("{}", uid),
                    [&](passwd* entry, char* text, std::size_t size, passwd** found) {
                      return ::getpwuid_r(uid, entry, text, size, found);
                    });
}

// In some sandboxes, setfsuid(2) does not exist; there nobody can act as another user.
uid_t file_user() {
  const auto user = static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1)));
  return user == static_cast<uid_t>(-1) ? ::geteuid() : user;
}

bool has_capability(int capability) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  if (::syscall(SYS_capget, &header, sets.data()) != 0) return false;
  return (sets.at(static_cast<std::size_t>(capability) / 32).effective >> (capability % 32) & 1) !=
         0;
}

bool may_become_others() {
  return ::geteuid() == 0 && has_capability(CAP_SETUID) && has_capability(CAP_SETGID) &&
         ::setfsuid(static_cast<uid_t>(-1)) == static_cast<int>(::geteuid());
}

int drop_capabilities() {
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  empty_bounding_set();
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  const std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  return ::syscall(SYS_capset, &header, none.data()) == 0 ? 0 : errno;
}

// glibc's functions would signal the threads that the process had before fork().
int take_rights(const UserAccount& account) {
  ::syscall(SYS_keyctl, kJoinSessionKeyring, nullptr);
  empty_bounding_set();  // while the process still may
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  if (::syscall(SYS_setgroups, account.groups.size(), account.groups.data()) != 0) return errno;
  if (::syscall(SYS_setresgid, account.gid, account.gid, account.gid) != 0) return errno;
  if (::syscall(SYS_setresuid, account.uid, account.uid, account.uid) != 0) return errno;
  return drop_capabilities();
}

void become(const UserAccount& account) {
  // A value that root writes is also the lowest that the user's processes may set.
  if (const FileDescriptor file(::open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC));
      file.get() >= 0) {
    char first = 0;
    const bool lowered = ::read(file.get(), &first, 1) == 1 && first == '-';
    [[maybe_unused]] const auto written = lowered ? ::pwrite(file.get(), "0", 1, 0) : 0;
  }
  TRAIN_CHECK(take_rights(account) == 0, "the process would keep root's rights");
  ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // safe: since exec, memory holds no secret of root
}

ActAs::ActAs(const std::optional<UserAccount>& account) {
  if (!account) return;
  before_ = Rights{file_user(), file_group(), thread_groups()};
  take({account->uid, account->gid, account->groups});
}

ActAs::~ActAs() {
  if (before_) take(*before_);
}

// Use the system call directly, since glibc's setgroups() would change all threads. setfsuid() and
// setfsgid() return the previous id whether or not they succeed, so read both ids back.
void ActAs::take(const Rights& rights) {
  const std::string_view why = "files would be used with another user's rights";
  TRAIN_CHECK(::syscall(SYS_setgroups, rights.groups.size(), rights.groups.data()) == 0, why);
  ::setfsgid(rights.gid);
  ::setfsuid(rights.uid);
  TRAIN_CHECK(file_group() == rights.gid && file_user() == rights.uid, why);
}

}  // namespace train
