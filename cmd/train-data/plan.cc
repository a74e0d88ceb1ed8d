#include "cmd/train-data/plan.h"

#include <arrow/record_batch.h>
#include <arrow/util/byte_size.h>
#include <fmt/format.h>

#include <algorithm>

#include "cmd/train-data/datasets.h"
#include "cmd/train-data/table.h"
#include "lib/base/size_text.h"
#include "lib/base/terminal_text.h"
#include "lib/data/plan/choose_order.h"
#include "lib/data/plan/shard_plan.h"
#include "sdk/data/cursor.h"

namespace train {
namespace {

constexpr std::int64_t kSampledRows = 64;
constexpr double kBatchesHeld = 4;  // two that are ready, one being made, one that the loop has

struct RowBytes {
  double decoded = 0;  // of a row as the files have it
  double batch = 0;    // of a row in a batch, after the maps that are known
};

/// Return how many bytes a row has. Maps that fail here are a matter of `inspect`.
Result<RowBytes> row_bytes(const std::string& name, const sdk::DatasetSpec& spec,
                           const std::shared_ptr<const data::RowSource>& source) {
  const auto rows = static_cast<double>(std::max<std::int64_t>(1, source->total_rows()));
  RowBytes bytes{.decoded = static_cast<double>(source->decoded_bytes()) / rows};
  bytes.batch = bytes.decoded;
  if (spec.maps.empty() && spec.format != "items") return bytes;
  TRY(const FirstRows first, first_rows(*source, kSampledRows));
  if (!first.rows) return bytes;
  const auto maps = apply_known_maps(name, spec, source, first);
  const auto& mapped = maps.has_value() ? maps->rows : first.rows;
  const auto sampled = arrow::util::ReferencedBufferSize(*mapped);
  if (sampled.ok())
    bytes.batch = static_cast<double>(*sampled) / static_cast<double>(mapped->num_rows());
  if (spec.format == "items") bytes.decoded = bytes.batch;
  return bytes;
}

/// Return the bytes of each unit in the files.
std::vector<double> unit_bytes(const data::RowSource& source, bool pictures) {
  std::vector<double> bytes(source.unit_rows().size());
  if (pictures) {  // one entry stands for all files; decoded, the rows are the files' bytes
    const double of_row = static_cast<double>(source.decoded_bytes()) /
                          static_cast<double>(std::max<std::int64_t>(1, source.total_rows()));
    for (std::size_t unit = 0; unit < bytes.size(); ++unit)
      bytes[unit] = of_row * static_cast<double>(source.unit_rows()[unit]);
    return bytes;
  }
  std::size_t unit = 0;
  for (const data::FileRows& file : source.files()) {
    const double of_row =
        static_cast<double>(file.bytes) / static_cast<double>(std::max<std::int64_t>(1, file.rows));
    for (std::int64_t i = 0; i < file.units && unit < bytes.size(); ++i, ++unit)
      bytes[unit] = of_row * static_cast<double>(source.unit_rows()[unit]);
  }
  return bytes;
}

/// Return about how many bytes a rank holds: the blocks of its lanes, for each of them what is
/// decoded at once, and the batches.
double memory_of(const data::ShardPlan& plan, const data::RowSource& source,
                 const data::OrderSpec& order, bool streams_units, const RowBytes& row,
                 std::int64_t batch_size) {
  const auto& units = source.unit_rows();
  const double largest =
      units.empty() ? 0 : static_cast<double>(*std::max_element(units.begin(), units.end()));
  const auto batch_rows = static_cast<double>(std::min(batch_size, source.total_rows()));
  const double batches = kBatchesHeld * batch_rows * row.batch;
  const auto open = static_cast<double>(plan.open_blocks());
  if (plan.reads_single_rows()) return batches;
  if (order.shuffle == data::Shuffle::Rows)
    return static_cast<double>(source.decoded_bytes()) + batches;
  const double block =
      order.block_rows > 0 ? std::min(static_cast<double>(order.block_rows), largest) : largest;
  const double decoding = streams_units ? block : largest;
  return open * (block + decoding) * row.decoded + batches;
}

std::string order_text(const data::OrderSpec& order) {
  const bool one_by_one = order.shuffle == data::Shuffle::Rows && order.block_rows == 1;
  switch (order.shuffle) {
    case data::Shuffle::None:
      return "that of the files";
    case data::Shuffle::Files:
      return fmt::format("files in random order, seed {}", order.seed);
    case data::Shuffle::Window:
      return fmt::format("units in random order, rows mixed over a window, seed {}", order.seed);
    case data::Shuffle::Rows:
      return fmt::format("all rows mixed{}, seed {}", one_by_one ? " and read one by one" : "",
                         order.seed);
  }
  return "";
}

}  // namespace

Result<DatasetPlan> plan_dataset(const std::string& name, const Value& entry,
                                 const PlanOptions& options) {
  TRY(const sdk::DatasetSpec spec, read_dataset_spec(entry));
  TRY(const auto source, sdk::open_dataset(spec));
  const sdk::DatasetLayout layout = sdk::layout_of(*source);
  DatasetPlan plan{.name = name,
                   .split = spec.split,
                   .rows = source->total_rows(),
                   .units = static_cast<std::int64_t>(source->unit_rows().size()),
                   .digest = layout.digest,
                   .batch_size = options.batch_size};
  const int readers = spec.split ? options.workers : 1;
  TRY(plan.order, data::choose_order(spec.order,
                                     {.rows = plan.rows,
                                      .decoded_bytes = source->decoded_bytes(),
                                      .reads_rows = source->reads_rows()},
                                     readers, std::nullopt));
  TRY(const RowBytes row, row_bytes(name, spec, source));
  TRY(const FileNames names, file_names(spec));
  const std::vector<double> bytes = unit_bytes(*source, names.format == data::FileFormat::Images);
  const std::vector<std::int64_t> batch_sizes(static_cast<std::size_t>(readers),
                                              options.batch_size);
  for (int rank = 0; rank < readers; ++rank) {
    TRY(const data::ShardPlan share, data::ShardPlan::make({.layout = layout.units,
                                                            .batch_sizes = batch_sizes,
                                                            .rank = rank,
                                                            .order = plan.order}));
    plan.steps = share.batches();
    const std::vector<std::int64_t> units = share.own_units();
    double read = 0;
    for (const std::int64_t unit : units) read += bytes[static_cast<std::size_t>(unit)];
    plan.ranks.push_back({.rows = share.share_rows(),
                          .units = static_cast<std::int64_t>(units.size()),
                          .bytes = static_cast<std::int64_t>(read),
                          .lanes = share.own_lanes().count,
                          .memory = static_cast<std::int64_t>(memory_of(
                              share, *source, plan.order, names.format == data::FileFormat::Parquet,
                              row, options.batch_size))});
  }
  return plan;
}

std::string plan_text(const DatasetPlan& plan) {
  std::string text = fmt::format(
      "dataset {}: {}, {}; {}\n", terminal_safe(plan.name), counted(plan.rows, "row"),
      counted(plan.units, "unit"),
      plan.split ? fmt::format("split among {}",
                               counted(static_cast<std::int64_t>(plan.ranks.size()), "worker"))
                 : "not split: each worker reads all rows");
  text += fmt::format("  order: {}\n", order_text(plan.order));
  text += fmt::format("  lanes: {}", plan.order.lanes);
  if (plan.order.shuffle != data::Shuffle::Rows && plan.order.block_rows > 0)
    text += fmt::format(", blocks of {}", counted(plan.order.block_rows, "row"));
  text += fmt::format("\n  steps: {} an epoch, of {} a worker\n", plan.steps,
                      counted(plan.batch_size, "row"));
  text += fmt::format("  digest: {}\n\n", plan.digest);
  Table table{.head = {"rank", "rows", "units", "bytes", "lanes", "memory"},
              .right = {true, true, true, true, true, true}};
  const auto size = [](std::int64_t bytes) { return size_text(static_cast<std::uint64_t>(bytes)); };
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const RankPlan& of = plan.ranks[rank];
    table.rows.push_back({plan.split ? std::to_string(rank) : "each", std::to_string(of.rows),
                          std::to_string(of.units), size(of.bytes), std::to_string(of.lanes),
                          size(of.memory)});
  }
  return text + table_text(table, "  ");
}

Value plan_json(const DatasetPlan& plan) {
  List ranks;
  for (const RankPlan& of : plan.ranks) {
    ranks.emplace_back(Dict{{"rows", of.rows},
                            {"units", of.units},
                            {"bytes", of.bytes},
                            {"lanes", of.lanes},
                            {"memory_bytes", of.memory}});
  }
  return Dict{{"name", plan.name},
              {"split", plan.split},
              {"rows", plan.rows},
              {"units", plan.units},
              {"digest", plan.digest},
              {"shuffle", std::string(data::to_string(plan.order.shuffle))},
              {"seed", static_cast<std::int64_t>(plan.order.seed)},
              {"lanes", plan.order.lanes},
              {"block_rows", plan.order.block_rows},
              {"batch_size", plan.batch_size},
              {"steps", plan.steps},
              {"ranks", std::move(ranks)}};
}

}  // namespace train
