// What posix_spawn(3) and execve(2) take.
#pragma once

#include <signal.h>
#include <spawn.h>

#include <string>
#include <vector>

namespace train {

/// Return an argv or envp of these texts, which must outlive it.
inline std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct SpawnActions {
  SpawnActions() { ::posix_spawn_file_actions_init(&actions); }
  ~SpawnActions() { ::posix_spawn_file_actions_destroy(&actions); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  posix_spawn_file_actions_t actions;
};

/// Lets the child begin with no signal blocked or ignored, whatever this thread blocks.
struct SpawnAttributes {
  SpawnAttributes() {
    ::posix_spawnattr_init(&attributes);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    set_flags(0);
  }
  ~SpawnAttributes() { ::posix_spawnattr_destroy(&attributes); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;

  /// Set these flags in addition.
  void set_flags(int flags) {
    const int both = flags | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    ::posix_spawnattr_setflags(&attributes, static_cast<short>(both));
  }
  posix_spawnattr_t attributes;
};

}  // namespace train
