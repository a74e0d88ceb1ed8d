#include "launcher/cluster/sweep/sweep_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <filesystem>

#include "launcher/cluster/children/child_folder.h"
#include "lib/observe/append_file.h"
#include "lib/storage/checkpoint_store.h"
#include "lib/storage/manifest.h"

namespace train {
namespace {

/// Return the text as one field of a CSV file.
std::string field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string number_field(const std::optional<double>& number) {
  return number ? fmt::format("{}", *number) : "";
}

std::string value_field(const boost::json::value& value) {
  if (value.is_string()) return field(std::string_view(value.as_string()));
  if (value.is_double()) return fmt::format("{}", value.as_double());
  return field(boost::json::serialize(value));
}

/// Return whether this may be the name of a kept checkpoint: "0003-000012", "0003.2-000012".
bool is_kept_name(std::string_view name) {
  const auto take_number = [&](std::size_t least) {
    const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    name.remove_prefix(digits);
    return digits >= least;
  };
  const auto take = [&](char one) {
    const bool there = name.starts_with(one);
    if (there) name.remove_prefix(1);
    return there;
  };
  return take_number(4) && (!take('.') || take_number(1)) && take('-') && take_number(6) &&
         name.empty();
}

bool is_there(const std::string& path) {
  std::error_code ec;
  return std::filesystem::is_regular_file(path, ec);
}

}  // namespace

std::string SweepFolder::trial_name(int trial, int part) {
  return part == 1 ? fmt::format("{:04}", trial) : fmt::format("{:04}.{}", trial, part);
}

bool is_sweep(const std::string& path) { return is_there(SweepFolder(path).journal()); }

bool holds_trials(const std::string& storage_path) {
  return storage_path.ends_with("/trials") && is_sweep(parent_path(storage_path));
}

std::optional<std::string> find_sweep(std::string given, const std::string& storage_path) {
  return find_parent(std::move(given), storage_path, &is_sweep);
}

std::optional<std::string> find_trial(const std::string& given, const std::string& storage_path) {
  const auto name = child_name(given);
  if (!name) return std::nullopt;
  const auto sweep = find_sweep(name->parent, storage_path);
  if (!sweep) return std::nullopt;
  const SweepFolder folder(*sweep);
  int part = 1;
  std::error_code ec;
  while (std::filesystem::exists(folder.trial(name->number, part + 1), ec)) ++part;
  return folder.trial(name->number, part);
}

namespace {

/// Sync the folder with all that is in it: the journal is about to name it.
Result<Unit> sync_all(FileSystem& files, const std::string& folder) {
  std::error_code ec;
  std::vector<std::string> folders{folder};
  for (std::filesystem::recursive_directory_iterator one(folder, ec), end; !ec && one != end;
       one.increment(ec)) {
    if (one->is_directory(ec)) {
      folders.push_back(one->path().string());
      continue;
    }
    TRY(const auto file, files.open_to_read(one->path().string()));
    TRY_VOID(file->sync());
  }
  if (ec) return system_error(ec.value(), "reading " + folder);
  for (const std::string& made : folders) TRY_VOID(files.sync_folder(made));
  return Unit{};
}

}  // namespace

Result<Unit> keep_checkpoint(FileSystem& files, const SweepFolder& folder,
                             const std::string& checkpoint, const std::string& name) {
  namespace fs = std::filesystem;
  const std::string made = folder.donors() + "/.new";
  std::error_code ec;
  fs::remove_all(made, ec);
  fs::remove_all(folder.donor(name), ec);  // of a driver that died before it was recorded
  fs::create_directories(folder.donors(), ec);
  const auto linked = fs::copy_options::recursive | fs::copy_options::create_hard_links;
  fs::copy(checkpoint, made, linked, ec);
  if (ec && ec != std::errc::no_such_file_or_directory) {  // no links there, or too many
    fs::remove_all(made, ec);
    ec.clear();
    fs::copy(checkpoint, made, fs::copy_options::recursive, ec);
  }
  const auto whole = [&]() -> Result<Unit> {
    if (ec == std::errc::no_such_file_or_directory)
      return Error{Errc::NotFound, "the run has removed " + checkpoint + " meanwhile"};
    if (ec) return system_error(ec.value(), "keeping " + checkpoint);
    TRY(const Manifest manifest, read_manifest(files, made));
    TRY_VOID(check_all_here(checkpoint, manifest));
    return check_structure(files, made, manifest);
  }();
  if (whole) {
    TRY_VOID(sync_all(files, made));
    TRY_VOID(files.rename(made, folder.donor(name)));
    return files.sync_folder(folder.donors());
  }
  fs::remove_all(made, ec);
  return whole.error();
}

void remove_checkpoints(const SweepFolder& folder, const std::set<std::string>& needed) {
  std::error_code ec;
  std::vector<std::filesystem::path> others;
  for (const auto& entry : std::filesystem::directory_iterator(folder.donors(), ec)) {
    const std::string name = entry.path().filename();
    if (is_kept_name(name) &&
        entry.symlink_status(ec).type() == std::filesystem::file_type::directory &&
        !needed.contains(name))
      others.push_back(entry.path());
  }
  for (const auto& other : others) std::filesystem::remove_all(other, ec);
}

Result<Unit> clear_checkpoints(FileSystem& files, const RunFolder& run, const LockHolder& self) {
  CheckpointStore store(files, run.checkpoints());
  TRY(const auto checkpoints, store.list());
  if (checkpoints.empty()) return Unit{};
  TRY(const auto lock, RunLock::acquire(files, run.lock(), self));
  for (const ListedCheckpoint& checkpoint : checkpoints) {
    TRY_VOID(lock.check());
    TRY_VOID(store.remove(checkpoint.number));
  }
  return Unit{};
}

Result<Unit> write_trials_csv(const SweepFolder& folder, const SearchController& search) {
  const SearchSpec& spec = search.spec();
  std::string text = "trial,state,time,value,best,best_time,exit_code";
  for (const Parameter& parameter : spec.parameters) text += "," + field(parameter.path);
  text += '\n';
  for (std::size_t i = 0; i < search.trials().size(); ++i) {
    const TrialState& trial = search.trials()[i];
    text += fmt::format("{},{},{},{},{},{},{}", i,
                        trial.ended ? kTrialEnds[static_cast<std::size_t>(trial.ended->end)]
                                    : std::string_view("running"),
                        number_field(trial.time), number_field(trial.value),
                        number_field(trial.best), number_field(trial.best_time),
                        trial.ended ? fmt::format("{}", trial.ended->code) : "");
    for (const Parameter& parameter : spec.parameters)
      text += "," + value_field(trial.values.at(parameter.path));
    text += '\n';
  }
  return replace_file(folder.trials_csv(), text);
}

Result<Unit> link_best(const SweepFolder& folder, int trial, int part) {
  const std::string to = "trials/" + SweepFolder::trial_name(trial, part);
  const std::string made = folder.path() + "/.best";
  ::unlink(made.c_str());
  if (::symlink(to.c_str(), made.c_str()) != 0 ||
      ::rename(made.c_str(), folder.best().c_str()) != 0)
    return system_error(errno, "linking " + folder.best());
  return Unit{};
}

}  // namespace train
