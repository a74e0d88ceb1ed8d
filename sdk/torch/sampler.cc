#include <train/torch.h>

#include <algorithm>
#include <mutex>

#include "sdk/client/session.h"
#include "sdk/torch/failure.h"
#include "sdk/torch/loader_cursor.h"
#include "sdk/torch/row_order.h"

namespace train {
namespace {

/// A position between two rows of an epoch's order, the same for all ranks.
struct Position {
  std::uint64_t epoch = 0;
  std::size_t rows_done = 0;
};

struct Pass {
  Position from;
  std::vector<std::size_t> rows;  // of this rank
  std::size_t asked = 0;          // how many of them the loader has fetched
  std::size_t consumed = 0;       // how many of them the loop has received, if reads_ahead
  bool ended = false;
};

std::string words(const SamplerState& state) {
  return std::to_string(state.rows) + " rows" +
         (state.shuffle ? ", shuffled with seed " + std::to_string(state.seed) : ", not shuffled");
}

}  // namespace

struct DistributedSampler::Shared {
  mutable std::mutex mutex;
  std::size_t rows;
  const ShardOptions options;
  const std::size_t world_size, rank;
  Position next;                  // where the next pass begins
  std::optional<Pass> pass = {};  // the last one that was begun
  bool reads_ahead = false;       // requested rows are not consumed until mark_consumed says so
  bool in_order = true;
  std::size_t batch_min = 1;                       // rows; a shorter batch is left out
  std::uint64_t passes = 0;                        // that were begun
  std::unique_ptr<sdk::LoaderCursor> cursor = {};  // of a sampler that has a name

  sdk::RowOrder order(std::size_t rows_done) const {
    return {.rows = rows,
            .first = rows_done,
            .world_size = world_size,
            .shuffle = options.shuffle,
            .seed = options.seed,
            .drop_last = options.drop_last};
  }
  bool under_way() const { return pass && !pass->ended; }
  void begin_pass() {
    pass = Pass{.from = next, .rows = sdk::rows_of_rank(order(next.rows_done), next.epoch, rank)};
    next = {next.epoch + 1, 0};
    ++passes;
  }
  void end_pass() {
    if (pass) pass->ended = true;
    tell();
  }
  Position position() const {
    if (!under_way()) return next;
    const std::size_t mine = reads_ahead ? pass->consumed : pass->asked;
    // With another number of ranks, rows that this pass leaves out would not be left out.
    if (pass->rows.size() - mine < batch_min) return {pass->from.epoch, rows};
    return {pass->from.epoch, std::min(rows, pass->from.rows_done + mine * world_size)};
  }
  void tell() const {
    if (cursor) cursor->tell(state_at(position()));
  }
  SamplerState state_at(const Position& at) const {
    return {.epoch = at.epoch,
            .rows_done = at.rows_done,
            .rows = rows,
            .shuffle = options.shuffle,
            .seed = options.shuffle ? options.seed : 0};
  }
};

DistributedSampler::DistributedSampler(std::size_t size, const ShardOptions& options)
    : DistributedSampler(size, options, static_cast<std::size_t>(sdk::worker_info().world_size),
                         static_cast<std::size_t>(sdk::worker_info().rank),
                         static_cast<std::uint64_t>(start_epoch())) {
  if (options.name.empty()) return;
  auto cursor = std::make_unique<sdk::LoaderCursor>(options.name);
  if (const auto at = cursor->start()) {
    if (at->rows_done == 0) {  // between two epochs, the dataset may have changed
      shared_->next = {.epoch = at->epoch};
    } else {
      sdk::guarded("loader '" + options.name + "'", [&] { restore(*at); });
    }
  }
  shared_->cursor = std::move(cursor);
}

DistributedSampler::DistributedSampler(std::size_t size, const ShardOptions& options,
                                       std::size_t world_size, std::size_t rank,
                                       std::uint64_t first_epoch)
    : shared_(new Shared{.mutex = {},
                         .rows = size,
                         .options = options,
                         .world_size = world_size,
                         .rank = rank,
                         .next = {.epoch = first_epoch}}) {
  if (rank >= world_size) {
    sdk::raise(Error{Errc::InvalidArgument, "a sampler for rank " + std::to_string(rank) + " of " +
                                                std::to_string(world_size) + " ranks"});
  }
}

void DistributedSampler::set_epoch(std::uint64_t epoch) {
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->under_way() && shared_->next.epoch == epoch) return;  // perhaps a restored position
  shared_->next = {.epoch = epoch};
  shared_->end_pass();
}

std::uint64_t DistributedSampler::epoch() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->position().epoch;
}

std::size_t DistributedSampler::rows_per_rank() const {
  const std::lock_guard lock(shared_->mutex);
  return sdk::share_size(shared_->order(0));
}

void DistributedSampler::reset(std::optional<std::size_t> new_size) {
  const std::lock_guard lock(shared_->mutex);
  if (new_size) shared_->rows = *new_size;
  shared_->begin_pass();
}

std::optional<std::vector<std::size_t>> DistributedSampler::next(std::size_t batch_size) {
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->pass) shared_->begin_pass();
  Pass& pass = *shared_->pass;
  if (pass.asked == pass.rows.size()) {
    if (!shared_->reads_ahead) shared_->end_pass();
    return std::nullopt;
  }
  const auto begin = pass.rows.begin() + static_cast<std::ptrdiff_t>(pass.asked);
  const std::size_t count = std::min(batch_size, pass.rows.size() - pass.asked);
  pass.asked += count;
  if (!shared_->reads_ahead) shared_->tell();
  return std::vector<std::size_t>(begin, begin + static_cast<std::ptrdiff_t>(count));
}

void DistributedSampler::mark_consumed(std::size_t rows) {
  const std::lock_guard lock(shared_->mutex);
  shared_->reads_ahead = true;
  if (!shared_->under_way()) return;
  Pass& pass = *shared_->pass;
  pass.consumed = std::min(pass.asked, pass.consumed + rows);
  shared_->tell();
}

void DistributedSampler::end_pass() {
  const std::lock_guard lock(shared_->mutex);
  shared_->end_pass();
}

void DistributedSampler::begin_loading(std::size_t batch_size, bool drop_last, bool in_order) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->cursor && !in_order) {
    sdk::raise(Error{Errc::InvalidArgument,
                     "loader '" + shared_->cursor->name() +
                         "' returns batches in any order, so that a checkpoint cannot tell which "
                         "rows were consumed",
                     "leave enforce_ordering on, or the loader's name out"});
  }
  shared_->reads_ahead = true;
  shared_->in_order = in_order;
  shared_->batch_min = drop_last ? batch_size : 1;
}

std::uint64_t DistributedSampler::passes() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->passes;
}

void DistributedSampler::leave_pass(std::uint64_t pass) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->cursor && shared_->passes == pass && shared_->under_way()) shared_->end_pass();
}

SamplerState DistributedSampler::state() const {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->under_way() && !shared_->in_order) {
    sdk::raise(
        Error{Errc::InvalidArgument,
              "it is unknown which rows were consumed: the loader returns batches in any order",
              "leave enforce_ordering on, or save between two epochs, after end_pass() where "
              "a loop was left early"});
  }
  return shared_->state_at(shared_->position());
}

void DistributedSampler::restore(const SamplerState& state) {
  const std::lock_guard lock(shared_->mutex);
  const SamplerState here = shared_->state_at({state.epoch, state.rows_done});
  if (here != state) {
    sdk::raise(Error{Errc::InvalidArgument,
                     "the sampler's state is for a different order of rows: it was saved for " +
                         words(state) + ", and this one has " + words(here),
                     "make the sampler with the size and the options that it was saved with"});
  }
  if (state.rows_done > state.rows) {
    sdk::raise(Error{Errc::Corrupt, "the sampler's state says that " +
                                        std::to_string(state.rows_done) + " of " +
                                        std::to_string(state.rows) + " rows are done"});
  }
  shared_->pass.reset();
  shared_->next = {state.epoch, state.rows_done};
  shared_->tell();
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  const SamplerState at = state();
  sdk::guarded("saving a sampler", [&] {
    const auto write = [&](const char* name, std::uint64_t value) {
      archive.write(name, c10::IValue(static_cast<std::int64_t>(value)));
    };
    write("epoch", at.epoch);
    write("rows_done", at.rows_done);
    write("rows", at.rows);
    write("shuffle", at.shuffle);
    write("seed", at.seed);
  });
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  const auto read = [&](const char* name) {
    c10::IValue value;
    if (!archive.try_read(name, value) || !value.isInt()) {
      sdk::raise(Error{Errc::InvalidArgument,
                       std::string("the archive holds no state of a train::DistributedSampler: it "
                                   "has no number \"") +
                           name + "\""});
    }
    return static_cast<std::uint64_t>(value.toInt());
  };
  restore(sdk::guarded("loading a sampler", [&] {
    return SamplerState{.epoch = read("epoch"),
                        .rows_done = read("rows_done"),
                        .rows = read("rows"),
                        .shuffle = read("shuffle") != 0,
                        .seed = read("seed")};
  }));
}

}  // namespace train
