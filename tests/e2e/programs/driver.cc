// A program that runs a job by train::Trainer: driver MODE JOB.YAML. It prints what it is told.
#include <fmt/format.h>
#include <train/train.h>
#include <train/trainer.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

using namespace train;

void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

std::string text_of(const Round& round) {
  std::string text =
      fmt::format("round {}.{} ordinal {}", round.attempt, round.number, round.ordinal);
  if (round.redone) text += " redone";
  if (round.has_checkpoint) text += " checkpoint";
  for (const Dict& report : round.reports)
    text += " " + (report.contains("epoch") ? to_json(report.at("epoch")) : "-");
  return text;
}

void say(const RunResult& result) {
  say(fmt::format("result {} code {} metrics {} returned {} checkpoints {} newest {}",
                  result.outcome, result.exit_code, to_json(result.metrics),
                  to_json(result.return_value), result.checkpoints.size(),
                  result.checkpoint ? to_json(result.checkpoint->to_value()) : "none"));
}

void say(const AttemptFailure& failure) {
  std::string text = fmt::format("attempt {} failed: {}", failure.attempt, failure.cause);
  for (const auto& [rank, one] : failure.ranks)
    text += fmt::format("\n  rank {}: {} {} {} {}", rank, one.kind, one.exit_code.value_or(0),
                        one.signal, one.what);
  say(text);
}

class Printer final : public Callback {
 public:
  explicit Printer(std::string throws_in) : throws_in_(std::move(throws_in)) {}
  std::string name() const override { return "Printer"; }
  void start_training(const std::filesystem::path& logdir) override {
    say("start " + logdir.filename().string());
  }
  void handle_result(const Round& round) override {
    say("handle " + text_of(round));
    if (throws_in_ == "handle_result") throw std::runtime_error("I give up");
  }
  void after_report(const Round& round, const std::optional<Checkpoint>& checkpoint) override {
    say(fmt::format("after {}.{} {}", round.attempt, round.number,
                    checkpoint ? to_json(checkpoint->to_value()) : "none"));
  }
  void after_exception(const AttemptFailure& failure) override { say(failure); }
  void finish_training(const std::string& error) override { say("finish " + error); }

 private:
  const std::string throws_in_;
};

std::string text_of(const std::map<int, Value>& results) {
  std::string text;
  for (const auto& [rank, result] : results) text += fmt::format(" {}={}", rank, to_json(result));
  return text;
}

void call_workers(Trainer& trainer) {
  const auto refused = [&](const std::string& when) {
    try {
      trainer.call("add", 1);
    } catch (const Failure& failure) {
      say(fmt::format("{}: Failure {}: {}", when, failure.kind(), failure.what()));
    }
  };
  refused("before");
  trainer.start();
  say("add" + text_of(trainer.call("add", 2)));
  for (const Round& round : trainer.iterate()) {
    if (round.ordinal == 3) say("from a round: ranks" + text_of(trainer.call("ranks")));
    if (round.ordinal < 5) continue;
    try {
      trainer.call("fail");
    } catch (const CallFailed& failed) {
      say(fmt::format("CallFailed {}", failed.what()));
    }
    trainer.stop();
    break;
  }
  say(*trainer.result(/*force=*/true));
  refused("after");
}

std::size_t reports_in(const std::filesystem::path& folder) {
  std::ifstream log(folder / "metrics.jsonl");
  std::size_t count = 0;
  for (std::string line; std::getline(log, line);) ++count;
  return count;
}

/// Take rounds in lock step with the workers: between two of them, no rank reports again.
void keep_pace(Trainer& trainer) {
  trainer.start({.pace = 1});
  try {
    trainer.iterate({.pace = 2});
  } catch (const Failure& failure) {
    say(fmt::format("Failure {}: {}", failure.kind(), failure.what()));
  }
  for (const Round& round : trainer.iterate({.pace = 1})) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    say(fmt::format("{}: {} reports", text_of(round), reports_in(trainer.folder())));
    if (round.number == 3) trainer.stop();
  }
  say(*trainer.result());
}

int drive(const std::string& mode, const std::string& job) {
  TrainerOptions options;
  options.show_output = mode != "quiet";
  options.leave_run_on_exit = mode.starts_with("leave");
  Trainer trainer(std::filesystem::path(job), {}, options);
  if (mode == "fit" || mode == "quiet") {
    say(trainer.fit());
  } else if (mode == "callbacks" || mode == "throwing") {
    trainer.add_callback(std::make_shared<Printer>(mode == "throwing" ? "handle_result" : ""));
    say(trainer.fit());
  } else if (mode == "iterate") {
    for (const Round& round : trainer.iterate()) say(text_of(round));
    say(*trainer.result());
  } else if (mode == "stop") {
    Rounds rounds = trainer.iterate();
    for (int count = 0; count < 3; ++count) say(text_of(*rounds.next()));
    say(trainer.result() ? "a result" : "no result yet");
    say(*trainer.result(/*force=*/true));
  } else if (mode == "call") {
    call_workers(trainer);
  } else if (mode == "twice") {
    try {
      trainer.fit();
    } catch (const WorkerGroupError& error) {
      say(fmt::format("first {}", error.what()));
    }
    trainer.result();
  } else if (mode == "pace") {
    keep_pace(trainer);
  } else if (mode == "leave" || mode == "stall" || mode == "leave-pace") {
    Rounds rounds = trainer.iterate({.pace = mode == "leave-pace" ? 1 : 0});
    say(text_of(*rounds.next()));
    ::pause();
  } else {
    throw Failure("invalid_argument", "mode " + mode);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "self") {
    const char* runs = std::getenv("RUNS");
    Dict spec{{"scaling_config", Dict{{"num_workers", std::getenv("WORKERS") != nullptr ? 0 : 2},
                                      {"resources_per_worker", Dict{{"CPU", 0}}}}},
              {"run_config", Dict{{"name", "self"}, {"storage_path", runs == nullptr ? "" : runs}}},
              {"train_loop_config", Dict{{"epochs", 2}}}};
    if (const char* project = std::getenv("SHIP"); project != nullptr)
      spec.insert({{"ship", true}, {"working_dir", project}});
    Trainer trainer(argc, argv, spec, [](const Config& config) {
      for (int epoch = 0; epoch < config.get<int>("epochs"); ++epoch) report({{"epoch", epoch}});
      const bool shipped = std::filesystem::current_path().parent_path().filename() == "code" &&
                           std::filesystem::exists("build/driver");
      set_result(shipped ? "trained with what was shipped" : "trained");
    });
    say(trainer.fit());
    return 0;
  }
  try {
    return drive(argv[1], argv[2]);
  } catch (const HangError& error) {
    say(fmt::format("HangError {}", error.what()));
  } catch (const WorkerGroupError& error) {
    say(fmt::format("WorkerGroupError {}", error.what()));
    say(error.failure());
    say(error.result());
  } catch (const PreemptionError& error) {
    say(fmt::format("PreemptionError {}", error.what()));
  } catch (const SpecError& error) {
    say(fmt::format("SpecError {}", error.what()));
  } catch (const ClusterError& error) {
    say(fmt::format("ClusterError {}", error.what()));
  } catch (const ControllerError& error) {
    say(fmt::format("ControllerError {}", error.what()));
  } catch (const CallFailed& error) {
    say(fmt::format("CallFailed {}", error.what()));
  } catch (const Failure& error) {
    say(fmt::format("Failure {}: {}", error.kind(), error.what()));
  }
  return 1;
}
