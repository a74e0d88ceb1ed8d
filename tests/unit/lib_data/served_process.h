// An ingest worker of a test in a process of its own, which can be killed and stopped.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>
#include <string>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/data/serve/flight_module.h"

namespace train::data {

class ServedProcess {
 public:
  /// `host`: serve over Flight, too, at this address.
  ServedProcess(const std::string& socket, const std::string& folder,
                const std::string& host = {}) {
    int in[2], out[2];
    EXPECT_EQ(::pipe2(in, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    const std::string program = TRAIN_BINARY_DIR "/tests/lib_data_serve_numbers";
    std::vector<std::string> words{program, socket, folder};
    if (!host.empty()) words.push_back(host);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    EXPECT_EQ(::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(), environ),
              0);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    in_.reset(in[1]);
    std::string said;
    for (char byte = 0; !said.ends_with("up\n") && ::read(out[0], &byte, 1) == 1;) said += byte;
    ::close(out[0]);
    EXPECT_TRUE(said.ends_with("up\n")) << "it does not serve: " << said;
    std::istringstream lines(said);
    lines >> access_.address >> access_.token >> std::ws;
    std::getline(lines, access_.certificate, '.');
  }
  ~ServedProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ServedProcess(const ServedProcess&) = delete;
  ServedProcess& operator=(const ServedProcess&) = delete;

  void send(int signal) const { ::kill(pid_, signal); }
  /// Return how to reach its Flight server.
  const FlightAccess& access() const { return access_; }

 private:
  pid_t pid_ = -1;
  FileDescriptor in_;
  FlightAccess access_;
};

}  // namespace train::data
