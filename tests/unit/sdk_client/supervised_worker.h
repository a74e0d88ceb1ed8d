// Runs a worker's session and a fake supervisor in one process.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "sdk/client/supervised_session.h"
#include "tests/unit/sdk_client/fake_supervisor.h"

namespace train::sdk {

inline Welcome welcome(int world_size = 1, int rank = 0) {
  Welcome w;
  w.ranks.world_size = world_size;
  w.ranks.rank = rank;
  w.ranks.local_world_size = world_size;
  w.ranks.local_rank = rank;
  w.ranks.node_count = 1;
  w.attempt = 3;
  w.run.run_id = "run-1";
  w.run.run_name = "demo";
  w.run_dir = "/runs/demo";
  w.run.config_json = R"({"lr":0.5})";
  w.run.metadata_json = R"({"team":"vision"})";
  return w;
}

struct Worker {
  explicit Worker(const Welcome& w = welcome()) : supervisor(w) {
    WorkerHello hello;
    hello.rank = w.ranks.rank;
    hello.attempt = w.attempt;
    hello.pid = 42;
    session = std::make_unique<SupervisedSession>(
        *join_supervisor(*connect_supervisor(supervisor.socket()), hello));
  }
  FakeSupervisor supervisor;
  std::unique_ptr<SupervisedSession> session;
};

inline Checkpoint writing(const std::string& text) {
  return Checkpoint::from_writer(
      [text](const std::filesystem::path& folder) { std::ofstream(folder / "state") << text; });
}

inline Value nested_lists(int levels) {
  Value value;
  for (int level = 0; level < levels; ++level) value = List{std::move(value)};
  return value;
}

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <class Call>
std::string failure_of(Call&& call) {
  try {
    call();
  } catch (const Failure& why) {
    return why.kind() + ": " + why.what();
  } catch (const Stopped& stopped) {
    return std::string("stopped: ") + stopped.what();
  }
  return "nothing was thrown";
}

}  // namespace train::sdk
