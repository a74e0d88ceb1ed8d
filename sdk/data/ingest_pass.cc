#include "sdk/data/ingest_pass.h"

#include <algorithm>
#include <cstdio>

#include "lib/data/serve/flight_module.h"
#include "lib/data/serve/ingest_reader.h"
#include "sdk/client/session.h"
#include "sdk/data/failure.h"

namespace train::sdk {
namespace {

constexpr std::int64_t kCreditBytesMin = 4 << 20;

/// Reads a rank's own batches, with their maps.
class MappedReader final : public data::BatchSource {
 public:
  MappedReader(std::shared_ptr<const data::RowSource> source,
               std::shared_ptr<const data::ReadPlan> plan, std::shared_ptr<const MapChain> maps,
               std::uint64_t epoch, std::shared_ptr<DatasetMeters> meters)
      : reader_(std::move(source), std::move(plan), meters),
        maps_(std::move(maps)),
        epoch_(epoch),
        meters_(std::move(meters)) {}
  Result<data::ReadBatch> read(std::int64_t index) override {
    TRY(auto batch, reader_.read(index));
    return maps_->apply(std::move(batch), epoch_, meters_.get());
  }

 private:
  data::BatchReader reader_;
  std::shared_ptr<const MapChain> maps_;
  const std::uint64_t epoch_;
  std::shared_ptr<DatasetMeters> meters_;
};

/// Count what operators have done in an ingest worker with those of this rank: all from decode to
/// the last map. What finds the files, and what holds batches, is each process's own.
void count_shares(DatasetMeters& meters, const std::vector<data::OperatorShare>& shares) {
  if (shares.size() != meters.size()) return;  // another spec: it cannot be, unless a peer lies
  for (std::size_t at = 1; at + 2 < shares.size(); ++at) {
    meters.at(at).passed(shares[at].rows, shares[at].bytes);
    meters.at(at).worked(shares[at].busy_ns);
  }
}

Result<std::unique_ptr<data::IngestPeer>> connect(const IngestEndpoint& endpoint) {
  if (!endpoint.socket.empty()) return data::connect_unix_peer(endpoint.socket);
  TRY(const data::FlightAccess access, data::read_flight_access(endpoint.flight));
  return data::connect_flight_peer(access);
}

}  // namespace

std::unique_ptr<data::BatchSource> ingest_reader(const DatasetShard::Impl& shard,
                                                 std::shared_ptr<const data::ShardPlan> plan,
                                                 data::OpenPass pass, std::int64_t prefetch_bytes) {
  pass.dataset = shard.name;
  pass.layout = shard.layout.digest;
  pass.rank = shard.rank;
  pass.credit_bytes = std::max(kCreditBytesMin, prefetch_bytes / 2);
  if (shard.preprocessors) pass.preprocessors = value_or_throw(format_fitted(*shard.preprocessors));
  const std::uint64_t epoch = pass.epoch;
  data::IngestReader::Uses uses{
      .roster = [] { return ingest_roster(); },
      .connect = connect,
      .read_alone =
          [source = shard.source, plan, maps = shard.maps, epoch, meters = shard.meters] {
            return std::make_unique<MappedReader>(source, plan, maps, epoch, meters);
          },
      .leave_out = [maps = shard.maps](
                       std::int64_t unit, std::int64_t row,
                       Error why) { return maps->leave_out(unit, row, std::move(why)); },
      .count =
          [meters = shard.meters](const std::vector<data::OperatorShare>& shares) {
            count_shares(*meters, shares);
          },
      .describe = [source = shard.source](std::int64_t unit,
                                          std::int64_t row) { return source->describe(unit, row); },
      .reads_alone = shard.reads_alone,
      .deadly_units = shard.deadly_units,
      .say =
          [name = shard.name](const std::string& line) {
            std::fprintf(stderr, "trainrun: dataset '%s': %s\n", name.c_str(), line.c_str());
          }};
  return std::make_unique<data::IngestReader>(std::move(plan), std::move(pass), std::move(uses),
                                              shard.meters);
}

}  // namespace train::sdk
