#include "sdk/client/checkpoint_stager.h"

#include <pthread.h>
#include <signal.h>

#include "sdk/client/failure.h"
#include "sdk/client/staging.h"

namespace train::sdk {
namespace {

// The writer is user code: whatever it throws fails this checkpoint, and only this one.
std::string run_writer(const CheckpointStager::Job& job) {
  const auto made = make_empty_folder(job.staged.dir);
  if (made.has_error()) return made.error().describe();
  try {
    job.write(job.staged.dir);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "its writer threw something that is no std::exception";
  }
  return {};
}

}  // namespace

CheckpointStager::~CheckpointStager() {
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
    if (!thread_.joinable()) {
      sigset_t all, before;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
      thread_ = std::thread([this] { run(); });
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      pthread_setname_np(thread_.native_handle(), "trainrun-ckpt");
    }
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
    Job& job = jobs_.front();  // a deque: others may be added behind it meanwhile
    lock.unlock();
    if (job.write) job.staged.error = run_writer(job);
    if (!job.staged.error.empty()) remove_folder(job.staged.dir);
    hand_over_(std::move(job.staged));
    job.write = nullptr;  // what it holds (a copy of the model) goes before anyone is told
    lock.lock();
    jobs_.pop_front();
    changed_.notify_all();
  }
}

void stage_directory(const Checkpoint::Impl& checkpoint, const std::string& to) {
  switch (checkpoint.form) {
    case Checkpoint::Impl::Form::Take:
      value_or_throw(move_tree(checkpoint.directory, to));
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
