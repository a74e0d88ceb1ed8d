// ingest_handover GIB: what it costs to hand rows from an ingest worker to a rank on the same node.
// A child process serves batches of 512 images of 3,072 bytes and a label that it has in memory;
// this one takes them. Prints the GiB, the seconds, and the seconds on a processor of both.
#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

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

int serve(const std::string& socket) {
  const auto server = IngestServer::start(
      socket,
      [](const OpenPass&) -> Result<std::unique_ptr<PartReader>> {
        return std::unique_ptr<PartReader>(std::make_unique<SameRows>());
      },
      [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); });
  if (server.has_error()) {
    std::fprintf(stderr, "%s\n", server.error().describe().c_str());
    return 1;
  }
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}

double cpu_seconds(int whose) {
  rusage usage{};
  ::getrusage(whose, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

}  // namespace

int main(int argc, char** argv) {
  const double gib = argc > 1 ? std::atof(argv[1]) : 4;
  char folder[] = "/tmp/ingest-handover-XXXXXX";
  if (::mkdtemp(folder) == nullptr) return 1;
  const std::string socket = std::string(folder) + "/a.sock";
  int ends[2];
  if (::pipe(ends) != 0) return 1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[1]);
    ::dup2(ends[0], STDIN_FILENO);
    std::_Exit(serve(socket));
  }
  ::close(ends[0]);

  constexpr double kBatchBytes = kRows * (kImageBytes + 8.0);
  const auto steps = static_cast<std::int64_t>(gib * (1 << 30) / kBatchBytes);
  const UnitLayout layout{.unit_rows = {steps * kRows}, .file_units = {1}, .file_bytes = {1}};
  auto plan = ShardPlan::make({.layout = layout, .batch_sizes = {kRows}});
  if (plan.has_error()) return 1;
  IngestReader reader(
      std::make_shared<const ShardPlan>(std::move(*plan)),
      {.dataset = "train", .batch_sizes = {kRows}, .credit_bytes = 16 << 20},
      {.roster =
           [&] {
             return IngestRoster{1, {{"a", "train", socket, ""}}};
           },
       .connect = [](const IngestEndpoint& one) { return connect_unix_peer(one.socket); },
       .read_alone = []() -> std::unique_ptr<BatchSource> { std::abort(); },
       .leave_out = [](auto, auto, Error) { return Result<Unit>(Unit{}); },
       .count = [](const auto&) {},
       .describe = [](auto, auto) { return std::string(); },
       .say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }},
      nullptr, {.reconnect_after = std::chrono::milliseconds(1)});
  const auto began = std::chrono::steady_clock::now();
  std::uint64_t sum = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    auto batch = reader.read(step);
    if (batch.has_error()) {
      std::fprintf(stderr, "%s\n", batch.error().describe().c_str());
      return 1;
    }
    // A loop looks at its rows: here at a byte of each page.
    const auto& images = static_cast<const arrow::FixedSizeBinaryArray&>(*batch->rows->column(0));
    for (std::int64_t at = 0; at < kRows * kImageBytes; at += 4096) sum += images.raw_values()[at];
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  ::close(ends[1]);
  ::waitpid(child, nullptr, 0);
  std::filesystem::remove_all(folder);
  if (sum == 0) return 1;
  std::printf("%f %f %f\n", static_cast<double>(steps) * kBatchBytes / (1 << 30), took.count(),
              cpu_seconds(RUSAGE_SELF) + cpu_seconds(RUSAGE_CHILDREN));
  return 0;
}
