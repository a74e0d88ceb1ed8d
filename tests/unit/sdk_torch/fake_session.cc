#include "tests/unit/sdk_torch/fake_session.h"

#include "sdk/include/train/checkpoint.h"

namespace train {

struct Checkpoint::Impl {
  Dict metadata;
};

const Dict& Checkpoint::metadata() const { return impl_->metadata; }

std::optional<Dict>& testing::fake_checkpoint() {
  static std::optional<Dict> metadata;
  return metadata;
}

std::optional<Checkpoint> get_checkpoint() {
  const auto& metadata = testing::fake_checkpoint();
  if (!metadata) return std::nullopt;
  return Checkpoint(std::make_shared<Checkpoint::Impl>(Checkpoint::Impl{*metadata}));
}

Dict& testing::told_positions() {
  static Dict positions;
  return positions;
}

void sdk::set_data_position(const std::string& dataset, const DataPosition& position) {
  testing::told_positions()[dataset] = Dict{{"epoch", static_cast<std::int64_t>(position.epoch)},
                                            {"rows", position.rows_consumed},
                                            {"order", *position.order}};
}

sdk::WorkerInfo& testing::fake_worker() {
  static sdk::WorkerInfo info;
  return info;
}

const sdk::WorkerInfo& sdk::worker_info() { return testing::fake_worker(); }

Histograms& testing::kept_histograms() {
  static Histograms kept;
  return kept;
}

std::optional<HistogramCounter> sdk::begin_histogram(std::string_view, int bins) {
  if (testing::fake_worker().rank != 0) return std::nullopt;
  return HistogramCounter(static_cast<std::size_t>(bins));
}

void sdk::at_run_end(void (*)()) {}

void sdk::add_histogram(std::string_view name, const Histogram& histogram) {
  testing::kept_histograms().emplace_back(name, histogram);
}

int start_epoch() {
  const auto epoch = testing::fake_worker().restored_epoch;
  return epoch ? static_cast<int>(*epoch) + 1 : 0;
}

}  // namespace train
