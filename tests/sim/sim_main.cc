// train-sim: simulate runs by their seeds. For a failing seed, it prints the command that shows the
// run again.
//   train-sim --seed 1 --seeds 1000              sizes by the seed, on all cores
//   train-sim --seed 42 --nodes 3 --trace
//   train-sim --seed 1 --nodes 4096 --ranks 8 --minutes 10
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/sim/world.h"

namespace {

using namespace train::sim;

struct Arguments {
  SimOptions options{.nodes = 0};
  std::uint64_t seeds = 1;
  int nodes_max = 0;  // skip seeds with more nodes
  int jobs = 1;
  bool quiet = false;
};

struct Totals {
  std::uint64_t seeds = 0, failed = 0, events = 0, virtual_ms = 0, attempts = 0, nodes = 0;
  std::uint32_t sites_fired = 0;
};

int usage() {
  std::fputs(
      "usage: train-sim [--seed N] [--seeds K] [--nodes M] [--nodes-max M] [--ranks R]\n"
      "                 [--minutes T] [--jobs J] [--mutant NAME] [--trace] [--quiet]\n"
      "  --nodes      of every seed; else by the seed: 1 to 64, 1024 or 4096\n"
      "  --nodes-max  leave larger seeds out\n"
      "  --ranks      of each node\n"
      "  --minutes    of virtual time, a run that is stopped then\n"
      "  --jobs       processes; all cores by default where there are several seeds\n",
      stderr);
  return 2;
}

bool parse_mutant(const char* name, Mutant& mutant) {
  for (int m = 0; m < kMutants; ++m) {
    if (to_string(static_cast<Mutant>(m)) != name) continue;
    mutant = static_cast<Mutant>(m);
    return true;
  }
  return false;
}

bool parse(int argc, char** argv, Arguments& arguments) {
  SimOptions& options = arguments.options;
  for (int i = 1; i < argc; ++i) {
    const auto is = [&](const char* name) { return std::strcmp(argv[i], name) == 0; };
    if (is("--trace")) {
      options.print = true;
      continue;
    }
    if (is("--quiet")) {
      arguments.quiet = true;
      continue;
    }
    if (i + 1 == argc) return false;
    const char* value = argv[i + 1];
    if (is("--seed"))
      options.seed = std::strtoull(value, nullptr, 10);
    else if (is("--seeds"))
      arguments.seeds = std::strtoull(value, nullptr, 10);
    else if (is("--nodes"))
      options.nodes = std::atoi(value);
    else if (is("--nodes-max"))
      arguments.nodes_max = std::atoi(value);
    else if (is("--ranks"))
      options.ranks_per_node = std::atoi(value);
    else if (is("--minutes"))
      options.lasts = std::chrono::minutes(std::atoi(value));
    else if (is("--jobs"))
      arguments.jobs = std::atoi(value);
    else if (is("--mutant")) {
      if (!parse_mutant(value, options.mutant)) return false;
    } else
      return false;
    ++i;
  }
  return true;
}

void run_one(const Arguments& arguments, std::uint64_t seed, Totals& totals) {
  SimOptions options = arguments.options;
  options.seed = seed;
  const int nodes = options.nodes > 0 ? options.nodes : swarm_nodes(seed);
  if (arguments.nodes_max > 0 && nodes > arguments.nodes_max) return;
  options.nodes = nodes;
  options.wall_clocks = seed % 100 == 42;
  const SimResult result = simulate(options);
  ++totals.seeds;
  totals.events += result.events;
  totals.attempts += static_cast<std::uint64_t>(result.attempts);
  totals.nodes += static_cast<std::uint64_t>(result.nodes);
  totals.virtual_ms += static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(result.virtual_time).count());
  totals.sites_fired |= result.sites_fired;
  if (result.violation.empty()) {
    if (arguments.seeds == 1)
      std::printf("seed %llu: %s, %d nodes, %d attempts, %llu events, trace %016llx\n",
                  static_cast<unsigned long long>(seed),
                  std::string(train::to_string(result.outcome)).c_str(), result.nodes,
                  result.attempts, static_cast<unsigned long long>(result.events),
                  static_cast<unsigned long long>(result.trace_hash));
    return;
  }
  ++totals.failed;
  if (arguments.seeds == 1)
    std::printf("%s", result.describe(options).c_str());
  else
    std::printf("train-sim --seed %llu --nodes %d: %s\n", static_cast<unsigned long long>(seed),
                nodes, result.violation.c_str());
  std::fflush(stdout);
}

// Use processes, not threads, so that reference counts within one run need no atomics.
int start_job(const Arguments& arguments, int job) {
  int ends[2];
  if (::pipe(ends) != 0) return -1;
  const pid_t child = ::fork();
  if (child < 0) {
    for (const int end : ends) ::close(end);
    return -1;
  }
  if (child > 0) {
    ::close(ends[1]);
    return ends[0];
  }
  ::close(ends[0]);
  for (std::uint64_t i = static_cast<std::uint64_t>(job); i < arguments.seeds;
       i += static_cast<std::uint64_t>(arguments.jobs)) {
    Totals one;
    run_one(arguments, arguments.options.seed + i, one);
    if (::write(ends[1], &one, sizeof one) != static_cast<ssize_t>(sizeof one)) ::_exit(1);
  }
  ::_exit(0);
}

void add(Totals& sum, const Totals& one) {
  sum.seeds += one.seeds;
  sum.failed += one.failed;
  sum.events += one.events;
  sum.virtual_ms += one.virtual_ms;
  sum.attempts += one.attempts;
  sum.nodes += one.nodes;
  sum.sites_fired |= one.sites_fired;
}

void print_result(const Totals& totals, double wall_s) {
  std::printf(
      "%llu seeds, %llu failed; %llu nodes, %llu attempts, %llu events; %.0f virtual s in %.1f s: "
      "%.0f events/s, %.0f times real time\n",
      static_cast<unsigned long long>(totals.seeds), static_cast<unsigned long long>(totals.failed),
      static_cast<unsigned long long>(totals.nodes),
      static_cast<unsigned long long>(totals.attempts),
      static_cast<unsigned long long>(totals.events), static_cast<double>(totals.virtual_ms) / 1000,
      wall_s, static_cast<double>(totals.events) / wall_s,
      static_cast<double>(totals.virtual_ms) / 1000 / wall_s);
  for (int site = 0; site < kSites && totals.seeds >= 1000; ++site) {
    if ((totals.sites_fired & (1u << site)) == 0)
      std::printf("never fired: %s\n", std::string(to_string(static_cast<Site>(site))).c_str());
  }
}

// A child that dies before it has sent its totals leaves the count short.
Totals run_jobs(const Arguments& arguments) {
  std::vector<pollfd> pipes;
  int broken = 0;
  for (int job = 0; job < arguments.jobs; ++job) {
    pipes.push_back({start_job(arguments, job), POLLIN, 0});
    if (pipes.back().fd >= 0) continue;
    std::perror("train-sim: cannot start a process");
    ++broken;
  }
  Totals totals;
  std::uint64_t told = 0;
  const bool progress = !arguments.quiet && ::isatty(STDERR_FILENO);
  const auto open = [](const pollfd& pipe) { return pipe.fd >= 0; };
  while (std::any_of(pipes.begin(), pipes.end(), open)) {
    if (::poll(pipes.data(), pipes.size(), -1) < 0) break;
    for (pollfd& pipe : pipes) {
      if (!open(pipe) || pipe.revents == 0) continue;
      Totals one;
      if (::read(pipe.fd, &one, sizeof one) != static_cast<ssize_t>(sizeof one)) {
        ::close(pipe.fd);
        pipe.fd = -1;
        continue;
      }
      add(totals, one);
      if (progress && ++told % 50 == 0)
        std::fprintf(stderr, "\r%llu of %llu seeds, %llu failed, %llu events ",
                     static_cast<unsigned long long>(told),
                     static_cast<unsigned long long>(arguments.seeds),
                     static_cast<unsigned long long>(totals.failed),
                     static_cast<unsigned long long>(totals.events));
    }
  }
  for (int status = 0; ::wait(&status) > 0;) broken += status == 0 ? 0 : 1;
  if (progress) std::fputs("\n", stderr);
  if (broken != 0) {
    std::printf("%d of %d processes of the simulation itself did not start, or ended early\n",
                broken, arguments.jobs);
    totals.failed += static_cast<std::uint64_t>(broken);
  }
  return totals;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  arguments.jobs = 0;
  if (!parse(argc, argv, arguments)) return usage();
  if (arguments.jobs == 0)
    arguments.jobs = arguments.seeds == 1
                         ? 1
                         : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const auto began = std::chrono::steady_clock::now();
  Totals totals;
  if (arguments.jobs == 1) {
    for (std::uint64_t i = 0; i < arguments.seeds; ++i)
      run_one(arguments, arguments.options.seed + i, totals);
  } else {
    totals = run_jobs(arguments);
  }
  print_result(totals,
               std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  return totals.failed == 0 ? 0 : 1;
}
