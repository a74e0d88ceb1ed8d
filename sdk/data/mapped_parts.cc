#include "sdk/data/mapped_parts.h"

#include <fmt/format.h>

#include "lib/data/serve/lane_reader.h"
#include "lib/progress/progress_clock.h"
#include "sdk/data/failure.h"
#include "sdk/data/preprocessing.h"

namespace train::sdk {
namespace {

/// Counts what the operators do for one rank.
struct CountedPage {
  DataPage page;  // nobody else reads it
  std::shared_ptr<DatasetMeters> meters;
};

class MappedParts final : public data::PartReader {
 public:
  MappedParts(std::unique_ptr<data::LaneReader> reader, std::shared_ptr<const MapChain> maps,
              std::uint64_t epoch, std::unique_ptr<CountedPage> counted)
      : counted_(std::move(counted)),
        reader_(std::move(reader)),
        maps_(std::move(maps)),
        epoch_(epoch) {}

  Result<data::PartRows> read(std::int64_t step, const data::AddressSet& addresses) override {
    TRY(auto batch, reader_->read(step, addresses));
    TRY(auto part, maps_->apply_to_part(std::move(batch), epoch_, counted_->meters.get()));
    part.operators = shares();
    return part;
  }

 private:
  /// Return what the operators have done since the last call.
  std::vector<data::OperatorShare> shares() {
    std::vector<data::OperatorShare> done;
    for (const DataOperator& one : counted_->meters->read(progress_now()))
      done.push_back({one.rows, one.bytes, one.busy_us * 1000});
    std::vector<data::OperatorShare> since = done;
    for (std::size_t at = 0; at < told_.size() && at < since.size(); ++at) {
      since[at].rows -= told_[at].rows;
      since[at].bytes -= told_[at].bytes;
      since[at].busy_ns -= told_[at].busy_ns;
    }
    told_ = std::move(done);
    return since;
  }

  std::unique_ptr<CountedPage> counted_;
  std::unique_ptr<data::LaneReader> reader_;
  std::shared_ptr<const MapChain> maps_;
  const std::uint64_t epoch_;
  std::vector<data::OperatorShare> told_;
};

}  // namespace

Result<std::unique_ptr<ServedDataset>> ServedDataset::open(std::string name, const Dict& entry) {
  try {
    DatasetSpec spec = dataset_spec_from(entry);
    if (!spec.mix.empty())
      return Error{Errc::InvalidArgument, "it is a mix, which ingest workers do not read",
                   "remove its ingest_workers"};
    TRY(auto source, open_dataset(spec));
    return std::unique_ptr<ServedDataset>(
        new ServedDataset(std::move(name), std::move(spec), std::move(source)));
  } catch (const Failure& failure) {
    return Error{errc_of(failure.kind()), failure.what()};
  }
}

ServedDataset::ServedDataset(std::string name, DatasetSpec spec,
                             std::shared_ptr<const data::RowSource> source)
    : name_(std::move(name)),
      spec_(std::move(spec)),
      source_(std::move(source)),
      layout_(layout_of(*source_)) {}

Result<std::unique_ptr<data::PartReader>> ServedDataset::open_pass(const data::OpenPass& pass) {
  if (pass.dataset != name_)
    return Error{Errc::NotFound,
                 fmt::format("this ingest worker serves '{}', not '{}'", name_, pass.dataset)};
  TRY(auto maps, maps_for(pass.preprocessors));
  auto counted = std::make_unique<CountedPage>();
  counted->meters = meters_of(name_, spec_, counted->page);
  TRY(auto reader, data::LaneReader::make(source_, layout_.units, pass, counted->meters));
  return std::unique_ptr<data::PartReader>(std::make_unique<MappedParts>(
      std::move(reader), std::move(maps), pass.epoch, std::move(counted)));
}

/// Return the maps behind these preprocessors, which are the same for all ranks of an attempt.
Result<std::shared_ptr<const MapChain>> ServedDataset::maps_for(const std::string& preprocessors) {
  const std::lock_guard lock(mutex_);
  if (maps_ && preprocessors == preprocessors_) return maps_;
  FittedSteps fitted;
  if (!preprocessors.empty()) {
    TRY(fitted, parse_fitted(preprocessors));
  }
  if (fitted.steps != spec_.preprocessors)
    return Error{Errc::InvalidArgument, "the rank's preprocessors are not those of the spec"};
  TRY(maps_, MapChain::make(name_, spec_, source_, std::move(fitted.fitted)));
  preprocessors_ = preprocessors;
  return maps_;
}

}  // namespace train::sdk
