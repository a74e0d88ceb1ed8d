#include "cmd/train-data/bench.h"

#include <arrow/record_batch.h>
#include <arrow/util/byte_size.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <system_error>
#include <thread>

#include "cmd/train-data/datasets.h"
#include "cmd/train-data/table.h"
#include "lib/base/terminal_text.h"
#include "lib/base/thread.h"
#include "lib/data/batch_reader.h"
#include "lib/data/plan/choose_order.h"
#include "lib/model/built_in_maps.h"
#include "sdk/data/cursor.h"
#include "sdk/data/map_chain.h"

namespace train {
namespace {

using Clock = std::chrono::steady_clock;
using Rows = std::shared_ptr<arrow::RecordBatch>;

double seconds_since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

/// Adds up the work of one operator of one worker.
class Meter {
 public:
  /// Call `work`, and count the rows that `rows_of` finds in what it returns.
  template <class Work, class RowsOf>
  auto measure(const Work& work, const RowsOf& rows_of) {
    const Clock::time_point begun = Clock::now();
    auto result = work();
    busy += seconds_since(begun);
    if (result.has_value()) count(*rows_of(*result));
    return result;
  }
  void count(const arrow::RecordBatch& batch) {
    rows += batch.num_rows();
    const auto size = arrow::util::ReferencedBufferSize(batch);
    if (size.ok()) bytes += *size;
  }

  std::int64_t rows = 0, bytes = 0;
  double busy = 0;
};

/// Measures what a source decodes.
class MeasuredStream final : public data::UnitStream {
 public:
  MeasuredStream(std::unique_ptr<data::UnitStream> stream, Meter& meter)
      : stream_(std::move(stream)), meter_(meter) {}
  Result<arrow::RecordBatchVector> pieces(std::int64_t rows) override {
    const Clock::time_point begun = Clock::now();
    auto decoded = stream_->pieces(rows);
    meter_.busy += seconds_since(begun);
    if (decoded.has_value())
      for (const Rows& piece : *decoded) meter_.count(*piece);
    return decoded;
  }

 private:
  std::unique_ptr<data::UnitStream> stream_;
  Meter& meter_;
};

/// A source whose decoding is measured, by the one worker that uses it.
class MeasuredSource final : public data::RowSource {
 public:
  MeasuredSource(std::shared_ptr<const data::RowSource> source, Meter& meter)
      : source_(std::move(source)), meter_(meter) {}
  const std::vector<std::int64_t>& unit_rows() const override { return source_->unit_rows(); }
  const std::vector<data::FileRows>& files() const override { return source_->files(); }
  std::int64_t decoded_bytes() const override { return source_->decoded_bytes(); }
  const std::shared_ptr<arrow::Schema>& schema() const override { return source_->schema(); }
  bool reads_rows() const override { return source_->reads_rows(); }
  std::string describe(std::int64_t unit, std::int64_t row) const override {
    return source_->describe(unit, row);
  }
  Result<std::unique_ptr<data::UnitStream>> open(std::int64_t unit,
                                                 std::int64_t rows_at_once) const override {
    const Clock::time_point begun = Clock::now();
    auto stream = source_->open(unit, rows_at_once);
    meter_.busy += seconds_since(begun);
    if (stream.has_error()) return stream;
    return std::make_unique<MeasuredStream>(std::move(*stream), meter_);
  }
  Result<Rows> read_rows(std::int64_t unit, const std::vector<std::int64_t>& rows) const override {
    return meter_.measure([&] { return source_->read_rows(unit, rows); },
                          [](const Rows& read) { return read; });
  }

 private:
  std::shared_ptr<const data::RowSource> source_;
  Meter& meter_;
};

/// Rows as a map finds them, which have the places of the source's.
class RowsBeforeMap final : public data::RowSource {
 public:
  RowsBeforeMap(std::shared_ptr<const data::RowSource> source, Rows rows)
      : source_(std::move(source)), rows_(std::move(rows)) {}
  const std::vector<std::int64_t>& unit_rows() const override { return rows_.unit_rows(); }
  const std::vector<data::FileRows>& files() const override { return rows_.files(); }
  std::int64_t decoded_bytes() const override { return rows_.decoded_bytes(); }
  const std::shared_ptr<arrow::Schema>& schema() const override { return rows_.schema(); }
  std::string describe(std::int64_t unit, std::int64_t row) const override {
    return source_->describe(unit, row);
  }
  Result<std::unique_ptr<data::UnitStream>> open(std::int64_t unit,
                                                 std::int64_t rows_at_once) const override {
    return rows_.open(unit, rows_at_once);
  }

 private:
  std::shared_ptr<const data::RowSource> source_;
  data::MemorySource rows_;
};

/// One map of the dataset, in a chain of its own.
struct BenchedMap {
  std::string name;
  std::shared_ptr<const sdk::MapChain> chain;
};

/// What all workers share.
struct Setup {
  sdk::DatasetSpec spec;
  std::shared_ptr<const data::RowSource> source = {};
  sdk::DatasetLayout layout = {};
  data::OrderSpec order = {};
  std::vector<BenchedMap> maps = {};
  std::vector<std::int64_t> batch_sizes = {};  // of the workers
  double seconds = 0;
};

/// Make a chain of each map that is known, for the columns that the one before it makes of `rows`.
Result<Unit> add_maps(const std::string& name, const FirstRows& first, Setup& setup) {
  data::ReadBatch batch{.rows = first.rows,
                        .valid_rows = first.rows->num_rows(),
                        .rows_consumed = 0,
                        .ranges = first.ranges};
  if (!setup.spec.preprocessors.empty()) return Unit{};
  for (const sdk::MapStep& step : setup.spec.maps) {
    if (built_in_map(step.name) == nullptr) return Unit{};
    sdk::DatasetSpec one = setup.spec;
    one.maps = {step};
    const auto before = std::make_shared<RowsBeforeMap>(setup.source, batch.rows);
    TRY(auto chain, sdk::MapChain::make(name, one, before));
    TRY(batch, chain->apply(std::move(batch), 0));
    setup.maps.push_back({step.name, std::move(chain)});
  }
  return Unit{};
}

/// One of the workers.
class Worker {
 public:
  Worker(const Setup& setup, int rank) : setup_(setup), rank_(rank), maps_(setup.maps.size()) {}

  void run() {
    auto done = read_until(Clock::now());
    if (done.has_error()) failed_ = std::move(done).error();
  }

  const std::optional<Error>& failed() const { return failed_; }
  void add_to(Benched& benched) const {
    benched.rows += rows_;
    benched.bytes += bytes_;
    benched.passes += passes_;
    benched.seconds = std::max(benched.seconds, seconds_);
    std::vector<std::pair<std::string, Meter>> meters{{"decode", decode_}, {"gather", gather_}};
    meters[1].second.busy = std::max(0.0, gather_.busy - decode_.busy);
    for (std::size_t i = 0; i < maps_.size(); ++i)
      meters.emplace_back("map " + setup_.maps[i].name, maps_[i]);
    benched.operators.resize(meters.size());
    for (std::size_t i = 0; i < meters.size(); ++i) {
      BenchedOperator& all = benched.operators[i];
      const auto& [name, meter] = meters[i];
      all.name = name;
      all.rows += meter.rows;
      all.bytes += meter.bytes;
      all.busy += meter.busy;
    }
  }

 private:
  Result<Unit> read_until(Clock::time_point begun) {
    const auto source = std::make_shared<MeasuredSource>(setup_.source, decode_);
    for (std::uint64_t epoch = 0;; ++epoch, ++passes_) {
      TRY(auto plan, data::ShardPlan::make({.layout = setup_.layout.units,
                                            .batch_sizes = setup_.batch_sizes,
                                            .rank = rank_,
                                            .order = setup_.order,
                                            .epoch = epoch}));
      const std::int64_t batches = plan.batches();
      data::BatchReader reader(source, std::move(plan));
      for (std::int64_t index = 0; index < batches; ++index) {
        TRY_VOID(read_batch(reader, index, epoch));
        seconds_ = seconds_since(begun);
        if (seconds_ >= setup_.seconds) return Unit{};
      }
    }
  }

  Result<Unit> read_batch(data::BatchReader& reader, std::int64_t index, std::uint64_t epoch) {
    const auto rows_of = [](const data::ReadBatch& batch) { return batch.rows; };
    // This includes what is decoded for it.
    TRY(auto batch, gather_.measure([&] { return reader.read(index); }, rows_of));
    for (std::size_t i = 0; i < maps_.size(); ++i) {
      auto mapped = maps_[i].measure(
          [&] { return setup_.maps[i].chain->apply(std::move(batch), epoch); }, rows_of);
      if (mapped.has_error()) return std::move(mapped).error();
      batch = std::move(*mapped);
    }
    rows_ += batch.valid_rows;
    bytes_ = maps_.empty() ? gather_.bytes : maps_.back().bytes;
    return Unit{};
  }

  const Setup& setup_;
  const int rank_;
  Meter decode_, gather_;
  std::vector<Meter> maps_;
  std::int64_t rows_ = 0, bytes_ = 0, passes_ = 0;
  double seconds_ = 0;
  std::optional<Error> failed_;
};

/// Run each worker on a thread of its own.
Result<Unit> run_all(std::vector<Worker>& workers) {
  std::vector<std::thread> threads;
  Result<Unit> started = Unit{};
  try {
    for (Worker& worker : workers)
      threads.push_back(start_thread("bench", [&worker] { worker.run(); }));
  } catch (const std::system_error& why) {
    started = Error{Errc::ResourceExhausted, fmt::format("starting a thread: {}", why.what())};
  }
  for (std::thread& thread : threads) thread.join();
  return started;
}

Result<Setup> set_up(const std::string& name, const Value& entry, const BenchOptions& options) {
  TRY(sdk::DatasetSpec spec, read_dataset_spec(entry));
  Setup setup{.spec = std::move(spec), .seconds = options.seconds};
  TRY(setup.source, sdk::open_dataset(setup.spec));
  setup.layout = sdk::layout_of(*setup.source);
  const int readers = setup.spec.split ? options.workers : 1;
  setup.batch_sizes.assign(static_cast<std::size_t>(readers), options.batch_size);
  TRY(setup.order, data::choose_order(setup.spec.order,
                                      {.rows = setup.source->total_rows(),
                                       .decoded_bytes = setup.source->decoded_bytes(),
                                       .reads_rows = setup.source->reads_rows()},
                                      readers, std::nullopt));
  TRY(const FirstRows first, first_rows(*setup.source, 1));
  TRY_VOID(add_maps(name, first, setup));
  return setup;
}

double rate(std::int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

std::string megabytes(std::int64_t bytes, double seconds) {
  return fmt::format("{:.1f}", rate(bytes, seconds) / 1e6);
}

}  // namespace

Result<Benched> bench_dataset(const std::string& name, const Value& entry,
                              const BenchOptions& options) {
  TRY(const Setup setup, set_up(name, entry, options));
  Benched benched{.name = name, .workers = options.workers};
  if (!setup.spec.preprocessors.empty()) {
    benched.without = setup.spec.preprocessors.front().name;
    benched.fits = true;
  } else if (setup.maps.size() < setup.spec.maps.size()) {
    benched.without = setup.spec.maps[setup.maps.size()].name;
  }
  std::vector<Worker> workers;
  workers.reserve(static_cast<std::size_t>(options.workers));
  for (int rank = 0; rank < options.workers; ++rank)
    workers.emplace_back(setup, setup.spec.split ? rank : 0);
  TRY_VOID(run_all(workers));
  for (const Worker& worker : workers) {
    if (worker.failed()) return *worker.failed();
    worker.add_to(benched);
  }
  return benched;
}

std::string bench_text(const Benched& benched) {
  std::string text =
      fmt::format("dataset {}: {} for {:.1f} s: {:.0f} rows/s, {} MB/s\n",
                  terminal_safe(benched.name), counted(benched.workers, "worker"), benched.seconds,
                  rate(benched.rows, benched.seconds), megabytes(benched.bytes, benched.seconds));
  if (!benched.without.empty()) {
    text += fmt::format(
        "  without {} and what follows it: {}\n", terminal_safe(benched.without),
        benched.fits ? "it is fitted when a run begins" : "only the program has this map");
  }
  Table table{.head = {"operator", "busy", "rows/s at work", "MB/s at work"},
              .right = {false, true, true, true}};
  const double all = benched.seconds * benched.workers;
  for (const BenchedOperator& one : benched.operators) {
    table.rows.push_back({one.name, fmt::format("{:.1f} %", all > 0 ? 100 * one.busy / all : 0),
                          fmt::format("{:.0f}", rate(one.rows, one.busy)),
                          megabytes(one.bytes, one.busy)});
  }
  return text + "\n" + table_text(table, "  ");
}

Value bench_json(const Benched& benched) {
  List operators;
  for (const BenchedOperator& one : benched.operators) {
    operators.emplace_back(Dict{
        {"name", one.name}, {"rows", one.rows}, {"bytes", one.bytes}, {"busy_seconds", one.busy}});
  }
  return Dict{{"name", benched.name},
              {"workers", benched.workers},
              {"seconds", benched.seconds},
              {"rows", benched.rows},
              {"bytes", benched.bytes},
              {"passes", benched.passes},
              {"rows_per_second", rate(benched.rows, benched.seconds)},
              {"bytes_per_second", rate(benched.bytes, benched.seconds)},
              {"operators", std::move(operators)},
              {"without", benched.without.empty() ? Value() : Value(benched.without)}};
}

}  // namespace train
