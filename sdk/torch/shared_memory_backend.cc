#include "sdk/torch/shared_memory_backend.h"

#include <ATen/core/ivalue.h>
#include <train/error.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "lib/base/thread.h"
#include "sdk/torch/failure.h"
#include "sdk/torch/shared_memory.h"

namespace train::sdk {
namespace {

using Work = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;
using Lists = std::vector<Tensors>;

std::optional<SumType> sum_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return SumType::Float32;
    case at::kDouble:
      return SumType::Float64;
    case at::kBFloat16:
      return SumType::BFloat16;
    case at::kHalf:
      return SumType::Float16;
    case at::kInt:
      return SumType::Int32;
    case at::kLong:
      return SumType::Int64;
    default:
      return std::nullopt;
  }
}

class SharedWork final : public c10d::Work {
 public:
  SharedWork(int rank, c10d::OpType kind, SharedOp op, at::Tensor input, at::Tensor output,
             SumType type, std::chrono::milliseconds timeout)
      : Work(rank, kind),
        op(op),
        input(std::move(input)),
        output(std::move(output)),
        type(type),
        timeout(timeout),
        future_(c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()))) {}

  void end(std::exception_ptr error) {
    if (error)
      future_->setError(error);
    else
      future_->markCompleted(c10::IValue(Tensors{output}));
    finish(std::move(error));
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  Tensors result() override { return {output}; }

  const SharedOp op;
  const at::Tensor input, output;
  const SumType type;
  const std::chrono::milliseconds timeout;

 private:
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

class SharedMemoryBackend final : public c10d::Backend {
 public:
  SharedMemoryBackend(c10::intrusive_ptr<c10d::Backend> gloo, std::unique_ptr<SharedMemory> memory,
                      std::chrono::milliseconds timeout)
      : Backend(gloo->getRank(), gloo->getSize()),
        gloo_(std::move(gloo)),
        memory_(std::move(memory)),
        timeout_(timeout),
        thread_(start_thread("trainrun-sums", [this] { run(); })) {}

  ~SharedMemoryBackend() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    added_.notify_one();
    thread_.join();
  }

  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    if (tensors.size() != 1) return gloo_->allreduce(tensors, options);
    const at::Tensor& tensor = tensors.front();
    if (options.reduceOp == c10d::ReduceOp::SUM) {
      if (auto work =
              start(c10d::OpType::ALLREDUCE, SharedOp::AllReduce, tensor, tensor, options.timeout))
        return work;
    }
    return gloo_->allreduce(tensors, options);
  }
  Work _allgather_base(at::Tensor& output, at::Tensor& input,
                       const c10d::AllgatherOptions& options) override {
    if (output.numel() == input.numel() * getSize()) {
      if (auto work = start(c10d::OpType::_ALLGATHER_BASE, SharedOp::AllGather, input, output,
                            options.timeout))
        return work;
    }
    return gloo_->_allgather_base(output, input, options);
  }
  Work _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                            const c10d::ReduceScatterOptions& options) override {
    if (input.numel() == output.numel() * getSize() && options.reduceOp == c10d::ReduceOp::SUM) {
      if (auto work = start(c10d::OpType::_REDUCE_SCATTER_BASE, SharedOp::ReduceScatter, input,
                            output, options.timeout))
        return work;
    }
    return gloo_->_reduce_scatter_base(output, input, options);
  }

  const std::string getBackendName() const override { return "trainrun"; }
  void setTimeout(std::chrono::milliseconds timeout) override {
    timeout_ = timeout;
    gloo_->setTimeout(timeout);
  }
  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return gloo_->broadcast(tensors, options);
  }
  Work allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return gloo_->allreduce_sparse(tensors, options);
  }
  Work allreduce_coalesced(Tensors& tensors,
                           const c10d::AllreduceCoalescedOptions& options) override {
    return gloo_->allreduce_coalesced(tensors, options);
  }
  Work reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return gloo_->reduce(tensors, options);
  }
  Work allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    return gloo_->allgather(outputs, inputs, options);
  }
  Work allgather_coalesced(Lists& outputs, Tensors& inputs,
                           const c10d::AllgatherOptions& options) override {
    return gloo_->allgather_coalesced(outputs, inputs, options);
  }
  Work allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                       const c10d::AllgatherOptions& options) override {
    return gloo_->allgather_into_tensor_coalesced(outputs, inputs, options);
  }
  Work gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    return gloo_->gather(outputs, inputs, options);
  }
  Work scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) override {
    return gloo_->scatter(outputs, inputs, options);
  }
  Work reduce_scatter(Tensors& outputs, Lists& inputs,
                      const c10d::ReduceScatterOptions& options) override {
    return gloo_->reduce_scatter(outputs, inputs, options);
  }
  Work reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                       const c10d::ReduceScatterOptions& options) override {
    return gloo_->reduce_scatter_tensor_coalesced(outputs, inputs, options);
  }
  Work alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_sizes,
                     std::vector<std::int64_t>& input_sizes,
                     const c10d::AllToAllOptions& options) override {
    return gloo_->alltoall_base(output, input, output_sizes, input_sizes, options);
  }
  Work alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override {
    return gloo_->alltoall(outputs, inputs, options);
  }
  Work send(Tensors& tensors, int to, int tag) override { return gloo_->send(tensors, to, tag); }
  Work recv(Tensors& tensors, int from, int tag) override {
    return gloo_->recv(tensors, from, tag);
  }
  Work recvAnysource(Tensors& tensors, int tag) override {
    return gloo_->recvAnysource(tensors, tag);
  }
  Work barrier(const c10d::BarrierOptions& options) override { return gloo_->barrier(options); }
  void monitoredBarrier(const c10d::BarrierOptions& options, bool all_ranks) override {
    gloo_->monitoredBarrier(options, all_ranks);
  }
  void setSequenceNumberForGroup() override { gloo_->setSequenceNumberForGroup(); }
  std::uint64_t getSequenceNumberForGroup() override { return gloo_->getSequenceNumberForGroup(); }

 private:
  /// Begin a call through the shared memory; null if these tensors are not for it.
  Work start(c10d::OpType kind, SharedOp op, const at::Tensor& input, const at::Tensor& output,
             std::chrono::milliseconds timeout) {
    const auto type = sum_type(input.scalar_type());
    const auto fits = [&](const at::Tensor& tensor) {
      return tensor.device().is_cpu() && tensor.layout() == at::kStrided &&
             tensor.scalar_type() == input.scalar_type();
    };
    if (!type || !fits(input) || !fits(output)) return {};
    auto work = c10::make_intrusive<SharedWork>(getRank(), kind, op, input, output, *type,
                                                timeout.count() > 0 ? timeout : timeout_.load());
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(work);
    }
    added_.notify_one();
    return work;
  }

  void run() {
    for (;;) {
      c10::intrusive_ptr<SharedWork> work;
      {
        std::unique_lock lock(mutex_);
        added_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
        work = std::move(waiting_.front());
        waiting_.pop_front();
      }
      std::exception_ptr error;
      try {
        run(*work);
      } catch (...) {
        error = std::current_exception();
      }
      work->end(std::move(error));
    }
  }

  void run(const SharedWork& work) {
    if (broken_) raise(*broken_);
    const at::NoGradGuard no_gradients;
    const at::Tensor input = work.input.contiguous(), output = work.output.contiguous();
    const bool in_place = work.op == SharedOp::AllReduce;
    const auto done =
        memory_->run({.op = work.op,
                      .type = work.type,
                      .input = input.data_ptr(),
                      .output = in_place ? input.data_ptr() : output.data_ptr(),
                      .elements = static_cast<std::size_t>(
                          in_place ? input.numel() : std::min(input.numel(), output.numel())),
                      .timeout = work.timeout,
                      .stop = &stop_});
    if (done.has_error()) {
      broken_ = done.error();
      raise(*broken_);
    }
    const at::Tensor& found = in_place ? input : output;
    if (!found.is_same(work.output)) work.output.copy_(found);
  }

  const c10::intrusive_ptr<c10d::Backend> gloo_;
  const std::unique_ptr<SharedMemory> memory_;
  std::atomic<std::chrono::milliseconds> timeout_;
  std::optional<Error> broken_;  // of the thread alone: why the memory is of no use any more
  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<c10::intrusive_ptr<SharedWork>> waiting_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;  // the last member, since it uses the others
};

/// Return this rank's part of the memory; null if it cannot be had.
std::unique_ptr<SharedMemory> own_part(c10d::Store& store, int rank, int ranks) {
  if (rank == 0) {
    auto made = SharedMemory::make(rank, ranks);
    store.set("name", made ? (*made)->name() : std::string("none"));
    return made ? std::move(*made) : nullptr;
  }
  auto opened = SharedMemory::open(store.get_to_str("name"), rank, ranks);
  return opened ? std::move(*opened) : nullptr;
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> share_memory(c10::intrusive_ptr<c10d::Backend> gloo,
                                               const c10::intrusive_ptr<c10d::Store>& store,
                                               std::chrono::milliseconds timeout) {
  const int rank = gloo->getRank(), ranks = gloo->getSize();
  auto memory = own_part(*store, rank, ranks);
  store->set("has/" + std::to_string(rank), std::string(memory ? "yes" : "no"));
  for (int other = 0; other < ranks; ++other)
    if (store->get_to_str("has/" + std::to_string(other)) != "yes") return gloo;
  return c10::make_intrusive<SharedMemoryBackend>(std::move(gloo), std::move(memory), timeout);
}

}  // namespace train::sdk
