#include <train/checkpoint.h>

#include <boost/json/serialize.hpp>
#include <fstream>
#include <mutex>

#include "lib/storage/checkpoint_store.h"
#include "lib/storage/posix_file_system.h"
#include "sdk/client/checkpoint_impl.h"
#include "sdk/client/failure.h"
#include "sdk/client/metrics_dict.h"
#include "sdk/client/progress.h"
#include "sdk/client/worker_session.h"

namespace train {
namespace {

constexpr const char* kStateFile = "state.json";

std::filesystem::path checked_folder(const std::filesystem::path& directory) {
  std::error_code error;
  if (std::filesystem::is_directory(directory, error)) return directory;
  throw Failure("not_found", "the checkpoint's folder '" + directory.string() +
                                 "' is not a directory" + (error ? ": " + error.message() : ""));
}

Checkpoint make(Checkpoint::Impl impl) {
  return Checkpoint(std::make_shared<Checkpoint::Impl>(std::move(impl)));
}

Checkpoint open_committed(const std::string& folder) {
  PosixFileSystem fs;
  Manifest manifest = sdk::value_or_throw(read_checkpoint(fs, folder));
  Checkpoint::Impl impl;
  impl.directory = folder;
  impl.files = std::make_shared<const sdk::CheckedFiles>(folder, std::move(manifest.files));
  impl.metadata = parse_json(boost::json::serialize(manifest.metadata)).as<Dict>();
  impl.metrics = sdk::to_dict(manifest.metrics);
  return make(std::move(impl));
}

}  // namespace

Checkpoint Checkpoint::from_directory(const std::filesystem::path& directory) {
  return make({.form = Impl::Form::Copy,
               .directory = checked_folder(directory),
               .write = {},
               .files = {},
               .metadata = {},
               .metrics = {}});
}

Checkpoint Checkpoint::open(const std::filesystem::path& directory) {
  return open_committed(checked_folder(directory));
}

Checkpoint Checkpoint::take_directory(const std::filesystem::path& directory) {
  return make({.form = Impl::Form::Take,
               .directory = checked_folder(directory),
               .write = {},
               .files = {},
               .metadata = {},
               .metrics = {}});
}

Checkpoint Checkpoint::from_writer(std::function<void(const std::filesystem::path&)> write) {
  if (!write) throw Failure("invalid_argument", "Checkpoint::from_writer: the function is empty");
  return make({.form = Impl::Form::Write,
               .directory = {},
               .write = std::move(write),
               .files = {},
               .metadata = {},
               .metrics = {}});
}

Checkpoint Checkpoint::from_json(const Value& value) {
  std::string text = to_json(value);
  try {
    (void)parse_json(text);  // what to_value() refuses must fail now
  } catch (const Failure& why) {
    throw Failure(why.kind(), std::string("Checkpoint::from_json: the value could not be read "
                                          "again: ") +
                                  why.what());
  }
  return from_writer([text = std::move(text)](const std::filesystem::path& folder) {
    PosixFileSystem files;
    const auto file = sdk::value_or_throw(files.create(folder / kStateFile));
    sdk::value_or_throw(file->write(text));
  });
}

const sdk::CheckedFiles& Checkpoint::checked_files() const {
  if (impl_->form == Impl::Form::Committed) return *impl_->files;
  throw Failure("invalid_argument",
                "this checkpoint is about to be reported; only a committed one, from "
                "get_checkpoint(), has a folder to read");
}

const std::filesystem::path& Checkpoint::as_directory() const {
  checked_files().verify_rest();
  return impl_->directory;
}

Value Checkpoint::to_value() const {
  const sdk::CheckedFiles& files = checked_files();
  if (!files.has(kStateFile)) {
    throw Failure("not_found", "checkpoint '" + impl_->directory.string() + "' has no " +
                                   kStateFile + ": it was not made by Checkpoint::from_json");
  }
  return parse_json(files.read(kStateFile));
}

const Dict& Checkpoint::metadata() const { return impl_->metadata; }

void Checkpoint::set_metadata(Dict metadata) {
  if (metadata.count(sdk::kPositionsKey) != 0) {
    throw Failure("invalid_argument",
                  "Checkpoint::set_metadata: the key 'data' is where checkpoints hold the "
                  "datasets' positions (use another key; leave it out of a restored checkpoint's "
                  "metadata())");
  }
  impl_->metadata = std::move(metadata);
}

const Dict& Checkpoint::metrics() const { return impl_->metrics; }

namespace {

/// The checkpoint that this run began with, which remembers which of its files were verified.
struct Verified {
  std::mutex mutex;
  std::optional<Checkpoint> checkpoint;
};

Verified& verified_checkpoint() {
  static Verified& verified = *new Verified;  // threads may outlive main()
  return verified;
}

/// The next run may begin with another one.
[[maybe_unused]] const bool kForgets = [] {
  sdk::at_run_end([] {
    Verified& verified = verified_checkpoint();
    const std::lock_guard lock(verified.mutex);
    verified.checkpoint.reset();
  });
  return true;
}();

}  // namespace

std::optional<Checkpoint> get_checkpoint() {
  const std::string& folder = sdk::worker_info().restore_dir;
  if (folder.empty()) return std::nullopt;
  // After a failure, the next call tries again.
  Verified& verified = verified_checkpoint();
  const std::lock_guard lock(verified.mutex);
  const sdk::InPhase restoring(Phase::Restore);
  if (!verified.checkpoint) {
    verified.checkpoint = open_committed(folder);
    sdk::current_session().restore_data_positions(verified.checkpoint->metadata());
  }
  // Return a copy for the caller: set_metadata must not change those of others.
  return make(Checkpoint::Impl(*verified.checkpoint->impl()));
}

int start_epoch() {
  const auto& epoch = sdk::worker_info().restored_epoch;
  return epoch ? static_cast<int>(*epoch) + 1 : 0;
}

int restored_world_size() {
  const std::string& folder = sdk::worker_info().restore_dir;
  if (folder.empty()) return 0;
  PosixFileSystem files;
  const auto manifest = read_manifest(files, folder);
  if (manifest.has_error())
    throw Failure(std::string(to_string(manifest.error().code)), manifest.error().describe());
  return manifest->world_size;
}

void on_resize(const std::function<void(int old_size, int new_size)>& f) {
  const int old_size = restored_world_size();
  const int new_size = sdk::worker_info().world_size;
  if (old_size != 0 && old_size != new_size) f(old_size, new_size);
}

}  // namespace train
