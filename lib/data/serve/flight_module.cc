#include "lib/data/serve/flight_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace train::data {
namespace {

struct Module {
  ServeFlight serve = nullptr;
  ConnectFlight connect = nullptr;
};

Result<Module> load_module() {
  // dlopen() searches the RUNPATH of the program, which is relative to the program itself.
  void* const handle = ::dlopen("libtrainrun_flight.so", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    return Error{
        Errc::NotFound,
        fmt::format("what carries rows between nodes cannot be loaded: {}",
                    why != nullptr ? why : "?"),
        "install trainrun's libtrainrun_flight.so and the Arrow library it was built with"};
  }
  const Module module{reinterpret_cast<ServeFlight>(::dlsym(handle, kFlightServeEntry)),
                      reinterpret_cast<ConnectFlight>(::dlsym(handle, kFlightConnectEntry))};
  if (module.serve == nullptr || module.connect == nullptr)
    return Error{Errc::Internal, "libtrainrun_flight.so is of another version of trainrun"};
  return module;
}

const Result<Module>& module() {
  static const Result<Module> loaded = load_module();
  return loaded;
}

}  // namespace

std::string text_of(const FlightAccess& access) {
  return access.address + "\n" + access.token + "\n" + access.certificate;
}

Result<FlightAccess> read_flight_access(const std::string& text) {
  const std::size_t first = text.find('\n');
  const std::size_t second = first == std::string::npos ? first : text.find('\n', first + 1);
  if (second == std::string::npos || first == 0)
    return Error{Errc::InvalidArgument, "it does not say how to reach it"};
  return FlightAccess{text.substr(0, first), text.substr(first + 1, second - first - 1),
                      text.substr(second + 1)};
}

Result<std::unique_ptr<FlightServer>> start_flight_server(const FlightServing& serving) {
  if (module().has_error()) return module().error();
  Result<std::unique_ptr<FlightServer>> server = std::unique_ptr<FlightServer>();
  module()->serve(serving, &server);
  return server;
}

Result<std::unique_ptr<IngestPeer>> connect_flight_peer(const FlightAccess& access) {
  if (module().has_error()) return module().error();
  Result<std::unique_ptr<IngestPeer>> peer = std::unique_ptr<IngestPeer>();
  module()->connect(access, &peer);
  return peer;
}

}  // namespace train::data
