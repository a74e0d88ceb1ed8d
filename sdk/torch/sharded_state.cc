#include "sdk/torch/sharded_state.h"

#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "lib/base/parallel.h"
#include "sdk/client/session.h"
#include "sdk/torch/failure.h"
#include "sdk/torch/shard_plan.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using sdk::Box;
using sdk::raise;
using sdk::SavedPiece;

constexpr const char* kShards = "trainrun_shards";  // in the header's metadata

[[noreturn]] void refuse(const std::string& why) { raise(Error{Errc::InvalidArgument, why}); }

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::ostringstream text;
  text << at::IntArrayRef(shape);
  return text.str();
}

Box box_of(const ShardedState::Entry& entry) { return {entry.offset, entry.local.sizes().vec()}; }

Value to_list(const std::vector<std::int64_t>& numbers) {
  List list;
  for (const std::int64_t number : numbers) list.emplace_back(number);
  return Value(std::move(list));
}

torch::Tensor narrowed(torch::Tensor tensor, const Box& box,
                       const std::vector<std::int64_t>& origin) {
  for (std::size_t d = 0; d < box.size.size(); ++d)
    tensor = tensor.narrow(static_cast<std::int64_t>(d), box.offset[d] - origin[d], box.size[d]);
  return tensor;
}

void add_pieces(std::size_t number, const sdk::TensorReader& file, bool whole,
                std::map<std::string, std::vector<SavedPiece>>& saved) {
  const auto corrupt = [&](const std::string& why) {
    raise(Error{Errc::Corrupt, file.path() + ": " + why});
  };
  if (whole) {
    for (const sdk::TensorEntry& entry : file.tensors()) {
      const std::vector<std::int64_t> begin(entry.shape.size());
      saved[entry.name].push_back({number, entry, entry.shape, {begin, entry.shape}});
    }
    return;
  }
  const auto text = file.metadata().find(kShards);
  if (text == file.metadata().end()) corrupt("its header does not locate its pieces");
  try {
    const Dict locations = parse_json(text->second).as<Dict>();
    for (const sdk::TensorEntry& entry : file.tensors()) {
      const Dict location = locations.at(entry.name).as<Dict>();
      SavedPiece piece{number, entry, location.at("shape").as<std::vector<std::int64_t>>(), {}};
      piece.box = {location.at("offset").as<std::vector<std::int64_t>>(), entry.shape};
      if (!sdk::fits(piece.box, piece.shape))
        corrupt("the piece of \"" + entry.name + "\" lies outside of its tensor");
      saved[entry.name].push_back(std::move(piece));
    }
  } catch (const std::out_of_range&) {
    corrupt("its header does not locate its pieces");
  } catch (const Failure& why) {
    if (why.kind() == to_string(Errc::Corrupt)) throw;
    corrupt(std::string("its header does not locate its pieces: ") + why.what());
  }
}

/// Rows of a file that go into this rank's piece.
struct PlannedRead {
  sdk::TensorReader* file = nullptr;
  std::uint64_t offset = 0;
  std::function<void()> run;
};

PlannedRead plan_copy(const ShardedState::Entry& entry, const SavedPiece& piece,
                      sdk::TensorReader& file, const sdk::Copy& copy) {
  std::vector<std::int64_t> origin = piece.box.offset;  // of the rows, in the whole tensor
  std::int64_t begin = 0, end = 1;
  std::vector<std::int64_t> rows_shape = piece.box.size;
  if (!origin.empty()) {
    begin = copy.box.offset[0] - origin[0];
    end = begin + copy.box.size[0];
    rows_shape[0] = copy.box.size[0];
  }
  const torch::Tensor target = narrowed(entry.local, copy.box, entry.offset);
  PlannedRead read{&file, file.offset(piece.entry, begin), {}};
  if (rows_shape == copy.box.size) {
    read.run = [=, from = &file] { from->read(piece.entry, begin, end, target); };
    return read;
  }
  read.run = [=, from = &file] {  // copies only a part of each row
    from->each(piece.entry, begin, end, [&](std::int64_t row, const torch::Tensor& rows) {
      Box box = copy.box;
      box.offset[0] = origin[0] + row;
      box.size[0] = rows.size(0);
      std::vector<std::int64_t> at = origin;
      at[0] = box.offset[0];
      narrowed(entry.local, box, entry.offset).copy_(narrowed(rows, box, at));
    });
  };
  return read;
}

/// Return how a saved piece differs from the tensor that it is read into; "" if it fits.
std::string mismatch(const ShardedState::Entry& entry, const SavedPiece& piece) {
  if (piece.shape != entry.shape) {
    return "\"" + entry.name + "\" has the shape " + shape_text(piece.shape) + " there, " +
           shape_text(entry.shape) + " here";
  }
  if (sdk::TensorReader::type(piece.entry) != entry.local.scalar_type()) {
    return "\"" + entry.name + "\" is " + piece.entry.dtype + " there, " +
           torch::toString(entry.local.scalar_type()) + " here";
  }
  return {};
}

void plan(const ShardedState::Entry& entry, const std::vector<SavedPiece>& pieces,
          std::vector<sdk::TensorReader>& files, std::vector<PlannedRead>& reads,
          std::vector<std::string>& wrong) {
  std::vector<Box> boxes;
  for (const SavedPiece& piece : pieces) {
    if (std::string what = mismatch(entry, piece); !what.empty()) {
      wrong.push_back(std::move(what));
      return;
    }
    boxes.push_back(piece.box);
  }
  const sdk::ReadPlan plan = sdk::plan_read(box_of(entry), boxes);
  if (!plan.missing.empty()) {
    wrong.push_back("no file holds \"" + entry.name + "\" " + to_text(plan.missing.front()));
    return;
  }
  for (const sdk::Copy& copy : plan.copies)
    reads.push_back(plan_copy(entry, pieces[copy.piece], files[pieces[copy.piece].file], copy));
}

/// Run the reads in the order of their rows in the file, and verify the file.
void read_file(std::vector<PlannedRead>& reads) {
  std::stable_sort(reads.begin(), reads.end(),
                   [](const PlannedRead& a, const PlannedRead& b) { return a.offset < b.offset; });
  for (const PlannedRead& read : reads) read.run();
  reads.front().file->finish();
}

/// Return the stream that the caller's copies to the device are queued in, so that other threads
/// queue theirs behind them.
std::optional<c10::Stream> stream_of(const ShardedState& state) {
  for (const auto& entry : state.entries()) {
    const c10::Device device = entry.local.device();
    if (device.is_cuda()) return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  }
  return std::nullopt;
}

/// Read several files at once; no two reads write to the same place.
void run_by_file(std::vector<PlannedRead> reads, const ShardedState& state) {
  std::map<sdk::TensorReader*, std::vector<PlannedRead>> by_file;
  for (PlannedRead& read : reads) by_file[read.file].push_back(std::move(read));
  std::vector<std::vector<PlannedRead>> files;
  for (auto& [file, its_reads] : by_file) files.push_back(std::move(its_reads));
  const std::optional<c10::Stream> stream = stream_of(state);
  std::vector<std::exception_ptr> thrown(files.size());
  in_parallel(files.size(), kParallelMax, [&](std::size_t i) {
    try {
      const torch::NoGradGuard no_grad;
      const c10::OptionalStreamGuard queue(stream);
      read_file(files[i]);
      return true;
    } catch (...) {
      thrown[i] = std::current_exception();
      return false;
    }
  });
  for (const std::exception_ptr& one : thrown)
    if (one) std::rethrow_exception(one);
}

/// Return the names of those files in the checkpoint, by rank.
std::vector<std::string> files_in(const sdk::CheckedFiles& checkpoint, const std::string& name,
                                  std::int64_t world_size) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& folder : fs::directory_iterator(checkpoint.folder(), ignored)) {
    const std::string rank = folder.path().filename().string();
    if (!rank.starts_with("rank-") || !checkpoint.has(rank + "/" + name)) continue;
    if (world_size == 0 || std::strtoll(rank.c_str() + 5, nullptr, 10) < world_size)
      names.push_back(rank + "/" + name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

// ---- what is in it

Share even_share(std::int64_t size, int rank, int world_size) {
  const std::int64_t least = size / world_size, more = size % world_size;
  const std::int64_t begin = rank * least + std::min<std::int64_t>(rank, more);
  return {begin, begin + least + (rank < more ? 1 : 0)};
}

Share even_share(std::int64_t size) {
  const auto& worker = sdk::worker_info();
  return even_share(size, worker.rank, worker.world_size);
}

ShardedState& ShardedState::add(Entry entry) {
  if (!entry.local.defined())
    refuse("ShardedState: \"" + entry.name + "\" is not a defined tensor");
  for (const Entry& other : entries_) {
    if (other.name == entry.name) refuse("ShardedState: \"" + entry.name + "\" is there already");
  }
  if (!sdk::fits(box_of(entry), entry.shape)) {
    refuse("ShardedState: a piece of " + shape_text(entry.local.sizes().vec()) + " at " +
           shape_text(entry.offset) + " is not within \"" + entry.name + "\" of " +
           shape_text(entry.shape));
  }
  entries_.push_back(std::move(entry));
  return *this;
}

ShardedState& ShardedState::replicated(std::string name, torch::Tensor tensor) {
  std::vector<std::int64_t> shape;
  if (tensor.defined()) shape = tensor.sizes().vec();
  const std::vector<std::int64_t> offset(shape.size());
  return add({std::move(name), std::move(tensor), std::move(shape), offset, true});
}

ShardedState& ShardedState::replicated(const std::string& prefix, const torch::nn::Module& module) {
  for (const auto& item : module.named_parameters())
    replicated(prefix + "." + item.key(), item.value());
  for (const auto& item : module.named_buffers()) {
    if (item.value().defined()) replicated(prefix + "." + item.key(), item.value());
  }
  return *this;
}

ShardedState& ShardedState::split(std::string name, torch::Tensor local, std::int64_t dim,
                                  std::int64_t size) {
  const Share share = even_share(size);
  if (!local.defined() || dim < 0 || dim >= local.dim() || local.size(dim) != share.size()) {
    refuse("ShardedState: \"" + name + "\" is to have rows " + std::to_string(share.begin) +
           " to " + std::to_string(share.end) + " of " + std::to_string(size) + " in dimension " +
           std::to_string(dim) + ", and is " +
           (local.defined() ? shape_text(local.sizes().vec()) : "no tensor"));
  }
  std::vector<std::int64_t> shape = local.sizes().vec(), offset(shape.size());
  shape[static_cast<std::size_t>(dim)] = size;
  offset[static_cast<std::size_t>(dim)] = share.begin;
  return add({std::move(name), std::move(local), std::move(shape), std::move(offset)});
}

ShardedState& ShardedState::piece(std::string name, torch::Tensor local,
                                  std::vector<std::int64_t> shape,
                                  std::vector<std::int64_t> offset) {
  return add({std::move(name), std::move(local), std::move(shape), std::move(offset)});
}

// ---- files

sdk::StagedFile sdk::stage_sharded(const ShardedState& state, int rank, int world_size,
                                   std::map<std::string, std::string> metadata) {
  // By name: the ranks may have added them in different orders, and must agree on the writers.
  std::map<std::string, std::uint64_t> replicated;
  for (const auto& entry : state.entries()) {
    if (entry.replicated) replicated[entry.name] = entry.local.nbytes();
  }
  std::vector<std::uint64_t> bytes;
  for (const auto& [name, size] : replicated) bytes.push_back(size);
  const std::vector<int> writers = deal_out(bytes, world_size);
  std::set<std::string> elsewhere;  // what another rank writes
  std::size_t next = 0;
  for (const auto& [name, size] : replicated) {
    if (writers[next++] != rank) elsewhere.insert(name);
  }
  NamedTensors mine;
  Dict locations;
  for (const auto& entry : state.entries()) {
    if (elsewhere.contains(entry.name)) continue;
    mine.emplace_back(entry.name, entry.local);
    locations[entry.name] =
        Dict{{"shape", to_list(entry.shape)}, {"offset", to_list(entry.offset)}};
  }
  metadata[kShards] = to_json(Value(std::move(locations)));
  return stage_tensors(mine, metadata);
}

sdk::SavedTensors::SavedTensors(const CheckedFiles& checkpoint, const std::string& file_name,
                                const SavedBy& by)
    : folder_(checkpoint.folder()) {
  std::vector<std::string> names{file_name};
  if (by.each_rank) names = files_in(checkpoint, file_name, by.world_size);
  if (names.empty()) raise(Error{Errc::NotFound, folder_ + " holds no rank-*/" + file_name});
  for (const std::string& name : names) {
    files_.emplace_back(checkpoint.open(name));
    add_pieces(files_.size() - 1, files_.back(), !by.each_rank, tensors_);
  }
}

void sdk::SavedTensors::load(const ShardedState& state, const std::string& what,
                             const std::optional<std::set<std::string>>& names) {
  std::vector<PlannedRead> reads;
  std::vector<std::string> wrong;
  for (const auto& entry : state.entries()) {
    const auto found = tensors_.find(entry.name);
    if (found == tensors_.end())
      wrong.push_back("missing \"" + entry.name + "\"");
    else
      plan(entry, found->second, files_, reads, wrong);
  }
  for (const auto& [name, pieces] : tensors_) {
    if (names && !names->contains(name)) wrong.push_back("unexpected \"" + name + "\"");
  }
  if (!wrong.empty()) {
    for (TensorReader& file : files_) file.finish();  // do not blame the caller for a damaged file
    std::string text = folder_ + " does not fit the " + what + ": ";
    for (std::size_t i = 0; i < wrong.size(); ++i) text += (i > 0 ? "; " : "") + wrong[i];
    refuse(text);
  }
  first_is_verified_ = std::any_of(reads.begin(), reads.end(), [this](const PlannedRead& read) {
    return read.file == &files_.front();
  });
  run_by_file(std::move(reads), state);
}

void sdk::SavedTensors::verify_metadata() {
  if (!first_is_verified_) files_.front().finish();
  first_is_verified_ = true;
}

}  // namespace train
