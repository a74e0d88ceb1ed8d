// Saves modules, optimizers, positions of samplers and random number generators as files of a
// checkpoint, and loads them (save_state, load_state, stage_state).
#include <ATen/CPUGeneratorImpl.h>
#include <fcntl.h>
#include <train/torch.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string_view>

#include "sdk/client/checked_files.h"
#include "sdk/client/file_digest.h"
#include "sdk/client/progress.h"
#include "sdk/client/session.h"
#include "sdk/torch/failure.h"
#include "sdk/torch/gradient_lists.h"
#include "sdk/torch/optimizer_state.h"
#include "sdk/torch/sharded_parameter.h"
#include "sdk/torch/sharded_state.h"
#include "sdk/torch/tensor_file.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using sdk::guarded;
using sdk::raise;

constexpr const char* kIndexFile = "torch_state.json";  // describes the contents of the other files
constexpr int kFormat = 2;
constexpr int kCodeFormat = 1;  // its optimizers are TorchScript archives, which may hold code
constexpr const char* kAllowCode = "TRAINRUN_ALLOW_CODE_IN_CHECKPOINTS";

std::string numbered(const std::string& stem, std::size_t i, const std::string& ending) {
  return i == 0 ? stem + ending : stem + "_" + std::to_string(i) + ending;
}
std::string module_file(std::size_t i) { return numbered("model", i, ".safetensors"); }
std::string optimizer_file(std::size_t i) { return numbered("optimizer", i, ".safetensors"); }
std::string archive_file(std::size_t i) { return numbered("optimizer", i, ".pt"); }
std::string sharded_file(std::size_t i) { return numbered("sharded", i, ".safetensors"); }
std::string of_rank(int rank, const std::string& file) {
  char folder[32];
  std::snprintf(folder, sizeof folder, "rank-%04d", rank);
  return std::string(folder) + "/" + file;
}
std::string rng_file(int rank) { return of_rank(rank, "rng.safetensors"); }

sdk::NamedTensors state_of_module(const torch::nn::Module& module) {
  sdk::NamedTensors state;
  for (const auto& item : module.named_parameters()) state.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) {
    if (item.value().defined()) state.emplace_back(item.key(), item.value());
  }
  return state;
}

List positions_of(const std::vector<DistributedSampler*>& samplers) {
  List positions;
  for (const DistributedSampler* sampler : samplers) {
    const SamplerState at = sampler->state();
    const auto number = [](std::uint64_t v) { return static_cast<std::int64_t>(v); };  // may wrap
    positions.emplace_back(Dict{{"epoch", number(at.epoch)},
                                {"rows_done", number(at.rows_done)},
                                {"rows", number(at.rows)},
                                {"shuffle", at.shuffle},
                                {"seed", number(at.seed)}});
  }
  return positions;
}

List states_of(const std::vector<Stateful*>& stateful) {
  List states;
  for (const Stateful* each : stateful)
    states.emplace_back(Dict{{"kind", each->kind()}, {"state", each->state()}});
  return states;
}

bool is_sharded(const torch::nn::Module& module) { return sdk::any_sharded(module.parameters()); }
bool is_sharded(const torch::optim::Optimizer& optimizer) {
  return sdk::any_pieces(sdk::parameters_of(optimizer));
}

/// Return what this rank has of a module's state: its rows, or all of it.
ShardedState rows_of_module(const torch::nn::Module& module, bool with_buffers) {
  ShardedState state;
  for (const auto& [name, tensor] : state_of_module(module)) {
    const auto sharded = sdk::sharded_parameter(tensor);
    if (sharded && sharded->held)
      state.piece(name, sharded->piece, sharded->shape, sharded->offset);
    else if (!sharded && with_buffers)
      state.piece(name, tensor, tensor.sizes().vec(),
                  std::vector<std::int64_t>(static_cast<std::size_t>(tensor.dim())));
  }
  return state;
}

Dict make_index(const StateRefs& state, List positions) {
  List optimizers;
  for (const auto* optimizer : state.optimizers) optimizers.emplace_back(sdk::describe(*optimizer));
  Dict index{{"format", kFormat},
             {"modules", static_cast<std::int64_t>(state.modules.size())},
             {"optimizers", std::move(optimizers)},
             {"sharded", static_cast<std::int64_t>(state.sharded.size())},
             {"world_size", sdk::worker_info().world_size}};
  List modules, rows;  // which of them each rank has written its rows of
  for (const auto* module : state.modules) modules.emplace_back(is_sharded(*module));
  for (const auto* optimizer : state.optimizers) rows.emplace_back(is_sharded(*optimizer));
  index["rows_of"] = Dict{{"modules", std::move(modules)}, {"optimizers", std::move(rows)}};
  if (!positions.empty()) index["samplers"] = std::move(positions);
  if (!state.stateful.empty()) index["stateful"] = states_of(state.stateful);
  if (state.epoch) index["epoch"] = *state.epoch;
  return index;
}

sdk::NamedTensors rng_state() {
  sdk::NamedTensors state;
  const auto add = [&](const char* name, at::Generator generator) {
    const std::lock_guard lock(generator.mutex());
    state.emplace_back(name, generator.get_state());
  };
  add("cpu", at::detail::getDefaultCPUGenerator());
  if (device().is_cuda()) add("cuda", at::globalContext().defaultGenerator(device()));
  return state;
}

// ---- writing ----

struct StagedBytes {
  std::string name;  // in the checkpoint's folder
  std::string head;
  torch::Tensor tail;  // undefined: none
};
using Staged = std::vector<StagedBytes>;

Staged stage(const StateRefs& state) {
  Staged staged;
  const int rank = sdk::worker_info().rank, world_size = sdk::worker_info().world_size;
  List positions = positions_of(state.samplers);  // throws on every rank if one has none
  const auto add_file = [&](std::string name, sdk::StagedFile file) {
    staged.push_back({std::move(name), std::move(file.header), std::move(file.data)});
  };
  const auto add_tensors = [&](std::string name, const sdk::NamedTensors& tensors) {
    add_file(std::move(name), sdk::stage_tensors(tensors, {{"format", "pt"}}));
  };
  add_tensors(rng_file(rank), rng_state());
  for (std::size_t i = 0; i < state.sharded.size(); ++i) {
    add_file(of_rank(rank, sharded_file(i)),
             sdk::stage_sharded(*state.sharded[i], rank, world_size));
  }
  for (std::size_t i = 0; i < state.modules.size(); ++i) {
    if (is_sharded(*state.modules[i])) {
      add_file(of_rank(rank, module_file(i)),
               sdk::stage_sharded(rows_of_module(*state.modules[i], /*with_buffers=*/rank == 0),
                                  rank, world_size));
    } else if (rank == 0) {
      add_tensors(module_file(i), state_of_module(*state.modules[i]));
    }
  }
  for (std::size_t i = 0; i < state.optimizers.size(); ++i) {
    if (is_sharded(*state.optimizers[i])) {
      add_file(of_rank(rank, optimizer_file(i)),
               sdk::stage_sharded_optimizer(*state.optimizers[i], rank, world_size));
    } else if (rank == 0) {
      add_file(optimizer_file(i), sdk::stage_optimizer(*state.optimizers[i]));
    }
  }
  if (rank != 0) return staged;
  staged.push_back(
      {kIndexFile, to_json(Value(make_index(state, std::move(positions)))) + "\n", {}});
  return staged;
}

// A piece is still in the processor's cache when it is digested.
constexpr std::size_t kPieceBytes = 256u << 10;
constexpr std::size_t kWritebackBytes = 16u << 20;

// Write all bytes. Lets the disk begin to write early, so that a later sync of the file waits only
// for the rest.
void write_all(int fd, std::string_view bytes, const std::string& path, sdk::FileDigest* digest) {
  std::size_t unstarted = 0;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), kPieceBytes));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) raise(system_error(errno, "writing " + path));
    const auto count = static_cast<std::size_t>(written);
    if (digest != nullptr) digest->update(bytes.substr(0, count));
    bytes.remove_prefix(count);
    unstarted += count;
    if (unstarted < kWritebackBytes && !bytes.empty()) continue;
    (void)::sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    unstarted = 0;
  }
}

std::string_view bytes_of(const torch::Tensor& tail) {
  if (!tail.defined()) return {};
  return {reinterpret_cast<const char*>(tail.data_ptr<std::uint8_t>()),
          static_cast<std::size_t>(tail.numel())};
}

// Write a file. A reader finds the whole file under its name, or none. Sync it, unless it is
// digested.
void write_file(const fs::path& path, const StagedBytes& bytes, sdk::FileDigest* digest) {
  std::error_code failed;
  fs::create_directories(path.parent_path(), failed);
  if (failed)
    raise(system_error(failed.value(), "making the folder " + path.parent_path().string()));
  const std::string partial =
      (path.parent_path() / ("." + path.filename().string() + ".partial")).string();
  const int fd = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) raise(system_error(errno, "writing " + partial));
  const std::unique_ptr<const int, void (*)(const int*)> closing(
      &fd, [](const int* each) { ::close(*each); });
  write_all(fd, bytes.head, partial, digest);
  write_all(fd, bytes_of(bytes.tail), partial, digest);
  if (digest == nullptr && ::fsync(fd) != 0) raise(system_error(errno, "writing " + partial));
  if (::rename(partial.c_str(), path.c_str()) != 0)
    raise(system_error(errno, "renaming " + partial));
}

/// Write the files and, last, their digests, for the code that takes them over.
void write_digested(const fs::path& folder, const Staged& staged) {
  std::string lines;
  for (const StagedBytes& file : staged) {
    sdk::FileDigest digest;
    write_file(folder / file.name, file, &digest);
    lines += digest.line(file.name);
  }
  sdk::FileDigest unused;
  write_file(folder / sdk::digests_file(), {"", std::move(lines), {}}, &unused);
}

// ---- reading ----

std::string shape_text(torch::ScalarType type, at::IntArrayRef sizes) {
  std::ostringstream text;
  text << torch::toString(type) << " " << sizes;
  return text.str();
}

std::int64_t world_size_of(const Dict& index) {
  const auto found = index.find("world_size");
  return found == index.end() ? 0 : found->second.as<std::int64_t>();
}

/// Return who has written the i-th of `what`, "modules" or "optimizers".
sdk::SavedBy saved_by(const Dict& index, const char* what, std::size_t i) {
  sdk::SavedBy by{.each_rank = false, .world_size = world_size_of(index)};
  if (const auto rows = index.find("rows_of"); rows != index.end()) {
    const auto of = Config(rows->second.as<Dict>()).get<std::vector<bool>>(what);
    by.each_rank = i < of.size() && of[i];
  }
  return by;
}

void load_module(const sdk::CheckedFiles& files, const std::string& name, const sdk::SavedBy& by,
                 torch::nn::Module& module) {
  if (is_sharded(module) || by.each_rank) {  // rows of it were saved, or are wanted
    std::set<std::string> names;
    for (const auto& [of, tensor] : state_of_module(module)) names.insert(of);
    sdk::SavedTensors(files, name, by)
        .load(rows_of_module(module, /*with_buffers=*/true), "model", names);
    return;
  }
  sdk::TensorReader file(files.open(name));
  std::map<std::string, const sdk::TensorEntry*> saved;
  for (const sdk::TensorEntry& entry : file.tensors()) saved.emplace(entry.name, &entry);
  std::map<std::string, torch::Tensor> wanted;
  std::string wrong;
  const auto complain = [&](const std::string& text) {
    wrong += (wrong.empty() ? "" : "; ") + text;
  };
  for (const auto& [name, tensor] : state_of_module(module)) {
    wanted.emplace(name, tensor);
    const auto found = saved.find(name);
    if (found == saved.end()) {
      complain("missing \"" + name + "\"");
      continue;
    }
    const auto type = sdk::TensorReader::type(*found->second);
    const at::IntArrayRef shape = found->second->shape;
    if (tensor.sizes() != shape || tensor.scalar_type() != type) {
      complain("\"" + name + "\" is " + shape_text(type, shape) + " there, " +
               shape_text(tensor.scalar_type(), tensor.sizes()) + " in the model");
    }
  }
  for (const auto& [name, entry] : saved) {
    if (wanted.count(name) == 0) complain("unexpected \"" + name + "\"");
  }
  if (!wrong.empty()) {
    file.finish();  // do not blame the caller for a damaged file
    raise(Error{Errc::InvalidArgument, file.path() + " does not fit the model: " + wrong,
                "build the model that was saved"});
  }
  const torch::NoGradGuard no_grad;
  for (const sdk::TensorEntry& entry : file.tensors())
    file.read(entry, 0, entry.shape.empty() ? 1 : entry.shape[0], wanted.at(entry.name));
  file.finish();
}

/// Load a file in the previous format. LibTorch's reader runs code that it finds in the archive.
void load_archive(sdk::FileScan scan, torch::optim::Optimizer& optimizer) {
  const std::string path = scan.path();
  const char* allowed = std::getenv(kAllowCode);
  if (allowed == nullptr || std::string_view(allowed) != "1") {
    raise(Error{Errc::InvalidArgument,
                path + " is of an older format, which can hold code that runs when it is read",
                std::string("if you trust its author, set ") + kAllowCode +
                    "=1 in the job's env; newer checkpoints hold no code"});
  }
  scan.finish();  // only verifies the file: LibTorch reads it itself
  guarded("reading " + path, [&] {
    torch::Device where(torch::kCPU);
    for (const auto& group : optimizer.param_groups()) {
      if (!group.params().empty()) where = group.params().front().device();
    }
    torch::serialize::InputArchive archive;
    archive.load_from(path, where);
    optimizer.load(archive);
  });
}

void load_optimizer(const sdk::CheckedFiles& files, const Dict& index, std::size_t i,
                    torch::optim::Optimizer& optimizer) {
  const bool archive = index.at("format").as<int>() == kCodeFormat;
  const std::string name = archive ? archive_file(i) : optimizer_file(i);
  const Value saved = index.at("optimizers").as<List>()[i];
  const Value here(sdk::describe(optimizer));
  if (saved != here) {
    raise(Error{Errc::InvalidArgument,
                files.path_of(name) + " does not fit the optimizer: it was saved as " +
                    to_json(saved) + ", and this one is " + to_json(here),
                "make the optimizer over the same parameters in the same groups"});
  }
  if (!archive)
    return sdk::load_optimizer(files, name, saved_by(index, "optimizers", i), optimizer);
  if (is_sharded(optimizer)) {
    raise(Error{Errc::InvalidArgument,
                files.path_of(name) + " is of an older format, which sharded models do not read",
                "load it into a prepared model, and save that"});
  }
  load_archive(files.open(name), optimizer);
}

SamplerState place_in(const Value& saved) {
  try {
    const Dict position = saved.as<Dict>();
    const auto number = [&](const char* name) {
      return static_cast<std::uint64_t>(position.at(name).as<std::int64_t>());
    };
    return {.epoch = number("epoch"),
            .rows_done = number("rows_done"),
            .rows = number("rows"),
            .shuffle = position.at("shuffle").as<bool>(),
            .seed = number("seed")};
  } catch (const std::exception& error) {
    raise(Error{Errc::Corrupt, std::string("the place of a sampler: ") + error.what()});
  }
}

void load_samplers(const sdk::CheckedFiles& files, const Dict& index,
                   const std::vector<DistributedSampler*>& samplers) {
  const std::string path = files.path_of(kIndexFile);
  const auto found = index.find("samplers");
  const List saved = found == index.end() ? List{} : found->second.as<List>();
  if (samplers.size() > saved.size()) {
    raise(Error{Errc::InvalidArgument, path + " holds the places of " +
                                           std::to_string(saved.size()) + " samplers, asked for " +
                                           std::to_string(samplers.size())});
  }
  for (std::size_t i = 0; i < samplers.size(); ++i)
    guarded("reading " + path, [&] { samplers[i]->restore(place_in(saved[i])); });
}

void load_stateful(const sdk::CheckedFiles& files, const Dict& index,
                   const std::vector<Stateful*>& stateful) {
  const std::string path = files.path_of(kIndexFile);
  const auto found = index.find("stateful");
  const List saved = found == index.end() ? List{} : found->second.as<List>();
  if (stateful.size() > saved.size()) {
    raise(Error{Errc::InvalidArgument,
                path + " holds the state of " + std::to_string(saved.size()) +
                    " Stateful objects, asked for " + std::to_string(stateful.size())});
  }
  for (std::size_t i = 0; i < stateful.size(); ++i) {
    guarded("reading " + path, [&] {
      const Config entry(saved[i].as<Dict>());
      const auto kind = entry.get<std::string>("kind");
      if (kind != stateful[i]->kind()) {
        raise(Error{Errc::InvalidArgument,
                    "the state of a " + kind + " does not fit a " + stateful[i]->kind(),
                    "load into the same arguments, in the same order, as it was saved from"});
      }
      stateful[i]->load_state(entry.get<Dict>("state"));
    });
  }
}

Dict read_index(const sdk::CheckedFiles& files) {
  const std::string path = files.path_of(kIndexFile);
  if (!files.has(kIndexFile)) {
    raise(
        Error{Errc::NotFound,
              path + " is missing: the folder holds no state of train::save_state or from_state"});
  }
  const std::string text = files.read(kIndexFile);
  try {
    Dict index = parse_json(text).as<Dict>();
    const int format = index["format"].as<int>();
    if (format != kFormat && format != kCodeFormat) {
      raise(Error{Errc::InvalidArgument, path + " has format " + to_json(index["format"]) +
                                             ", this version reads 1 and 2"});
    }
    index["optimizers"].as<List>();
    index["modules"].as<std::int64_t>();
    for (const char* list : {"samplers", "stateful"})
      if (index.count(list) != 0) index[list].as<List>();
    for (const char* list : {"modules", "optimizers"}) (void)saved_by(index, list, 0);
    return index;
  } catch (const Failure& error) {
    raise(Error{Errc::Corrupt, path + ": " + error.what()});
  }
}

/// Return whether the next number is inside the table: LibTorch accepts any index for it, and would
/// read beyond the table.
bool is_sound_cpu_state(const torch::Tensor& state) {
  at::Generator probe = at::detail::createCPUGenerator();
  probe.set_state(state);
  const at::mt19937_data_pod engine =
      at::check_generator<at::CPUGeneratorImpl>(probe)->engine().data();
  return static_cast<std::int64_t>(engine.left_) + engine.next_ <= at::MERSENNE_STATE_N + 1;
}

bool load_rng(const sdk::CheckedFiles& files) {
  const std::string name = rng_file(sdk::worker_info().rank);
  if (!files.has(name)) return false;
  const sdk::LoadedFile file = sdk::read_tensor_file(files.open(name));
  const auto restore = [&](const char* name, at::Generator generator) {
    const auto found = file.tensors.find(name);
    if (found == file.tensors.end()) return;
    const std::lock_guard lock(generator.mutex());
    generator.set_state(found->second.clone());
  };
  guarded("restoring " + files.path_of(name), [&] {
    if (const auto cpu = file.tensors.find("cpu");
        cpu != file.tensors.end() && !is_sound_cpu_state(cpu->second))
      raise(Error{Errc::Corrupt, "\"cpu\" is not a generator state"});
    restore("cpu", at::detail::getDefaultCPUGenerator());
    if (device().is_cuda()) restore("cuda", at::globalContext().defaultGenerator(device()));
  });
  return true;
}

}  // namespace

void save_state(const std::string& directory, const StateRefs& state) {
  const Staged staged = guarded("saving state", [&] { return stage(state); });
  for (const StagedBytes& file : staged) write_file(fs::path(directory) / file.name, file, nullptr);
}

LoadedState load_state(const std::string& directory, const StateRefs& state) {
  return detail::load_checked(sdk::CheckedFiles(directory), state);
}

LoadedState detail::load_checked(const sdk::CheckedFiles& files, const StateRefs& state) {
  const sdk::InPhase restoring(Phase::Restore);
  const Dict index = read_index(files);
  const auto saved_modules = static_cast<std::size_t>(index.at("modules").as<std::int64_t>());
  const std::size_t saved_optimizers = index.at("optimizers").as<List>().size();
  if (state.modules.size() > saved_modules || state.optimizers.size() > saved_optimizers) {
    raise(Error{Errc::InvalidArgument, files.folder() + " holds " + std::to_string(saved_modules) +
                                           " modules and " + std::to_string(saved_optimizers) +
                                           " optimizers, asked for " +
                                           std::to_string(state.modules.size()) + " and " +
                                           std::to_string(state.optimizers.size())});
  }
  for (std::size_t i = 0; i < state.modules.size(); ++i)
    load_module(files, module_file(i), saved_by(index, "modules", i), *state.modules[i]);
  for (std::size_t i = 0; i < state.optimizers.size(); ++i)
    load_optimizer(files, index, i, *state.optimizers[i]);
  for (std::size_t i = 0; i < state.sharded.size(); ++i)
    sdk::SavedTensors(files, sharded_file(i), {true, world_size_of(index)})
        .load(*state.sharded[i], "ShardedState");
  load_samplers(files, index, state.samplers);
  load_stateful(files, index, state.stateful);
  LoadedState loaded;
  const auto epoch = index.find("epoch");
  if (epoch != index.end()) loaded.epoch = epoch->second.as<std::int64_t>();
  loaded.rng_restored = load_rng(files);
  return loaded;
}

std::function<void(const std::string&)> detail::stage_state(const StateRefs& state) {
  auto staged = std::make_shared<const Staged>(
      guarded("copying state for a checkpoint", [&] { return stage(state); }));
  return [staged](const std::string& directory) { write_digested(directory, *staged); };
}

}  // namespace train
