#include "cmd/trainrun-pmix/pmix_server.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <utility>

#include "cmd/trainrun-pmix/job_info.h"
#include "lib/wire/codec.h"

namespace train {
namespace {

/// One frame has to hold what all nodes exchange.
constexpr std::size_t kDataBytesMax = 3u << 20;
constexpr std::size_t kTextBytesMax = 4096;  // of what we tell

/// libpmix answers on its thread; wait for it.
class Answer {
 public:
  static void take(pmix_status_t status, void* self) {
    static_cast<Answer*>(self)->status_.set_value(status);
  }
  /// `called`: what the call itself returned.
  pmix_status_t wait(pmix_status_t called) {
    return called == PMIX_SUCCESS ? status_.get_future().get() : called;
  }

  void wait_for(std::chrono::seconds most) { status_.get_future().wait_for(most); }

 private:
  std::promise<pmix_status_t> status_;
};

void release_text(void* text) { delete static_cast<std::string*>(text); }

pmix_proc_t process_of(const std::string& name, std::int32_t rank) {
  pmix_proc_t process;
  std::memset(&process, 0, sizeof process);
  std::strncpy(process.nspace, name.c_str(), PMIX_MAX_NSLEN);
  process.rank = static_cast<pmix_rank_t>(rank);
  return process;
}

}  // namespace

PmixServer* PmixServer::only_ = nullptr;

PmixServer::PmixServer(ServePmix order, PmixLibrary library, FrameSocket& supervisor)
    : order_(std::move(order)), library_(library), supervisor_(supervisor) {
  only_ = this;
}

// What is not here, libpmix refuses: to spawn, to publish, groups.
pmix_server_module_t* PmixServer::callbacks() {
  static struct {
    pmix_server_module_t known;
    void* later[32];  // a newer libpmix copies more
  } module{};
  module.known.client_connected2 = [](const pmix_proc_t* process, void*, pmix_info_t*, std::size_t,
                                      pmix_op_cbfunc_t, void*) -> pmix_status_t {
    only_->tell(static_cast<std::int32_t>(process->rank), true, "");
    return PMIX_OPERATION_SUCCEEDED;
  };
  module.known.client_finalized = [](const pmix_proc_t*, void*, pmix_op_cbfunc_t,
                                     void*) -> pmix_status_t { return PMIX_OPERATION_SUCCEEDED; };
  module.known.abort = [](const pmix_proc_t* process, void*, int status, const char* text,
                          pmix_proc_t*, std::size_t, pmix_op_cbfunc_t, void*) -> pmix_status_t {
    const std::string why = text != nullptr && std::string_view(text) != "N/A" ? text : "";
    only_->tell(static_cast<std::int32_t>(process->rank), false,
                fmt::format("MPI_Abort with code {}{}{}", status, why.empty() ? "" : ": ", why));
    return PMIX_OPERATION_SUCCEEDED;  // the process ends itself next
  };
  module.known.fence_nb = [](const pmix_proc_t* processes, std::size_t count, const pmix_info_t*,
                             std::size_t, char* data, std::size_t size, pmix_modex_cbfunc_t done,
                             void* done_data) -> pmix_status_t {
    return only_->fence(processes, count, data != nullptr ? std::string(data, size) : "",
                        {done, done_data});
  };
  // libpmix keeps the list of files to remove itself, but only if there is somebody for the rest.
  module.known.job_control = [](const pmix_proc_t*, const pmix_proc_t*, std::size_t,
                                const pmix_info_t*, std::size_t, pmix_info_cbfunc_t,
                                void*) -> pmix_status_t { return PMIX_ERR_NOT_SUPPORTED; };
  return &module.known;
}

Result<PmixServed> PmixServer::start() {
  TRY_VOID(begin());
  PmixServed served;
  const std::int32_t first = first_rank(order_, order_.node_rank);
  for (std::int32_t local = 0; local < size_of(order_, order_.node_rank); ++local) {
    TRY(auto environment, add_process(first + local));
    served.environments.push_back(std::move(environment));
  }
  return served;
}

Result<Unit> PmixServer::begin() {
  InfoList options;
  options.add(PMIX_SERVER_TMPDIR, order_.dir);
  options.add(PMIX_SYSTEM_TMPDIR, order_.dir);
  options.add(PMIX_SERVER_NSPACE, order_.name + "-server");
  options.add_rank(PMIX_SERVER_RANK, order_.node_rank);
  options.add(PMIX_HOSTNAME, node_name(order_.node_rank));
  TRY_VOID(library_.check(library_.server_init(callbacks(), options.data(), options.size()),
                          "PMIx_server_init"));
  TRY_VOID(add_job_info(order_, library_, info_));
  Answer registered;
  const pmix_status_t status = registered.wait(
      library_.server_register_nspace(order_.name.c_str(), size_of(order_, order_.node_rank),
                                      info_.data(), info_.size(), &Answer::take, &registered));
  return library_.check(status, "PMIx_server_register_nspace");
}

Result<std::map<std::string, std::string>> PmixServer::add_process(std::int32_t rank) {
  const std::string folder = process_folder(order_, rank);
  if (::mkdir(folder.c_str(), 0700) != 0) return system_error(errno, "making " + folder);
  const pmix_proc_t process = process_of(order_.name, rank);
  Answer registered;
  const pmix_status_t status = registered.wait(library_.server_register_client(
      &process, ::getuid(), ::getgid(), nullptr, &Answer::take, &registered));
  TRY_VOID(library_.check(status, "PMIx_server_register_client"));
  char** variables = nullptr;
  TRY_VOID(
      library_.check(library_.server_setup_fork(&process, &variables), "PMIx_server_setup_fork"));
  std::map<std::string, std::string> environment;
  for (char** variable = variables; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) environment[text.substr(0, equals)] = text.substr(equals + 1);
    std::free(*variable);
  }
  std::free(variables);
  return environment;
}

void PmixServer::clean_up() {
  auto& done = *new Answer;  // libpmix may answer after we have given up
  library_.server_deregister_nspace(order_.name.c_str(), &Answer::take, &done);
  done.wait_for(std::chrono::seconds(1));
}

bool PmixServer::is_ours(const pmix_proc_t& process) const {
  const auto first = static_cast<pmix_rank_t>(first_rank(order_, order_.node_rank));
  const auto size = static_cast<pmix_rank_t>(size_of(order_, order_.node_rank));
  return process.rank >= first && process.rank < first + size;
}

PmixServer::Among PmixServer::among(const pmix_proc_t* processes, std::size_t count) const {
  const auto world = static_cast<std::size_t>(world_size(order_));
  bool ours = true;
  for (std::size_t i = 0; i < count; ++i) {
    if (order_.name != std::string(processes[i].nspace)) return Among::Others;
    if (processes[i].rank == PMIX_RANK_WILDCARD) return Among::AllRanks;
    ours = ours && is_ours(processes[i]);
  }
  if (count == world) return Among::AllRanks;
  return ours ? Among::OurRanks : Among::Others;
}

pmix_status_t PmixServer::fence(const pmix_proc_t* processes, std::size_t count, std::string data,
                                Fence fence) {
  const Among whom = among(processes, count);
  if (whom == Among::Others) return PMIX_ERR_NOT_SUPPORTED;
  if (data.size() > kDataBytesMax) {
    tell(-1, false,
         fmt::format("a fence of PMIx has {} bytes of this node; at most {} are allowed",
                     data.size(), kDataBytesMax));
    return PMIX_ERR_OUT_OF_RESOURCE;
  }
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++fences_;
    waiting_[number] = fence;
  }
  supervisor_.send(encode(PmixFence{number, whom == Among::OurRanks, std::move(data)}));
  return PMIX_SUCCESS;
}

void PmixServer::end_fence(PmixFenceOver over) {
  Fence fence;
  {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(over.fence);
    if (found == waiting_.end()) return;
    fence = found->second;
    waiting_.erase(found);
  }
  if (!over.error.empty()) return fence.done(PMIX_ERROR, nullptr, 0, fence.data, nullptr, nullptr);
  auto* data = new std::string(std::move(over.data));
  fence.done(PMIX_SUCCESS, data->data(), data->size(), fence.data, &release_text, data);
}

void PmixServer::tell(std::int32_t rank, bool began, std::string text) {
  if (text.size() > kTextBytesMax) text.resize(kTextBytesMax);
  supervisor_.send(encode(PmixNotice{rank, began, std::move(text)}));
}

}  // namespace train
