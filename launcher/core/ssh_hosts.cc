#include "launcher/core/ssh_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "lib/base/terminal_text.h"

namespace train {
namespace {

constexpr std::size_t kNameBytesMax = 253;

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool consists_of(std::string_view text, std::string_view more) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return is_alphanumeric(c) || more.find(c) != std::string_view::npos;
  });
}

/// Return whether the text can be neither an option of ssh nor anything to a shell.
bool is_name(std::string_view text, std::string_view more) {
  return !text.empty() && text.size() <= kNameBytesMax && text.front() != '-' &&
         consists_of(text, more);
}

Error wrong(std::string_view why) { return {Errc::InvalidArgument, std::string(why)}; }

}  // namespace

Result<SshHost> parse_ssh_host(std::string_view text) {
  SshHost result;
  if (const std::size_t at = text.rfind('@'); at != std::string_view::npos) {
    result.user = text.substr(0, at);
    if (!is_name(result.user, "._-\\@")) return wrong("has a user that is no name");
    text.remove_prefix(at + 1);
  }
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return wrong("has a bracket that does not end");
    port = text.substr(end + 1);
    text = text.substr(1, end - 1);
    if (!port.empty() && !port.starts_with(':')) return wrong("has text after its bracket");
    if (!is_name(text, ":.%")) return wrong("has no IPv6 address in its brackets");
  } else {
    if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
      if (text.find(':', colon + 1) != std::string_view::npos)
        return wrong("has an IPv6 address without brackets");
      port = text.substr(colon);
      text = text.substr(0, colon);
    }
    if (text.empty()) return wrong("has no host");
    if (!is_name(text, "._-")) return wrong("has a host that is no name");
  }
  result.host = text;
  if (port.empty()) return result;
  port.remove_prefix(1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), result.port);
  if (error != std::errc{} || end != port.data() + port.size() || result.port == 0)
    return wrong("has no port from 1 to 65535");
  return result;
}

Result<std::vector<std::string>> parse_host_list(std::string_view text) {
  const auto check = [](std::string_view word) -> Result<std::string> {
    TRY_VOID(parse_ssh_host(word));
    return std::string(word);
  };
  TRY(auto hosts, read_host_words(text, kHostListBytesMax, check));
  if (hosts.empty()) return wrong("it names no host");
  return hosts;
}

Result<BatchHosts> hosts_of_batch_job(const std::map<std::string, std::string>& environment) {
  for (const char* name : {"PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "LSB_HOSTS"}) {
    const auto found = environment.find(name);
    if (found == environment.end() || found->second.empty()) continue;
    return BatchHosts{name, found->second, std::string_view(name) != "LSB_HOSTS"};
  }
  return Error{Errc::NotFound,
               "this is no job of PBS or LSF: neither PBS_NODEFILE nor LSB_DJOB_HOSTFILE nor "
               "LSB_HOSTS is set",
               "name the hosts: --ssh gpu-1,gpu-2, or --ssh @FILE"};
}

std::string remote_program_mistake(std::string_view program) {
  if (program.empty() || program.front() == '-' || !consists_of(program, "/._+~-"))
    return "may have letters, digits and /._+~- only";
  return "";
}

// BatchMode: nobody is there to type a password or to accept a key. No ControlMaster, which would
// hold the links of all later logins; an existing one is used. The user's own forwardings are for
// his terminal.
std::vector<std::string> ssh_arguments(const SshHost& host, const SshConfig& config) {
  std::vector<std::string> words{"-T"};
  for (const char* option :
       {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=15", "ServerAliveCountMax=4",
        "ControlMaster=no", "ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no",
        "PermitLocalCommand=no", "RemoteCommand=none", "LogLevel=ERROR"}) {
    words.insert(words.end(), {"-o", option});
  }
  if (!config.config_file.empty()) words.insert(words.end(), {"-F", config.config_file});
  if (host.port != 0) words.insert(words.end(), {"-p", fmt::format("{}", host.port)});
  if (!host.user.empty()) words.insert(words.end(), {"-l", host.user});
  // A command over ssh gets a short PATH, without the folders for administrators. Any login shell
  // understands these words.
  const std::string program = config.traind.value_or(
      "env PATH=\"$PATH:/usr/local/sbin:/usr/sbin:$HOME/.local/bin\" traind");
  words.insert(words.end(), {"--", host.host, program + " dial-stdio"});
  return words;
}

std::string ssh_arguments_by_hand(const SshHost& host, const SshConfig& config) {
  std::string text;
  if (!config.config_file.empty()) text += " -F " + shell_word(config.config_file);
  if (host.port != 0) text += fmt::format(" -p {}", host.port);
  return text + " " + (host.user.empty() ? "" : shell_word(host.user) + "@") + host.host;
}

}  // namespace train
