#include "sdk/torch/process_group.h"

#include <fcntl.h>
#include <train/torch.h>

#include <future>
#include <mutex>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "lib/base/thread.h"
#include "sdk/client/progress.h"
#include "sdk/client/session.h"
#include "sdk/torch/cuda_loader.h"
#include "sdk/torch/failure.h"
#include "sdk/torch/local_address.h"
#include "sdk/torch/reproducible.h"
#include "sdk/torch/shared_memory.h"
#include "sdk/torch/shared_memory_backend.h"

namespace train {
namespace sdk {
namespace {

using BackendType = c10d::ProcessGroup::BackendType;

// A peer that was killed closes its connections at once; waiting longer for threads of a broken
// group is pointless.
constexpr std::chrono::seconds kTeardownMax{2};

struct Group {
  c10::intrusive_ptr<c10d::Store> store;  // rank 0's serves all ranks, so it is destroyed last
  c10::intrusive_ptr<c10d::ProcessGroup> group;
};

c10::intrusive_ptr<c10d::Store> make_store(const WorkerInfo& info) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(info.master_port);
  options.isServer = info.rank == 0;
  options.numWorkers = static_cast<std::size_t>(info.world_size);
  options.waitWorkers = false;  // the backends below wait for every rank anyway
  options.timeout = info.collective_timeout;
  if (options.isServer && info.master_listen_fd >= 0) {
    // Pass a copy, since the store closes what it is given. The socket is bound already, so nobody
    // can take the port meanwhile; the store itself listens on it.
    const int fd = ::fcntl(info.master_listen_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) raise(system_error(errno, "taking over the listening socket of the store"));
    options.masterListenFd = fd;
  }
  return c10::make_intrusive<c10d::TCPStore>(info.master_addr, options);
}

std::string store_address(const WorkerInfo& info) {
  return info.master_addr + ":" + std::to_string(info.master_port);
}

// Return the address that Gloo binds, after waiting until rank 0's store listens.
std::string peer_address(const WorkerInfo& info) {
  const auto towards = address_towards(info.master_addr, info.master_port, info.collective_timeout);
  if (towards.has_error()) raise(towards.error());
  const auto interfaces = list_interface_addresses();
  if (interfaces.has_error()) raise(interfaces.error());
  const auto address = address_for_peers(*towards, info.node_count, *interfaces);
  if (address.has_error()) raise(address.error());
  return *address;
}

bool may_share_memory(const WorkerInfo& info, bool on_gpu) {
  return info.collectives == "auto" && !on_gpu && info.local_world_size == info.world_size &&
         info.world_size <= kSharedRanksMax;
}

Group make_group(const WorkerInfo& info) {
  if (!info.trains())
    raise(Error{Errc::InvalidArgument,
                "workers of role '" + info.role_name +
                    "' run beside those that train, and have no process group",
                "call it in the job's first role"});
  const bool on_gpu = device().is_cuda();
  if (info.collectives == "nccl" && !on_gpu) {
    raise(Error{Errc::InvalidArgument,
                "backend_config.collectives is nccl, but this worker sees no GPU",
                "set scaling_config.use_gpu: true, or collectives: gloo"});
  }
  const bool nccl = on_gpu && info.collectives != "gloo";
  Group made;
  // Each attempt has its own keys.
  const std::string prefix = "trainrun/" + std::to_string(info.attempt) + "/";
  std::string address;
  if (info.rank == 0) {  // the server first: peer_address() connects to it
    made.store = make_store(info);
    address = peer_address(info);
  } else {
    address = peer_address(info);
    made.store = make_store(info);
  }
  const auto store = c10::make_intrusive<c10d::PrefixStore>(prefix, made.store);
  const auto under = [&](const char* name) -> c10::intrusive_ptr<c10d::Store> {
    return c10::make_intrusive<c10d::PrefixStore>(name, store);
  };
  made.group = c10::make_intrusive<c10d::ProcessGroup>(store, info.rank, info.world_size);
  const auto gloo = make_gloo_backend(under("gloo"), info.rank, info.world_size, address,
                                      info.collective_timeout);
  if (may_share_memory(info, on_gpu)) {
    made.group->setBackend(c10::DeviceType::CPU, BackendType::CUSTOM,
                           share_memory(gloo, under("memory"), info.collective_timeout));
    made.group->setDefaultBackend(BackendType::CUSTOM);
  } else {
    made.group->setBackend(c10::DeviceType::CPU, BackendType::GLOO, gloo);
    made.group->setDefaultBackend(BackendType::GLOO);
  }
  if (on_gpu && !nccl) {
    made.group->setBackend(c10::DeviceType::CUDA, BackendType::GLOO, gloo);
  } else if (nccl) {
    made.group->setBackend(c10::DeviceType::CUDA, BackendType::NCCL,
                           cuda_module()->make_nccl_backend(
                               under("nccl"), info.rank, info.world_size, info.collective_timeout));
    made.group->setDefaultBackend(BackendType::NCCL);
  }
  // No rank returns before all are connected to all: if rank 0 ended at once, it would take the
  // store with it.
  gloo->barrier()->wait();
  return made;
}

// Destroys the group at the end of the run, or before LibTorch's own statics. Leaves behind a
// thread that hangs in a collective of a broken group.
class GroupOwner {
 public:
  const c10::intrusive_ptr<c10d::ProcessGroup>& get() {
    const std::lock_guard lock(mutex_);
    if (!group_.group) {
      const WorkerInfo& info = worker_info();
      const std::string doing = "joining the process group of " + std::to_string(info.world_size) +
                                " ranks as rank " + std::to_string(info.rank) + " at " +
                                store_address(info);
      const InPhase joining(Phase::Collective, "joining the process group");
      group_ = guarded(doing, [&] { return make_group(info); });
    }
    return group_.group;
  }

  ~GroupOwner() { end(); }

  /// Destroy the group, unless another thread is just making it. The next get() makes another.
  void end() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || !group_.group) return;
    struct Teardown {
      Group group;
      std::promise<void> done;
    };
    const auto teardown = std::make_shared<Teardown>(Teardown{std::exchange(group_, {}), {}});
    auto finished = teardown->done.get_future();
    const auto started = start_unjoined_thread("trainrun-group", [teardown] {
      teardown->group.group.reset();
      teardown->group.store.reset();
      teardown->done.set_value();
    });
    if (started) finished.wait_for(kTeardownMax);
  }

 private:
  std::mutex mutex_;
  Group group_;
};

}  // namespace

std::string torch_error_text(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
}

Error classify_torch_error(const std::string& what) {
  const auto has = [&](const char* text) { return what.find(text) != std::string::npos; };
  if (has("imed out") || has("imeout")) {
    return {Errc::Timeout, what,
            "a rank is late or hangs: look at the others' logs, or raise backend_config.timeout"};
  }
  if (has("Connection closed") || has("Connection reset") || has("onnection refused") ||
      has("Broken pipe") || has("failed to connect")) {
    return {Errc::Unavailable, what, "another rank ended first: its own error is the cause"};
  }
  if (has("Duplicate GPU")) {
    return {
        Errc::InvalidArgument, what,
        "two workers share a GPU, which NCCL does not allow: let each worker claim a GPU, or set "
        "backend_config.collectives: gloo"};
  }
  if (has("No space left")) return {Errc::NoSpace, what};
  return {Errc::Internal, what};
}

}  // namespace sdk

torch::Device device() {
  static const torch::Device chosen = sdk::guarded("choosing this rank's device", [] {
    const sdk::CudaModule* cuda = sdk::cuda_module();
    if (sdk::deterministic_by_spec()) sdk::use_deterministic_algorithms();
    if (cuda == nullptr) return torch::Device(torch::kCPU);
    const int index = sdk::worker_info().local_rank % cuda->device_count();
    cuda->set_device(index);
    return torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(index));
  });
  return chosen;
}

c10::intrusive_ptr<c10d::ProcessGroup> process_group() {
  static sdk::GroupOwner owner;
  static const bool ends_with_run = [] {
    sdk::at_run_end([] { owner.end(); });
    return true;
  }();
  (void)ends_with_run;
  if (sdk::worker_info().world_size == 1) return {};
  return owner.get();
}

}  // namespace train
