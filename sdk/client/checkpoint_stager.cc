#include "sdk/client/checkpoint_stager.h"

#include <fmt/format.h>

#include <cerrno>
#include <optional>
#include <system_error>

#include "lib/base/quota.h"
#include "lib/base/thread.h"
#include "lib/storage/object_store.h"
#include "sdk/client/failure.h"
#include "sdk/client/staging.h"

namespace train::sdk {
namespace {

struct Failed {
  std::string error, code;
};

Failed failed_by(const Error& error) {
  return {error.describe(), std::string(to_string(error.code))};
}

// Remove the hint, which is added again at the end.
std::string without_hint(std::string text) {
  const std::string hint = fmt::format(" ({})", kOverQuotaHint);
  if (text.ends_with(hint)) text.resize(text.size() - hint.size());
  return text;
}

std::optional<Failed> call_writer(const CheckpointStager::Job& job) {
  try {
    job.write(job.staged.dir);
  } catch (const Failure& e) {
    return Failed{without_hint(e.what()), e.kind()};
  } catch (const std::system_error& e) {
    const bool no_space = e.code() == std::errc::no_space_on_device ||
                          e.code() == std::error_condition(EDQUOT, std::generic_category());
    return Failed{e.what(), no_space ? std::string(to_string(Errc::NoSpace)) : ""};
  } catch (const std::exception& e) {
    return Failed{e.what(), ""};
  } catch (...) {
    return Failed{"its writer threw something other than a std::exception", ""};
  }
  return std::nullopt;
}

// The writer is user code: whatever it throws fails this checkpoint, and only this one. So does a
// full disk, because a stream that nobody checks does not report it and only leaves a short file.
std::optional<Failed> run_writer(const CheckpointStager::Job& job) {
  if (const auto made = make_empty_folder(job.staged.dir); made.has_error())
    return failed_by(with_free_space(made.error(), job.staged.dir));
  std::optional<Failed> failed = call_writer(job);
  const bool no_space = failed && failed->code == to_string(Errc::NoSpace);
  std::string what = failed ? failed->error : "";
  if (!no_space) {
    const auto space = check_free_space(job.staged.dir);
    if (!space.has_error()) return failed;
    what = fmt::format("{}{}", failed ? failed->error + ": " : "", space.error().message);
    if (!failed) what += ", its files may be short";
  }
  return failed_by(with_free_space(
      {Errc::NoSpace, fmt::format("{}: {} bytes were written", what, bytes_below(job.staged.dir))},
      job.staged.dir));
}

}  // namespace

CheckpointStager::~CheckpointStager() { stop(); }

void CheckpointStager::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CheckpointStager::add(Job job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    if (!thread_.joinable()) thread_ = start_thread("trainrun-ckpt", [this] { run(); });
  }
  changed_.notify_all();
}

void CheckpointStager::drain() {
  std::unique_lock lock(mutex_);
  if (thread_.get_id() == std::this_thread::get_id()) return;
  changed_.wait(lock, [this] { return jobs_.empty(); });
}

void CheckpointStager::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    Job& job = jobs_.front();  // a deque: adding jobs behind it does not move it
    lock.unlock();
    if (job.write) {
      if (auto failed = run_writer(job)) {
        job.staged.error = std::move(failed->error);
        job.staged.error_code = std::move(failed->code);
      }
    }
    if (!job.staged.error.empty()) remove_folder(job.staged.dir);
    hand_over_(std::move(job.staged));
    job.write = nullptr;  // free what it holds (a copy of the model) before notifying anyone
    lock.lock();
    jobs_.pop_front();
    changed_.notify_all();
  }
}

Checkpoint to_be_moved(const Checkpoint& checkpoint, const WorkerInfo& info) {
  constexpr const char* kHint = "report it with Upload::Async, which copies";
  if (info.supervised && is_object_url(info.run_dir)) {
    throw_failure({Errc::InvalidArgument,
                   fmt::format("Upload::None: the run's storage is '{}', where existing data "
                               "cannot become part of a checkpoint",
                               info.run_dir),
                   kHint});
  }
  if (info.supervised && !info.staging_dir.starts_with(info.run_dir + "/")) {
    throw_failure({Errc::InvalidArgument,
                   fmt::format("Upload::None: this node has no access to the run's folder '{}'",
                               info.run_dir),
                   kHint});
  }
  Checkpoint::Impl impl = *checkpoint.impl();
  if (impl.form != Checkpoint::Impl::Form::Write) impl.form = Checkpoint::Impl::Form::Move;
  return Checkpoint(std::make_shared<Checkpoint::Impl>(std::move(impl)));
}

void stage_directory(const Checkpoint::Impl& checkpoint, const std::string& to) {
  switch (checkpoint.form) {
    case Checkpoint::Impl::Form::Take:
      value_or_throw(move_tree(checkpoint.directory, to));
      return;
    case Checkpoint::Impl::Form::Move:
      value_or_throw(rename_tree(checkpoint.directory, to));
      return;
    case Checkpoint::Impl::Form::Copy:
    case Checkpoint::Impl::Form::Committed:
      value_or_throw(copy_tree(checkpoint.directory, to));
      return;
    case Checkpoint::Impl::Form::Write:
      return;
  }
}

}  // namespace train::sdk
