// Functions that others call while the loop runs: `train-run exec RUN set_lr 0.001`, and
// Trainer::call() in a driver. (What Ray Train's WorkerGroup.execute, and RaySGD's
// apply_all_workers, are for.)
//
//   train::serve("set_lr", [&](const train::Value& lr) {
//     optimizer.set_lr(lr.as<double>());
//     return train::Value(optimizer.lr());
//   });
#pragma once

#include <train/config.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace train {

enum class ServeWhen {
  AtReport,  // on the loop's thread, in its next report() or poll(): it may use what the loop uses
  AtOnce     // on a thread of the SDK's own, one call after another
};

/// Let this rank's `function` be called by its name: up to 128 letters, digits, '_', '-', '.', ':'
/// and '/'. It gets the caller's argument, any JSON value of at most 512 KiB (null without one),
/// and returns the answer, likewise. An exception becomes the caller's error, and changes nothing
/// here; Stopped also ends the loop. A later function of the same name replaces this one. Callable
/// before the run is joined, from any thread.
///
/// A call runs at most once. It is lost if the worker ends before it has come to it, and its caller
/// is told so; a restarted worker does not see it again. Calls run in the order in which the
/// launcher sent them, on every rank in the same order. If ranks compute together in a function
/// (collectives), each of them must serve it, and be called. At most 64 calls wait for a rank.
/// Once the run is being stopped, calls are refused.
///
/// Without train-run nobody calls. Throws Failure("invalid_argument") for another name.
void serve(const std::string& name, std::function<Value(const Value& argument)> function,
           ServeWhen when = ServeWhen::AtReport);

/// Run the AtReport calls that have come. If there are none, wait for one, at most `wait`. Return
/// how many were run; 0: the time is over. For loops that seldom report, or that only do what they
/// are called for:
///
///   while (!done) train::poll(std::chrono::hours(1));
///
/// Throws Stopped as report() does: while the run is being stopped, a rank that waits here counts
/// as having come to its last report, and keeps the checkpoint that on_stop's function makes.
/// Throws Failure("unavailable") if it would wait without a train-run that could call.
std::size_t poll(std::chrono::milliseconds wait = std::chrono::milliseconds(0));

}  // namespace train
