#include "launcher/cluster/groups/lighthouse_command.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "launcher/core/ssh_hosts.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/terminal_text.h"

namespace train {
namespace {

constexpr std::string_view kProgram = "torchft_lighthouse";

using Executable = std::function<bool(const std::string& path)>;

/// Return where PATH has the program, or "".
std::string on_path(std::string_view name, const std::map<std::string, std::string>& environment,
                    const std::string& folder, const Executable& executable) {
  const auto path = environment.find("PATH");
  std::string_view rest = "/usr/bin:/bin";
  if (path != environment.end()) rest = path->second;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const std::string file = one.starts_with('/') ? fmt::format("{}/{}", one, name)
                                                  : fmt::format("{}/{}/{}", folder, one, name);
    if (executable(file)) return file;
  }
  return "";
}

std::string located(const std::string& name, const JobSpec& spec,
                    const std::map<std::string, std::string>& environment,
                    const Executable& executable) {
  if (name.find('/') == std::string::npos)
    return on_path(name, environment, spec.working_dir, executable);
  const std::string file = name.starts_with('/') ? name : spec.working_dir + "/" + name;
  return executable(file) ? file : "";
}

/// Return the Python that runs the command, or "".
std::string python_of(const JobSpec& spec, const std::map<std::string, std::string>& environment,
                      const Executable& executable) {
  const std::string& command = spec.command.front();
  const bool is_python =
      std::string_view(command).substr(command.rfind('/') + 1).starts_with("python");
  return is_python ? located(command, spec, environment, executable) : "";
}

}  // namespace

Result<std::vector<std::string>> lighthouse_command(
    const JobSpec& spec, const std::map<std::string, std::string>& environment,
    const Executable& executable) {
  const std::string python = python_of(spec, environment, executable);
  std::vector<std::string> words = spec.backend_config.lighthouse;
  const bool given = !words.empty();
  if (!given) words.emplace_back(kProgram);
  const std::string name = words.front();
  const std::string beside = python.substr(0, python.rfind('/') + 1) + name;
  const bool is_beside =
      !python.empty() && name.find('/') == std::string::npos && executable(beside);
  words.front() = is_beside ? beside : located(name, spec, environment, executable);
  if (!words.front().empty()) return words;
  if (given && name != kProgram)
    return Error{Errc::NotFound,
                 fmt::format("backend_config.lighthouse names {}, which is no program {}", name,
                             name.find('/') == std::string::npos ? "on PATH" : "here"),
                 "write its path"};
  if (python.empty())
    return Error{Errc::NotFound,
                 fmt::format("torchft's lighthouse is not installed: {} is not on PATH", kProgram),
                 "pip install torchft, or name it in backend_config.lighthouse"};
  return Error{Errc::NotFound,
               fmt::format("torchft's lighthouse is not installed: {} is neither beside {} nor on "
                           "PATH",
                           kProgram, python),
               fmt::format("{} -m pip install torchft, or name it in backend_config.lighthouse",
                           shell_word(python))};
}

Result<std::vector<std::string>> lighthouse_command(
    const JobSpec& spec, const std::map<std::string, std::string>& environment) {
  return lighthouse_command(spec, environment, [](const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
           ::access(path.c_str(), X_OK) == 0;
  });
}

Result<std::string> address_for_nodes(const std::vector<std::string>& nodes) {
  if (nodes.empty()) return std::string("127.0.0.1");
  std::string_view host = nodes.front();
  std::string name;
  if (host.starts_with(kSshPrefix)) {
    TRY(const SshHost parsed, parse_ssh_host(host.substr(kSshPrefix.size())));
    name = parsed.host;
  } else {
    host = host.substr(0, host.rfind(':'));
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    name = host;
  }
  const auto unknown = [&](const std::string& why) {
    return Error{Errc::Unavailable,
                 fmt::format("at which address {} reaches this machine is not known: {}",
                             nodes.front(), why),
                 "start torchft_lighthouse yourself, and write env: {TORCHFT_LIGHTHOUSE: "
                 "http://HOST:PORT}"};
  };
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (const int failed = ::getaddrinfo(name.c_str(), "9", &hints, &found); failed != 0)
    return unknown(::gai_strerror(failed));
  std::array<char, NI_MAXHOST> text{};
  int error = EADDRNOTAVAIL;
  for (const addrinfo* one = found; one != nullptr && text[0] == 0; one = one->ai_next) {
    // Connecting a UDP socket sends nothing: it only chooses the address.
    const FileDescriptor probe(::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    if (probe.get() < 0 || ::connect(probe.get(), one->ai_addr, one->ai_addrlen) != 0 ||
        ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0 ||
        ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) != 0)
      error = errno;
  }
  ::freeaddrinfo(found);
  if (text[0] == 0) return unknown(system_error(error, name).message);
  return std::string(text.data());
}

}  // namespace train
