// Reports metrics and times each call. Arguments: the number of reports, and the microseconds of
// (busy) work between two of them, or 0 for a loop that does nothing else. Each rank writes a line
// of nanoseconds per call to <folder>/calls-<rank>.txt.
//
//   report_rate REPORTS WORK_MICROSECONDS FOLDER
#include <train/train.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "benchmarks/programs/events.h"

namespace {

void work_for(long long nanoseconds) {
  const long long until = bench::monotonic_ns() + nanoseconds;
  while (bench::monotonic_ns() < until) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s REPORTS WORK_MICROSECONDS FOLDER\n", argv[0]);
    return 2;
  }
  const int reports = std::stoi(argv[1]);
  const long long work_ns = std::stoll(argv[2]) * 1000;
  const std::string folder = argv[3];
  return train::run(argc, argv, [&] {
    std::vector<long long> calls;
    calls.reserve(static_cast<std::size_t>(reports));
    train::barrier();  // both workers begin together
    bench::event("loop_begins");
    for (int step = 0; step < reports; ++step) {
      work_for(work_ns);
      const long long before = bench::monotonic_ns();
      train::report({{"step", step}, {"loss", 1.0 / (step + 1)}});
      calls.push_back(bench::monotonic_ns() - before);
    }
    bench::event("loop_ends");
    std::ofstream file(folder + "/calls-" + std::to_string(train::get_context().world_rank()) +
                       ".txt");
    for (const long long nanoseconds : calls) file << nanoseconds << '\n';
    file.flush();
    if (!file) throw train::Failure("io", "writing the times of the calls to " + folder);
  });
}
