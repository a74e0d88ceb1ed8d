// A worker with the SDK, without LibTorch. train_loop_config.mode selects what it does.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <signal.h>
#include <sys/stat.h>
#include <train/train.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/programs/file_wait.h"

namespace {

using train::Config;
using train::get_context;
using train::e2e::wait_for_file;

bool here(const Config& config, const std::string& key) {
  const auto rank = config.get<int>(key, -1);
  return rank == get_context().world_rank();
}

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Return the path of checkpoint k's manifest.
std::string committed(int k) {
  char name[64];
  std::snprintf(name, sizeof name, "/checkpoints/checkpoint_%06d/.manifest.json", k);
  return get_context().storage_path() + name;
}

// Keep a rank at most `ahead` reports ahead of the run's log, so that endless training runs at the
// disk's speed. 0: as fast as it can.
class Pace {
 public:
  explicit Pace(std::uint64_t ahead) : ahead_(ahead) {}
  void before_a_report() {
    if (ahead_ == 0 || ++reports_ <= ahead_) return;
    if (!log_) log_.emplace(get_context().storage_path() + "/metrics.jsonl");
    log_->wait_for("\"rank\":" + std::to_string(get_context().world_rank()) +
                   ",\"attempt\":" + std::to_string(get_context().attempt()) +
                   ",\"report_seq\":" + std::to_string(reports_ - ahead_) + ",");
  }

 private:
  std::uint64_t ahead_, reports_ = 0;
  std::optional<train::e2e::GrowingLog> log_;
};

// Return whether this machine or network namespace has the IPv4 address.
bool has_address(const std::string& address) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return false;
  bool found = false;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in in{};
    std::memcpy(&in, one->ifa_addr, sizeof in);
    char text[INET_ADDRSTRLEN] = {};
    found |= ::inet_ntop(AF_INET, &in.sin_addr, text, sizeof text) == address;
  }
  ::freeifaddrs(all);
  return found;
}

// Hold epochs of hold_at (or hold_at_RANK) until the test writes HOLD_FILE-ATTEMPT-EPOCH or, with
// hold_until_stop, the rank has heard that it must stop. Attempts from hold_attempts on do not
// wait.
void hold(const Config& config, int epoch) {
  auto epochs = config.get<std::vector<int>>("hold_at", {});
  epochs = config.get<std::vector<int>>("hold_at_" + std::to_string(get_context().world_rank()),
                                        std::move(epochs));
  const auto attempt = static_cast<int>(get_context().attempt());
  if (attempt >= config.get<int>("hold_attempts", 1) ||
      std::find(epochs.begin(), epochs.end(), epoch) == epochs.end())
    return;
  const std::string file = config.get<std::string>("hold_file") + "-" + std::to_string(attempt) +
                           "-" + std::to_string(epoch);
  if (!config.get<bool>("hold_until_stop", false)) return wait_for_file(file);
  while (!train::should_stop() && ::access(file.c_str(), F_OK) != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

// Report epoch and loss. Every checkpoint_every epochs, rank 0 hands over a checkpoint of the
// epoch, the others an empty one. die_rank dies by die_signal in epoch die_epoch of the attempts
// below die_attempts. Every rank dies in those below die_each_attempts, once a new checkpoint is
// committed. Ranks on the machine die_on_address die in epoch die_epoch of each attempt.
// step_ms: how long an epoch takes at least. epochs_after_restore: number of epochs of an attempt
// that begins from a checkpoint.
void epochs(const Config& config) {
  const int rank = get_context().world_rank();
  const int every = config.get<int>("checkpoint_every", 1);
  int end = config.get<int>("epochs");
  if (auto checkpoint = train::get_checkpoint()) {
    std::printf("restored epoch %d\n",
                checkpoint->to_value().as<train::Dict>().at("epoch").as<int>());
    if (const int more = config.get<int>("epochs_after_restore", 0); more > 0)
      end = train::start_epoch() + more;
  } else {
    std::printf("fresh start\n");
  }
  train::on_resize([](int before, int now) { std::printf("resized %d to %d\n", before, now); });
  std::printf("start_epoch %d\n", train::start_epoch());
  std::printf("RANK=%s TORCHELASTIC_RESTART_COUNT=%s TRAINRUN_STANDBY=%s\n", variable("RANK"),
              variable("TORCHELASTIC_RESTART_COUNT"), variable("TRAINRUN_STANDBY"));
  std::fflush(stdout);
  if (config.get<bool>("on_stop", false)) {
    train::on_stop([] {
      return train::Checkpoint::from_json(train::Dict{{"epoch", -1}, {"on_stop", true}});
    });
  }
  Pace pace(config.get<std::uint64_t>("ahead", 0));
  for (int epoch = train::start_epoch(); epoch < end; ++epoch) {
    hold(config, epoch);
    pace.before_a_report();
    std::this_thread::sleep_for(std::chrono::milliseconds(config.get<int>("step_ms", 0)));
    if (here(config, "die_rank") && epoch == config.get<int>("die_epoch") &&
        get_context().attempt() < config.get<int>("die_attempts", 1)) {
      if (const auto file = config.get<std::string>("die_after_file", ""); !file.empty())
        wait_for_file(file);
      ::kill(::getpid(), config.get<int>("die_signal", SIGKILL));
    }
    if (get_context().attempt() < config.get<int>("die_each_attempts", 0) &&
        epoch > train::start_epoch()) {
      wait_for_file(committed(epoch));  // of the previous epoch: numbers begin with 1
      ::kill(::getpid(), SIGKILL);
    }
    if (epoch == config.get<int>("die_epoch", 0) &&
        has_address(config.get<std::string>("die_on_address", "")))
      ::kill(::getpid(), SIGKILL);
    const train::Dict metrics{
        {"epoch", epoch}, {"loss", 1.0 / (epoch + 1)}, {"attempt", get_context().attempt()}};
    if (every <= 0 || (epoch + 1) % every != 0) {
      train::report(metrics);
    } else if (rank == 0) {
      train::report(metrics, train::Checkpoint::from_json(train::Dict{{"epoch", epoch}}));
    } else {
      train::report(metrics, train::Checkpoint::from_writer([](const std::filesystem::path&) {}));
    }
  }
}

// Report steps in lockstep until rank 0 finds finish_file, with no checkpoint but those that
// somebody asks for: by checkpoint_requested() with `polls`, by on_stop with `on_stop`.
void asked(const Config& config) {
  const int rank = get_context().world_rank();
  const std::string finish = config.get<std::string>("finish_file");
  int step = 0;
  const auto checkpoint = [&] {
    return train::Checkpoint::from_writer(
        [rank, text = std::to_string(step)](const std::filesystem::path& folder) {
          std::ofstream(folder / ("rank-" + std::to_string(rank))) << text;
        });
  };
  if (config.get<bool>("on_stop", false)) train::on_stop(checkpoint);
  const bool polls = config.get<bool>("polls", false);
  for (bool goes_on = true; goes_on;) {
    ++step;
    const bool ends = ::access(finish.c_str(), F_OK) == 0;
    goes_on = !train::broadcast_from_rank_zero(train::Value(ends)).as<bool>();
    if (polls && train::checkpoint_requested())
      train::report({{"step", step}}, checkpoint());
    else
      train::report({{"step", step}});
  }
}

// A trial of a sweep: its loss is x at the end, and a little more before. Above fail_above it
// fails; above invalid_above it says that its parameters make no sense. Trials of which x is above
// hold_above wait in epoch 2 for hold_file, all of them in the last epoch for end_file.
void trial(const Config& config) {
  const auto x = config.get<double>("x");
  std::printf("x is %g, trial %s\n", x, variable("TRAINRUN_TRIAL"));
  std::fflush(stdout);
  if (x > config.get<double>("fail_above", INFINITY)) throw std::runtime_error("x is too large");
  if (x > config.get<double>("invalid_above", INFINITY)) ::_exit(78);
  Pace pace(config.get<std::uint64_t>("ahead", 1));
  const bool holds = x > config.get<double>("hold_above", INFINITY);
  for (int epoch = std::max(1, train::start_epoch()); epoch <= config.get<int>("epochs", 2);
       ++epoch) {
    pace.before_a_report();
    const auto file = config.get<std::string>("hold_file", "");
    while (holds && epoch == 2 && !train::should_stop() && ::access(file.c_str(), F_OK) != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const auto end = config.get<std::string>("end_file", "");
    const bool last = !end.empty() && epoch == config.get<int>("epochs", 2);
    while (last && !train::should_stop() && ::access(end.c_str(), F_OK) != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    train::report({{"epoch", epoch}, {"loss", x + 1.0 / epoch}},
                  train::Checkpoint::from_json(train::Dict{{"epoch", epoch}}));
  }
}

void collectives(const Config&) {
  const auto& context = get_context();
  train::barrier();
  const train::Value from_zero =
      train::broadcast_from_rank_zero(train::Dict{{"rank", context.world_rank()}});
  const train::Dict mean = train::reduce({{"x", context.world_rank()}});
  const train::Dict sum = train::reduce({{"x", context.world_rank()}}, train::Reduce::Sum);
  const train::Dict low = train::reduce({{"x", context.world_rank()}}, train::Reduce::Min);
  const train::Dict high = train::reduce({{"x", context.world_rank()}}, train::Reduce::Max);
  int mine = 0;
  train::once_per_node("download", [&] { ++mine; });
  train::once_per_node("download", [&] { ++mine; });
  const train::Dict ran = train::reduce({{"ran", mine}}, train::Reduce::Sum);
  train::set_result(train::Dict{{"rank", context.world_rank()},
                                {"broadcast", from_zero},
                                {"mean", mean.at("x")},
                                {"sum", sum.at("x")},
                                {"min", low.at("x")},
                                {"max", high.at("x")},
                                {"ran", ran.at("ran")}});
}

// Rank r reports 3·r times; rank 0 never reports.
void uneven(const Config&) {
  for (int i = 0; i < 3 * get_context().world_rank(); ++i) train::report({{"i", i}});
}

void threads(const Config& config) {
  std::vector<std::thread> all;
  for (int t = 0; t < config.get<int>("threads"); ++t) {
    all.emplace_back([t, &config] {
      for (int i = 0; i < config.get<int>("reports"); ++i) train::report({{"thread", t}, {"i", i}});
    });
  }
  for (std::thread& thread : all) thread.join();
}

// Both ranks hand over shared.txt: with different bytes in the first checkpoint, with equal bytes
// in the second.
void collision(const Config&) {
  for (int k = 0; k < 2; ++k) {
    const int rank = get_context().world_rank();
    train::report({{"epoch", k}},
                  train::Checkpoint::from_writer([k, rank](const std::filesystem::path& folder) {
                    std::ofstream(folder / "shared.txt")
                        << (k == 0 ? std::to_string(rank) : "same");
                  }));
  }
}

// Make checkpoints of this many empty files.
void many_files(const Config& config) {
  int epoch = 0;
  for (const int files : config.get<std::vector<int>>("files")) {
    train::report({{"epoch", epoch++}},
                  train::Checkpoint::from_writer([files](const std::filesystem::path& folder) {
                    for (int i = 0; i < files; ++i) std::ofstream(folder / std::to_string(i));
                  }));
  }
}

void scores(const Config& config) {
  const auto values = config.get<std::vector<double>>("scores");
  for (std::size_t i = 0; i < values.size(); ++i) {
    train::report({{"epoch", i}, {"acc", values[i]}},
                  train::Checkpoint::from_json(train::Dict{{"epoch", i}}));
  }
}

// Make checkpoints of these sizes. A careless writer ignores write errors. The first checkpoint is
// committed before the second is made.
void sizes(const Config& config) {
  const bool careless = config.get<bool>("careless", false);
  int epoch = 0;
  for (const int bytes : config.get<std::vector<int>>("sizes")) {
    const auto write = [bytes, careless](const std::filesystem::path& folder) {
      std::ofstream file(folder / "state.bin", std::ios::binary);
      file << std::string(static_cast<std::size_t>(bytes), 'x') << std::flush;
      if (!file && !careless) throw std::runtime_error("state.bin cannot be written");
    };
    train::report({{"epoch", epoch}}, train::Checkpoint::from_writer(write));
    if (epoch++ == 0) wait_for_file(committed(1));
  }
  if (const auto file = config.get<std::string>("wait_for", ""); !file.empty()) wait_for_file(file);
}

// Return bytes that are unique to this rank and epoch.
std::string state_of(int rank, int epoch, std::size_t bytes) {
  std::string state(bytes, '\0');
  std::uint64_t x =
      1 + static_cast<std::uint64_t>(rank) * 1000003 + static_cast<std::uint64_t>(epoch);
  for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(&state[i], &x, 8);
  }
  return state;
}

// Report a checkpoint in place. Write the inode of `file` to the run folder's inode-EPOCH-RANK.
void report_in_place(const Config& config, int epoch, const std::string& file,
                     const std::function<void(const std::filesystem::path&)>& write) {
  const std::filesystem::path run = get_context().storage_path();
  const std::string which =
      std::to_string(epoch) + "-" + std::to_string(get_context().world_rank());
  const std::filesystem::path folder = run / "written" / which;
  std::filesystem::remove_all(folder);  // a previous attempt may have died while writing
  write(folder);
  struct stat found {};
  if (::stat((folder / file).c_str(), &found) != 0) throw std::runtime_error("no " + file);
  std::ofstream(run / ("inode-" + which)) << found.st_ino;
  const bool dies = here(config, "die_rank") && epoch == config.get<int>("die_epoch") &&
                    get_context().attempt() == 0;
  const bool after = config.get<bool>("die_after_report", false);
  if (dies) wait_for_file(committed(epoch));  // of the previous epoch: numbers begin with 1
  if (dies && !after) ::kill(::getpid(), SIGKILL);
  train::report({{"epoch", epoch}}, train::Checkpoint::from_directory(folder),
                {.upload = train::Upload::None});
  if (dies) ::kill(::getpid(), SIGKILL);
}

// In each epoch, every rank hands over a state of `bytes` bytes and a small file. An attempt that
// begins from a checkpoint checks the states of all ranks. Nothing is read from storage directly.
// In the attempts of restore_hold, rank 0 waits forever before it restores. in_place: write below
// the run's folder; die_rank then dies in epoch die_epoch of attempt 0, before or after its report.
void big(const Config& config) {
  const auto bytes = config.get<std::size_t>("bytes");
  const int rank = get_context().world_rank();
  const auto name = [](int of) { return "rank-" + std::to_string(of) + "/state.bin"; };
  const auto held = config.get<std::vector<int>>("restore_hold", {});
  const auto attempt = static_cast<int>(get_context().attempt());
  if (rank == 0 && std::find(held.begin(), held.end(), attempt) != held.end())
    wait_for_file("/nowhere/" + std::to_string(::getpid()));
  if (auto checkpoint = train::get_checkpoint()) {
    for (int other = 0; other < train::restored_world_size(); ++other) {
      std::ifstream file(checkpoint->as_directory() / name(other), std::ios::binary);
      const std::string found{std::istreambuf_iterator<char>(file), {}};
      if (found != state_of(other, train::start_epoch() - 1, bytes))
        throw std::runtime_error("the state of rank " + std::to_string(other) + " is another one");
    }
    std::printf("restored epoch %d whole\n", train::start_epoch() - 1);
    std::fflush(stdout);
  }
  for (int epoch = train::start_epoch(); epoch < config.get<int>("epochs"); ++epoch) {
    hold(config, epoch);
    const auto write = [=](const std::filesystem::path& folder) {
      std::filesystem::create_directories((folder / name(rank)).parent_path());
      std::ofstream(folder / name(rank), std::ios::binary) << state_of(rank, epoch, bytes);
      std::ofstream(folder / ("small-" + std::to_string(rank))) << epoch;
    };
    if (config.get<bool>("in_place", false)) {
      report_in_place(config, epoch, name(rank), write);
    } else {
      train::report({{"epoch", epoch}}, train::Checkpoint::from_writer(write));
    }
  }
}

void metrics(const Config&) {
  train::histogram("weights", std::vector<float>{-1, 0, 0, 1, std::nanf("")}, {.bins = 2});
  train::report(
      {{"epoch", 0}, {"loss", std::nan("")}, {"up", INFINITY}, {"note", "first"}, {"ok", true}});
  train::report({{"epoch", 1}, {"loss", 0.25}, {"up", 2.0}, {"note", "second"}, {"ok", false}});
}

void fail(const Config& config) {
  train::report({{"epoch", 0}});
  if (get_context().world_rank() == config.get<int>("fail_rank", 0))
    throw std::runtime_error(
        "the learning rate is 0" +
        std::string(static_cast<std::size_t>(config.get<int>("more_bytes", 0)), '\xff'));
  train::barrier();
}

}  // namespace

int main(int argc, char** argv) {
  return train::run(argc, argv, [](const Config& config) {
    const std::map<std::string, void (*)(const Config&)> modes{{"epochs", epochs},
                                                               {"asked", asked},
                                                               {"collectives", collectives},
                                                               {"uneven", uneven},
                                                               {"threads", threads},
                                                               {"collision", collision},
                                                               {"many_files", many_files},
                                                               {"scores", scores},
                                                               {"metrics", metrics},
                                                               {"sizes", sizes},
                                                               {"big", big},
                                                               {"fail", fail},
                                                               {"trial", trial}};
    modes.at(config.get<std::string>("mode"))(config);
  });
}
