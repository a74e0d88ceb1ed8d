// Runs user programs, under a supervisor that the test plays or by hand.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "sdk/client/solo_session.h"
#include "tests/unit/sdk_client/fake_supervisor.h"

namespace train {

namespace fs = std::filesystem;

struct Ended {
  int code = -1;    // exit code, or 128 + signal
  std::string out;  // stdout and stderr
};

struct Folder {
  Folder() {
    char name[] = "/tmp/sdk-test-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

inline Ended run(const fs::path& folder, const std::vector<std::string>& command,
                 const std::map<std::string, std::string>& env = {}) {
  const fs::path output = folder / ".output";
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    for (const auto& [name, value] : env) ::setenv(name.c_str(), value.c_str(), 1);
    if (::chdir(folder.c_str()) != 0 || !::freopen(output.c_str(), "w", stdout)) ::_exit(126);
    ::dup2(STDOUT_FILENO, STDERR_FILENO);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  std::ifstream file(output);
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = std::string(std::istreambuf_iterator<char>(file), {})};
}

/// Leave a checkpoint of a writer's files in `folder`, which may not be the working directory.
inline void leave_checkpoint(const fs::path& folder) {
  sdk::SoloSession solo({}, (folder / "checkpoints").string());
  Checkpoint checkpoint = Checkpoint::from_writer(
      [](const fs::path& made) { std::ofstream(made / "weights") << "weights"; });
  checkpoint.set_metadata({{"note", "best"}});
  solo.report({{"epoch", 4}}, &checkpoint);
  solo.finish();
}

inline Welcome alone() {
  Welcome w;
  w.ranks.world_size = w.ranks.local_world_size = w.ranks.node_count = 1;
  return w;
}

inline std::map<std::string, std::string> under(const FakeSupervisor& supervisor) {
  return {{"TRAINRUN_SOCKET", supervisor.socket()},
          {"RANK", "0"},
          {"WORLD_SIZE", "1"},
          {"TRAINRUN_ATTEMPT", "0"}};
}

/// Make a checkpoint of epoch 0. Return the environment of a process that validates it.
inline std::map<std::string, std::string> validating(const Folder& folder,
                                                     const std::string& config) {
  EXPECT_EQ(run(folder.path, {WORKER, "trains"}).code, 0);
  std::ofstream(folder.path / "spec.json") << R"({"train_loop_config":)" << config << "}";
  return {{"TRAINRUN_VALIDATE", "1"},
          {"TRAINRUN_CHECKPOINT_DIR", folder.path / "checkpoints/checkpoint_000001"},
          {"TRAINRUN_RESULT_FILE", folder.path / "result.json"},
          {"TORCHELASTIC_ERROR_FILE", folder.path / "error.json"},
          {"TRAINRUN_SPEC", folder.path / "spec.json"},
          {"TRAINRUN_RUN_NAME", "vit"},
          {"TRAINRUN_RUN_ID", "id-7"}};
}
inline std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace train
