// A user's program in small: argv[1] says what its loop does.
#include <signal.h>
#include <sys/wait.h>
#include <train/train.h>
#include <train/train_c.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>

namespace {

int forked_child_fails() {
  train::report({{"step", 1}});
  const pid_t child = fork();
  if (child == 0) {
    try {
      train::report({{"step", 2}});
    } catch (const train::Failure& why) {
      std::exit(why.kind() == "unavailable" ? 7 : 8);
    }
    std::exit(9);
  }
  int status = 0;
  waitpid(child, &status, 0);
  train::report({{"child", WEXITSTATUS(status)}});
  return 0;
}

int trains(const train::Config& config) {
  const auto restored = train::get_checkpoint();
  std::printf("from epoch %d, lr %g, value %s\n", train::start_epoch(),
              config.get<double>("lr", 0.0),
              restored ? train::to_json(restored->to_value()).c_str() : "none");
  const int epoch = train::start_epoch();
  train::report({{"epoch", epoch}}, train::Checkpoint::from_json(train::Dict{{"epoch", epoch}}));
  train::barrier();
  return 0;
}

train::Dict validates(const train::Checkpoint& checkpoint, const train::Config& config) {
  const auto epoch = checkpoint.to_value().as<train::Dict>().at("epoch").as<int>();
  if (config.get<bool>("throws", false)) throw std::out_of_range("row 7 of 5");
  train::report({{"rows", 3}});  // a line of its log
  return {{"val", train::Dict{{"acc", config.get<double>("lr") + epoch}}},
          {"worst", -std::numeric_limits<double>::infinity()}};
}

/// Functions that the C face calls, of a program that throws whatever it likes.
int throws_through_c() {
  const auto tell = [](int code) {
    std::printf("%d %s: %s\n", code, trainrun_last_error_kind(), trainrun_last_error());
  };
  tell(trainrun_once_per_node(
      "number", [](void*, char*, size_t) -> int { throw 7; }, nullptr));
  tell(trainrun_once_per_node(
      "text", [](void*, char*, size_t) -> int { throw std::out_of_range("row 7 of 5"); }, nullptr));
  return trainrun_finish(nullptr);
}

/// Who it is, as both faces tell it.
int tells_its_context() {
  const train::Context& me = train::get_context();
  std::printf("rank %d of %d, %d of %d here, node %d of %d, attempt %d, supervised %d\n",
              me.world_rank(), me.world_size(), me.local_rank(), me.local_world_size(),
              me.node_rank(), me.node_count(), me.attempt(), me.supervised() ? 1 : 0);
  std::printf("%s (%s) in %s, %s %s\n", me.run_name().c_str(), me.run_id().c_str(),
              me.storage_path().c_str(), train::to_json(me.config().values()).c_str(),
              train::to_json(me.metadata()).c_str());
  std::printf("rank %d of %d, %d of %d here, node %d of %d, attempt %d, supervised %d\n",
              trainrun_world_rank(), trainrun_world_size(), trainrun_local_rank(),
              trainrun_local_world_size(), trainrun_node_rank(), trainrun_node_count(),
              trainrun_attempt(), trainrun_supervised());
  std::printf("%s (%s) in %s, %s %s\n", trainrun_run_name(), trainrun_run_id(),
              trainrun_storage_path(), trainrun_config_json(), trainrun_metadata_json());
  std::printf("from epoch %d, share of 22: %d\n", trainrun_start_epoch(),
              train::per_worker_batch(22));
  try {
    train::per_worker_batch(7);
  } catch (const train::Failure& why) {
    std::printf("%s\n", why.what());
  }
  return 0;
}

/// Each kind of reduction, and what they refuse.
int reduces() {
  const auto tell = [](const train::Dict& metrics, train::Reduce how) {
    try {
      std::printf("%s\n", train::to_json(train::reduce(metrics, how)).c_str());
    } catch (const train::Failure& why) {
      std::printf("%s\n", why.what());
    }
  };
  const train::Dict mine{{"n", 3}, {"x", 1.5}};
  for (const auto how :
       {train::Reduce::Mean, train::Reduce::Sum, train::Reduce::Min, train::Reduce::Max})
    tell(mine, how);
  tell({{"n", std::numeric_limits<std::int64_t>::max()}}, train::Reduce::Sum);
  tell({{"n", 3}, {"y", 1.5}}, train::Reduce::Sum);
  tell({{"n", 3}, {"x", "text"}}, train::Reduce::Sum);
  std::printf("%s\n", train::to_json(train::broadcast_from_rank_zero("of rank 1")).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "c") return throws_through_c();
  if (what == "validates") train::validation(validates);
  return train::run(argc, argv, [&](const train::Config& config) -> int {
    if (what == "trains") return trains(config);
    if (what == "reports") {
      train::report({{"epoch", 0}}, train::Checkpoint::from_json(train::Dict{{"epoch", 0}}));
      return 0;
    }
    if (what == "context") return tells_its_context();
    if (what == "reduces") return reduces();
    if (what == "throws") throw std::out_of_range("row 7 of 5");
    if (what == "exits") {
      train::report({{"step", 1}});
      std::exit(9);
    }
    if (what == "code") return 42;
    if (what == "segfault") raise(SIGSEGV);
    if (what == "fork") return forked_child_fails();
    if (what == "nested") return train::run(argc, argv, [] {});
    return 0;  // "silent": never reports
  });
}
