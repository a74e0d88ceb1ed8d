// ingest_handover GIB HOW: what it costs to hand rows from an ingest worker to a rank, on one node.
// HOW: memory (over shared memory), flight (over Flight on loopback), tls (the same, encrypted, as
// between nodes). A child process serves batches of 512 images of 3,072 bytes and a label that it
// has in memory; this one takes them. Prints the GiB, the seconds, and the seconds on a processor
// of both.
//
// ingest_handover stall HOW: six children serve, five of which are killed, one after the other.
// Prints for each kill the longest time in milliseconds that a batch took after it.
#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "lib/data/serve/flight_module.h"
#include "lib/data/serve/ingest_reader.h"
#include "lib/data/serve/ingest_server.h"

namespace {

using namespace train;
using namespace train::data;

constexpr std::int64_t kRows = 512;
constexpr int kImageBytes = 3072;

std::shared_ptr<arrow::RecordBatch> some_rows() {
  arrow::FixedSizeBinaryBuilder images(arrow::fixed_size_binary(kImageBytes));
  arrow::Int64Builder labels;
  const std::string image(kImageBytes, 'x');
  for (std::int64_t row = 0; row < kRows; ++row)
    if (!images.Append(image).ok() || !labels.Append(row).ok()) std::abort();
  return arrow::RecordBatch::Make(
      arrow::schema({arrow::field("image", images.type()), arrow::field("label", arrow::int64())}),
      kRows, {*images.Finish(), *labels.Finish()});
}

class SameRows final : public PartReader {
 public:
  Result<PartRows> read(std::int64_t, const AddressSet&) override {
    return PartRows{.rows = rows_};
  }

 private:
  const std::shared_ptr<arrow::RecordBatch> rows_ = some_rows();
};

/// Serve, and write to `up` how to reach the Flight server, ended by a zero byte.
int serve(const std::string& socket, const std::string& how, int up) {
  const auto say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  const auto server = IngestServer::start(
      socket,
      [](const OpenPass&) -> Result<std::unique_ptr<PartReader>> {
        return std::unique_ptr<PartReader>(std::make_unique<SameRows>());
      },
      say);
  if (server.has_error()) return say(server.error().describe()), 1;
  std::unique_ptr<FlightServer> flight;
  std::string text;
  if (how != "memory") {
    auto started = start_flight_server(
        {.host = "127.0.0.1", .tls = how == "tls", .serve = [&](RankChannel& channel) {
           (*server)->serve_rank(channel);
         }});
    if (started.has_error()) return say(started.error().describe()), 1;
    flight = std::move(*started);
    text = text_of(flight->access());
  }
  if (::write(up, text.c_str(), text.size() + 1) < 0) return 1;
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  (*server)->stop();
  return 0;
}

/// A child process that serves, until it is destroyed.
class Served {
 public:
  Served(const std::string& folder, const std::string& name, const std::string& how)
      : endpoint_{name, "train", folder + "/" + name, ""} {
    int in[2], up[2];
    if (::pipe(in) != 0 || ::pipe(up) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(in[1]);
      ::dup2(in[0], STDIN_FILENO);
      std::_Exit(serve(endpoint_.socket, how, up[1]));
    }
    ::close(in[0]);
    ::close(up[1]);
    in_ = in[1];
    char byte = 0;
    while (::read(up[0], &byte, 1) == 1 && byte != 0) endpoint_.flight += byte;
    ::close(up[0]);
    if (how != "memory") endpoint_.socket.clear();
  }
  ~Served() {
    ::close(in_);
    ::waitpid(pid_, nullptr, 0);
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;
  void kill() const { ::kill(pid_, SIGKILL); }
  const IngestEndpoint& endpoint() const { return endpoint_; }

 private:
  IngestEndpoint endpoint_;
  pid_t pid_ = -1;
  int in_ = -1;
};

Result<std::unique_ptr<IngestPeer>> connect(const IngestEndpoint& one) {
  if (!one.socket.empty()) return connect_unix_peer(one.socket);
  TRY(const FlightAccess access, read_flight_access(one.flight));
  return connect_flight_peer(access);
}

IngestReader reader_of(std::int64_t steps, const std::vector<std::unique_ptr<Served>>& served) {
  const UnitLayout layout{.unit_rows = {steps * kRows}, .file_units = {1}, .file_bytes = {1}};
  auto plan = ShardPlan::make({.layout = layout, .batch_sizes = {kRows}});
  if (plan.has_error()) std::abort();
  IngestRoster roster{1, {}};
  for (const auto& one : served) roster.endpoints.push_back(one->endpoint());
  return IngestReader(
      std::make_shared<const ShardPlan>(std::move(*plan)),
      {.dataset = "train", .batch_sizes = {kRows}, .credit_bytes = 16 << 20},
      {.roster = [roster] { return roster; },
       .connect = connect,
       .read_alone = []() -> std::unique_ptr<BatchSource> { std::abort(); },
       .leave_out = [](auto, auto, Error) { return Result<Unit>(Unit{}); },
       .count = [](const auto&) {},
       .describe = [](auto, auto) { return std::string(); },
       .say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }},
      nullptr, {.reconnect_after = std::chrono::milliseconds(10)});
}

/// Read a step as a loop does, which looks at its rows: here at a byte of each page.
std::uint64_t look_at(IngestReader& reader, std::int64_t step) {
  auto batch = reader.read(step);
  if (batch.has_error()) {
    std::fprintf(stderr, "%s\n", batch.error().describe().c_str());
    std::exit(1);
  }
  std::uint64_t sum = 0;
  const auto& images = static_cast<const arrow::FixedSizeBinaryArray&>(*batch->rows->column(0));
  for (std::int64_t at = 0; at < kRows * kImageBytes; at += 4096) sum += images.raw_values()[at];
  return sum;
}

double cpu_seconds(int whose) {
  rusage usage{};
  ::getrusage(whose, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

using Seconds = std::chrono::duration<double>;

int hand_over(double gib, const std::string& folder, const std::string& how) {
  constexpr double kBatchBytes = kRows * (kImageBytes + 8.0);
  const auto steps = static_cast<std::int64_t>(gib * (1 << 30) / kBatchBytes);
  Seconds took{};
  std::uint64_t sum = 0;
  {
    std::vector<std::unique_ptr<Served>> served;
    served.push_back(std::make_unique<Served>(folder, "a", how));
    IngestReader reader = reader_of(steps, served);
    const auto began = std::chrono::steady_clock::now();
    for (std::int64_t step = 0; step < steps; ++step) sum += look_at(reader, step);
    took = std::chrono::steady_clock::now() - began;
  }
  if (sum == 0) return 1;
  std::printf("%f %f %f\n", static_cast<double>(steps) * kBatchBytes / (1 << 30), took.count(),
              cpu_seconds(RUSAGE_SELF) + cpu_seconds(RUSAGE_CHILDREN));
  return 0;
}

int stall(const std::string& folder, const std::string& how) {
  constexpr int kKills = 5;
  constexpr std::int64_t kStepsEach = 400;  // that follow a kill
  std::vector<std::unique_ptr<Served>> served;
  for (int one = 0; one <= kKills; ++one)
    served.push_back(
        std::make_unique<Served>(folder, std::string(1, static_cast<char>('a' + one)), how));
  IngestReader reader = reader_of((kKills + 1) * kStepsEach, served);
  std::int64_t step = 0;
  while (step < kStepsEach) (void)look_at(reader, step++);
  for (int one = 0; one < kKills; ++one) {
    served[static_cast<std::size_t>(one)]->kill();
    Seconds longest{};
    for (const std::int64_t end = step + kStepsEach; step < end; ++step) {
      const auto began = std::chrono::steady_clock::now();
      (void)look_at(reader, step);
      longest = std::max<Seconds>(longest, std::chrono::steady_clock::now() - began);
    }
    std::printf("%s%.3f", one == 0 ? "" : " ", longest.count() * 1000);
  }
  std::puts("");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "4", how = argc > 2 ? argv[2] : "memory";
  char folder[] = "/tmp/ingest-handover-XXXXXX";
  if (::mkdtemp(folder) == nullptr) return 1;
  const int code =
      what == "stall" ? stall(folder, how) : hand_over(std::atof(what.c_str()), folder, how);
  std::filesystem::remove_all(folder);
  return code;
}
