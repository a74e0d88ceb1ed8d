// A small user program: argv[1] selects what its loop does.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <train/train.h>
#include <train/train_c.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include "sdk/client/ingest.h"

namespace {

int open_sockets() {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    struct stat info {};
    if (fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode)) ++count;
  }
  return count;
}

/// Serve nothing, until told to end.
int serves(train::sdk::WorkerSession&, const train::sdk::IngestService& service) {
  std::printf("serves %s at %s as %s\n", service.role.dataset.c_str(), service.role.socket.c_str(),
              service.role.name.c_str());
  service.up("");
  train::sdk::IngestFigures figures;
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  while (!service.stop.stop_requested()) {
    ++figures.rows;
    service.busy(figures);
    stopped.wait_for(lock, service.stop, std::chrono::milliseconds(1), [] { return false; });
  }
  return 0;
}

int serves_wrongly(train::sdk::WorkerSession&, const train::sdk::IngestService&) {
  throw std::out_of_range("row 7 of 5");
}

int forked_child_fails() {
  train::report({{"step", 1}});
  const int sockets = open_sockets();
  const pid_t child = fork();
  if (child == 0) {
    // One that lived on would keep the connection open.
    if (open_sockets() != sockets - 1) std::exit(6);
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
  train::report({{"rows", 3}});  // goes to its log
  std::printf("%s (%s)\n", train::get_context().run_name().c_str(),
              train::get_context().run_id().c_str());
  return {{"val", train::Dict{{"acc", config.get<double>("lr") + epoch}}},
          {"best", std::numeric_limits<double>::infinity()},
          {"worst", -std::numeric_limits<double>::infinity()},
          {"other", std::numeric_limits<double>::quiet_NaN()},
          {"by", "a \"script\""}};
}

/// Let functions that the C interface calls throw arbitrary values.
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

/// Mark phases through the C interface, in and out of turn.
int marks_phases() {
  const auto tell = [](int code) { std::printf("%s\n", code == 0 ? "0" : trainrun_last_error()); };
  tell(trainrun_phase_say("7 of 9 files"));
  tell(trainrun_phase_end());
  tell(trainrun_phase_begin("download", -1));
  tell(trainrun_phase_begin(nullptr, 0));
  tell(trainrun_phase_begin("download", 0));
  tell(trainrun_phase_say(nullptr));
  tell(trainrun_phase_say("7 of 9 files"));
  tell(trainrun_phase_end());
  tell(trainrun_phase_end());
  return trainrun_finish(nullptr);
}

int calls(int depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return calls(depth + 1) + frame[0];
}

/// Print the context through both interfaces.
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

/// Do each kind of reduction, and print what they refuse.
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
  std::printf("%s\n", train::to_json(train::all_gather(train::List{1, "x"})).c_str());
  return 0;
}

/// Print what it finds of the previous run.
int resumes() {
  std::printf("from epoch %d, of %d ranks\n", train::start_epoch(), train::restored_world_size());
  train::on_resize([](int before, int now) { std::printf("resized %d to %d\n", before, now); });
  const auto checkpoint = train::get_checkpoint();
  if (!checkpoint) return 0;
  std::printf("%s %s %s\n", checkpoint->as_directory().c_str(),
              train::to_json(checkpoint->metadata()).c_str(),
              train::to_json(checkpoint->metrics()).c_str());
  trainrun_checkpoint* same = nullptr;
  if (trainrun_get_checkpoint(&same) != 0) return 1;
  std::printf("through C %s\n", trainrun_checkpoint_metrics_json(same));
  trainrun_checkpoint_free(same);
  std::printf("%s\n", train::to_json(checkpoint->to_value()).c_str());
  return 0;
}

/// Print what a process that was started before its attempt finds in its environment.
int tells_its_environment() {
  const auto variable = [](const char* name) {
    const char* text = std::getenv(name);
    return text != nullptr ? text : "none";
  };
  std::printf("RANK %s, EXTRA %s, TRAINRUN_STANDBY %s\n", variable("RANK"), variable("EXTRA"),
              variable("TRAINRUN_STANDBY"));
  return 0;
}

/// Print which checkpoints the run has.
int asks() {
  const char* out = nullptr;
  if (trainrun_reported_checkpoints(1, -1, &out) != 0) return 1;
  std::printf("%s\n", out);
  for (const train::ReportedCheckpoint& one :
       train::get_all_reported_checkpoints({.consistency = train::Consistency::Committed}))
    std::printf("%d %s\n", static_cast<int>(one.status),
                train::to_json(one.checkpoint.metadata()).c_str());
  return 0;
}

/// Report what Python and JavaScript make of a loss that is not finite.
int reports_nan_through_c() {
  const char* out = nullptr;
  trainrun_checkpoint* made = trainrun_checkpoint_from_json(R"({"step":1})");
  if (trainrun_report(R"({"loss": NaN, "high": Infinity, "low": -Infinity})") != 0 ||
      trainrun_report_checkpoint_sync(R"({"loss": null, "val": {"loss": null}})", made) != 0 ||
      trainrun_reduce(R"({"loss": NaN})", "mean", &out) != 0) {
    std::printf("%s\n", trainrun_last_error());
    return 1;
  }
  std::printf("%s\n", out);
  trainrun_checkpoint_free(made);
  return trainrun_finish(nullptr);
}

/// Use the C interface, with arguments that it accepts and refuses.
int uses_c() {
  const auto tell = [](int code) {
    if (code == 0)
      std::printf("0\n");
    else
      std::printf("%d %s: %s\n", code, trainrun_last_error_kind(), trainrun_last_error());
  };
  const auto show = [](const char* text) { std::printf("%s\n", text != nullptr ? text : "NULL"); };
  const char* out = nullptr;
  int one = 1;
  tell(trainrun_report(nullptr));
  tell(trainrun_report("{"));
  tell(trainrun_report_checkpoint("{}", nullptr));
  tell(trainrun_reduce(R"({"n":1})", "median", &out));
  tell(trainrun_reduce(R"({"n":1})", nullptr, &out));
  tell(trainrun_once_per_node("none", nullptr, nullptr));
  tell(trainrun_once_per_node(
      nullptr, [](void*, char*, size_t) { return 0; }, nullptr));
  tell(trainrun_once_per_node(
      "three", [](void*, char*, size_t) { return 3; }, nullptr));
  tell(trainrun_once_per_node(
      "text",
      [](void* user, char* error, size_t size) {
        return *static_cast<int*>(user) + std::snprintf(error, size, "no route");
      },
      &one));
  tell(trainrun_checkpoint_from_directory("none") == nullptr ? 1 : 0);
  for (const std::size_t levels : {31u, 32u})
    tell(trainrun_set_result((std::string(levels, '[') + std::string(levels, ']')).c_str()));
  const double values[] = {1, 2};
  tell(trainrun_histogram("fc1", values, 2, 0));
  tell(trainrun_histogram("fc1", values, 2, 257));
  tell(trainrun_histogram("", values, 2, 0));
  tell(trainrun_histogram(std::string(300, 'x').c_str(), values, 2, 0));
  tell(trainrun_histogram("fc1", nullptr, 2, 0));
  trainrun_checkpoint* made = trainrun_checkpoint_from_json(R"({"step":1})");
  tell(trainrun_checkpoint_set_metadata(made, "[1]"));
  show(trainrun_checkpoint_directory(made));
  tell(trainrun_checkpoint_set_metadata(made, R"({"note":"best"})"));
  show(trainrun_checkpoint_metadata_json(made));
  tell(trainrun_report_checkpoint_sync(R"({"epoch":2})", made));
  trainrun_checkpoint_free(made);
  for (const char* metadata : {R"({"note":"third"})", static_cast<const char*>(nullptr)})
    if (trainrun_report_directory(R"({"epoch":3})", "mine", metadata) != 0 ||
        trainrun_wait_for_checkpoint(&out) != 0)
      return 1;
  show(out);
  tell(trainrun_broadcast_from_rank_zero(R"({"a":[1]})", &out));
  show(out);
  tell(trainrun_all_gather(R"({"b":2})", &out));
  show(out);
  tell(trainrun_all_gather(nullptr, &out));
  for (const char* how : {"mean", "sum", "min", "max"}) {
    tell(trainrun_reduce(R"({"n":1})", how, &out));
    show(out);
  }
  return trainrun_finish(nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "c") return throws_through_c();
  if (what == "c_nan") return reports_nan_through_c();
  if (what == "uses_c") return uses_c();
  if (what == "phases") return marks_phases();
  if (what == "validates") train::validation(validates);
  if (what == "serves") train::sdk::register_ingest_server(serves);
  if (what == "serves_wrongly") train::sdk::register_ingest_server(serves_wrongly);
  return train::run(argc, argv, [&](const train::Config& config) -> int {
    if (what == "trains") return trains(config);
    if (what == "reports") {
      train::report({{"epoch", 0}}, train::Checkpoint::from_json(train::Dict{{"epoch", 0}}));
      return 0;
    }
    if (what == "context") return tells_its_context();
    if (what == "reduces") return reduces();
    if (what == "resumes") return resumes();
    if (what == "asks") return asks();
    if (what == "environment") return tells_its_environment();
    if (what == "loops")
      while (true) train::report({{"step", 1}});
    if (what == "terminates") std::thread([] { throw std::out_of_range("row 7 of 5"); }).join();
    if (what == "throws") throw std::out_of_range("row 7 of 5");
    if (what == "throws_text") throw std::string("row 7 of 5");
    if (what == "throws_letters") throw "row 7 of 5";
    if (what == "overflows") return calls(0);
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
