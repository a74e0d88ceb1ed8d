#include <fmt/format.h>
#include <train/trainer.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "sdk/trainer/run_folder.h"

namespace train {
namespace trainer {

Dict read_json_object(const std::filesystem::path& path) {
  std::error_code ec;
  if (!std::filesystem::is_regular_file(path, ec)) return {};  // and never wait for a FIFO
  constexpr std::uintmax_t kBytesMax = 1 << 30;  // run.json has the results of all ranks
  if (std::filesystem::file_size(path, ec) > kBytesMax || ec)
    throw Failure("corrupt", fmt::format("{}: {}", path.string(),
                                         ec ? ec.message() : "it has more than 1 GiB"));
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  try {
    return parse_json(text.str()).as<Dict>();
  } catch (const Failure& why) {
    throw Failure("corrupt", fmt::format("{}: {}", path.string(), why.what()));
  }
}

namespace {

const Value* member(const Dict& object, const std::string& name) {
  const auto found = object.find(name);
  return found == object.end() || found->second.is_null() ? nullptr : &found->second;
}

/// Return the committed checkpoints of a run's folder by name, so oldest first.
std::map<std::string, Checkpoint> kept_checkpoints(const std::filesystem::path& folder) {
  std::map<std::string, Checkpoint> kept;
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "checkpoints", ec)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("checkpoint_")) continue;
    try {
      kept.emplace(name, Checkpoint::open(entry.path()));
    } catch (const Failure&) {  // not complete, or damaged: train-run checkpoint verify says how
    }
  }
  return kept;
}

std::optional<Checkpoint> checkpoint_at(const std::map<std::string, Checkpoint>& kept,
                                        const std::optional<std::string>& path) {
  const auto found = kept.find(path ? std::filesystem::path(*path).filename().string() : "");
  return found == kept.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::optional<std::string> text_of(const Dict& object, const std::string& name) {
  const Value* value = member(object, name);
  return value != nullptr && value->is_string() ? std::optional(value->as<std::string>())
                                                : std::nullopt;
}

std::optional<std::int64_t> number_of(const Dict& object, const std::string& name) {
  const Value* value = member(object, name);
  const auto* number = value == nullptr ? nullptr : std::get_if<std::int64_t>(&value->storage());
  return number == nullptr ? std::nullopt : std::optional(*number);
}

List list_of(const Dict& object, const std::string& name) {
  const Value* value = member(object, name);
  return value != nullptr && value->is_list() ? value->as<List>() : List();
}

RunResult result_of(const std::filesystem::path& folder) {
  const Dict exit = read_json_object(folder / "exit.json");
  const Dict run = read_json_object(folder / "run.json");
  RunResult result;
  result.path = folder;
  result.run = text_of(exit, "run").value_or("");
  result.outcome = text_of(exit, "outcome").value_or("");
  result.exit_code = static_cast<int>(number_of(exit, "code").value_or(0));
  result.cause = text_of(exit, "cause").value_or("");
  if (const Value* metrics = member(exit, "metrics"); metrics != nullptr && metrics->is_dict())
    result.metrics = metrics->as<Dict>();
  if (const Value* returned = member(exit, "result")) result.return_value = *returned;
  result.results = list_of(run, "results");
  const std::map<std::string, Checkpoint> kept = kept_checkpoints(folder);
  for (const auto& [name, checkpoint] : kept) result.checkpoints.push_back(checkpoint);
  result.checkpoint = checkpoint_at(kept, text_of(exit, "checkpoint"));
  result.best_checkpoint = checkpoint_at(kept, text_of(exit, "best_checkpoint"));
  return result;
}

}  // namespace trainer

RunResult RunResult::from_path(const std::filesystem::path& run) {
  std::error_code ec;
  if (!std::filesystem::is_regular_file(run / "exit.json", ec))
    throw Failure("not_found", fmt::format("'{}' is not the folder of a run that has ended: it "
                                           "has no exit.json (train-run status {} says more)",
                                           run.string(), run.string()));
  return trainer::result_of(run);
}

std::optional<Checkpoint> RunResult::get_best_checkpoint(const std::string& metric,
                                                         const std::string& mode) const {
  if (mode != "max" && mode != "min")
    throw Failure("invalid_argument",
                  fmt::format("get_best_checkpoint: the mode is '{}': write max or min", mode));
  std::optional<Checkpoint> best;
  double best_value = 0;
  for (const Checkpoint& checkpoint : checkpoints) {
    const auto found = checkpoint.metrics().find(metric);
    if (found == checkpoint.metrics().end() || !found->second.is_number()) continue;
    const auto value = found->second.as<double>();
    if (std::isnan(value)) continue;
    if (best && (mode == "max" ? value < best_value : value > best_value)) continue;
    best = checkpoint;
    best_value = value;
  }
  return best;
}

}  // namespace train
