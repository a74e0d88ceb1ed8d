// Serves PMIx to the processes of this node. What concerns other nodes, the supervisor settles.
#pragma once

#include <pmix_server.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "cmd/trainrun-pmix/frame_socket.h"
#include "cmd/trainrun-pmix/info_list.h"
#include "cmd/trainrun-pmix/pmix_library.h"
#include "lib/wire/pmix_messages.h"

namespace train {

/// libpmix knows one server in a process; so there is one of these. It lasts as long as the
/// process.
class PmixServer {
 public:
  /// `supervisor` must outlive it.
  PmixServer(ServePmix order, PmixLibrary library, FrameSocket& supervisor);

  /// Begin to serve.
  Result<PmixServed> start();
  /// Take in what the supervisor says of a fence.
  void end_fence(PmixFenceOver over);
  /// Remove what the processes, which have ended, have left: shared memory whose names MPI has
  /// registered. Waits a second at most.
  void clean_up();

 private:
  struct Fence {
    pmix_modex_cbfunc_t done = nullptr;
    void* data = nullptr;
  };
  static pmix_server_module_t* callbacks();
  Result<Unit> begin();
  Result<std::map<std::string, std::string>> add_process(std::int32_t rank);
  pmix_status_t fence(const pmix_proc_t* processes, std::size_t count, std::string data,
                      Fence fence);
  bool is_ours(const pmix_proc_t& process) const;
  enum class Among { AllRanks, OurRanks, Others };
  Among among(const pmix_proc_t* processes, std::size_t count) const;
  void tell(std::int32_t rank, bool began, std::string text);

  static PmixServer* only_;
  const ServePmix order_;
  const PmixLibrary library_;
  FrameSocket& supervisor_;
  InfoList info_;
  std::mutex mutex_;  // for what follows: libpmix calls from a thread of its own
  std::uint64_t fences_ = 0;
  std::map<std::uint64_t, Fence> waiting_;
};

}  // namespace train
