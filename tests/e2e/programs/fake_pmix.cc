// A libpmix that is none: it writes nonsense to every socket of its process, FAKE_PMIX=early when
// it is to serve, =late a moment after it has begun to.
#include <pmix.h>
#include <pmix_server.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace {

void write_nonsense() {
  std::array<char, 1000> nonsense{};
  nonsense.fill('x');
  for (int fd = 3; fd < 64; ++fd) {
    struct stat status {};
    if (::fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode))
      (void)!::send(fd, nonsense.data(), nonsense.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

bool wants(const char* when) {
  const char* said = std::getenv("FAKE_PMIX");
  return said != nullptr && std::strcmp(said, when) == 0;
}

}  // namespace

extern "C" {

const char* PMIx_Get_version() { return "OpenPMIx 9.9"; }
const char* PMIx_Error_string(pmix_status_t) { return "an error"; }
pmix_status_t PMIx_Info_load(pmix_info_t*, const char*, const void*, pmix_data_type_t) {
  return PMIX_SUCCESS;
}
pmix_status_t PMIx_generate_regex(const char* input, char** regex) {
  *regex = ::strdup(input);
  return PMIX_SUCCESS;
}
pmix_status_t PMIx_generate_ppn(const char* input, char** ppn) {
  *ppn = ::strdup(input);
  return PMIX_SUCCESS;
}
pmix_status_t PMIx_server_init(pmix_server_module_t*, pmix_info_t*, std::size_t) {
  if (wants("early")) write_nonsense();
  if (wants("late"))
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      write_nonsense();
    }).detach();
  return PMIX_SUCCESS;
}
pmix_status_t PMIx_server_register_nspace(const pmix_nspace_t, int, pmix_info_t*, std::size_t,
                                          pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}
void PMIx_server_deregister_nspace(const pmix_nspace_t, pmix_op_cbfunc_t done, void* data) {
  done(PMIX_SUCCESS, data);
}
pmix_status_t PMIx_server_register_client(const pmix_proc_t*, uid_t, gid_t, void*, pmix_op_cbfunc_t,
                                          void*) {
  return PMIX_OPERATION_SUCCEEDED;
}
/// Only what begins with PMIX_ reaches the worker.
pmix_status_t PMIx_server_setup_fork(const pmix_proc_t*, char*** environment) {
  *environment = static_cast<char**>(std::calloc(3, sizeof(char*)));
  (*environment)[0] = ::strdup("PMIX_FAKE=1");
  (*environment)[1] = ::strdup("LD_PRELOAD=/nowhere.so");
  return PMIX_SUCCESS;
}

}  // extern "C"
