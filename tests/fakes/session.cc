#include "tests/fakes/session.h"

#include <train/checkpoint.h>

#include "sdk/client/ingest.h"

namespace train {

struct Checkpoint::Impl {
  Dict metadata;
};

const Dict& Checkpoint::metadata() const { return impl_->metadata; }

std::optional<Checkpoint> get_checkpoint() {
  const auto& metadata = fakes::session().checkpoint_metadata;
  if (!metadata) return std::nullopt;
  return Checkpoint(std::make_shared<Checkpoint::Impl>(Checkpoint::Impl{*metadata}));
}

int start_epoch() {
  const auto epoch = fakes::session().info.restored_epoch;
  return epoch ? static_cast<int>(*epoch) + 1 : 0;
}

namespace fakes {

FakeSession& session() {
  static FakeSession session;
  return session;
}

}  // namespace fakes

namespace sdk {

const WorkerInfo& worker_info() { return fakes::session().info; }

std::vector<std::string> all_gather(const std::string& name, const std::string& mine,
                                    std::chrono::milliseconds) {
  auto& session = fakes::session();
  session.collectives.push_back(name);
  if (session.gather) return session.gather(name, mine);
  return std::vector<std::string>(static_cast<std::size_t>(session.info.world_size), mine);
}

IngestRoster ingest_roster() { return fakes::session().ingest_roster; }

bool register_ingest_server(ServeIngest) { return true; }

void set_data_position(const std::string& dataset, const DataPosition& position) {
  fakes::session().positions.push_back({dataset, position.epoch, position.rows_consumed});
  fakes::session().order = position.order;
}

std::optional<HistogramCounter> begin_histogram(std::string_view, int) { return std::nullopt; }

void add_histogram(std::string_view, const Histogram&) {}

void at_run_end(void (*)()) {}

void set_preprocessors(const std::string& dataset, std::string fitted) {
  fakes::session().preprocessors[dataset] = std::move(fitted);
}

}  // namespace sdk
}  // namespace train
