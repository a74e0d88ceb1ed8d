#include "launcher/core/ssh_failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "lib/base/terminal_text.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr std::size_t kLineBytesMax = 300;
constexpr int kOfSsh = 255, kNoCommand = 127, kNotExecutable = 126, kWrongArguments = 64;

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string cleaned(std::string_view line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
  return terminal_safe(utf8_text(line, kLineBytesMax));
}

constexpr std::string_view kError = "traind: error: ", kHint = "traind: ";

/// Take the first line off the text.
std::string_view take_line(std::string_view& said) {
  const std::string_view line = said.substr(0, said.find('\n'));
  said.remove_prefix(std::min(said.size(), line.size() + 1));
  return line;
}

/// Return the last line that has this text and is not empty; "" for none.
std::string line_with(std::string_view said, std::string_view part) {
  std::string found;
  while (!said.empty()) {
    const std::string_view line = take_line(said);
    if (std::string text = cleaned(line); !text.empty() && has(line, part)) found = std::move(text);
  }
  return found;
}

/// Put the arguments of a login by hand in place of each {}.
std::string with_arguments(std::string_view hint, const SshEnd& end) {
  std::string text(hint);
  for (std::size_t at = 0; (at = text.find("{}", at)) != std::string::npos;
       at += end.arguments.size())
    text.replace(at, 2, end.arguments);
  return text;
}

/// What ssh itself says, and what to do about it. The first that fits counts.
struct OfSsh {
  std::string_view text, hint;
  Errc code = Errc::Unavailable;
  bool final = false, silent = false;
};
constexpr std::array kOfSshTable{
    OfSsh{"IDENTIFICATION HAS CHANGED",
          "its key is not the one that you know: ask its administrator, then forget the old one "
          "with ssh-keygen -R",
          Errc::Permission, true},
    OfSsh{"Host key verification failed",
          "log in once by hand and compare its key, or put the key into ~/.ssh/known_hosts: ssh{}",
          Errc::Permission, true},
    // With its methods; a key file that cannot be read is only passed over.
    OfSsh{"Permission denied (",
          "train-run types no password: put your public key there (ssh-copy-id{}), or start "
          "ssh-agent; then try: ssh -o BatchMode=yes{} true",
          Errc::Permission, true},
    OfSsh{"Too many authentication failures",
          "name the key of this host in ~/.ssh/config: IdentityFile, with IdentitiesOnly yes",
          Errc::Permission, true},
    OfSsh{"Bad configuration option", "mend the configuration file of ssh", Errc::Permission, true},
    OfSsh{"Can't open user config file", "see cluster.ssh.config", Errc::Permission, true},
    OfSsh{"Could not resolve hostname", "check its name, and Host in ~/.ssh/config"},
    OfSsh{"Connection refused", "start sshd there, or name its port: HOST:PORT"},
    OfSsh{"Connection timed out", "see whether the host is up", Errc::Unavailable, false, true},
    OfSsh{"Operation timed out", "see whether the host is up", Errc::Unavailable, false, true},
    OfSsh{"No route to host", "see whether the host is up", Errc::Unavailable, false, true},
    OfSsh{"Network is unreachable", "see whether the host is up", Errc::Unavailable, false, true},
};

/// Return the last error that traind has told, with its hint, if it has told one.
std::optional<SshFailure> of_traind(std::string_view said) {
  std::optional<SshFailure> failure;
  while (!said.empty()) {
    const std::string_view line = take_line(said);
    if (!line.starts_with(kError)) continue;
    failure = {{Errc::Unavailable, cleaned(line.substr(kError.size())), ""}, false, false};
    if (failure->error.message.empty()) failure->error.message = "its traind fails";
    std::string_view rest = said;
    const std::string_view next = take_line(rest);
    if (next.starts_with(kHint) && !next.starts_with(kError))
      failure->error.hint = cleaned(next.substr(kHint.size()));
  }
  return failure;
}

std::string dial_by_hand(const SshEnd& end) {
  return with_arguments("try it by hand: ssh{} ", end) + end.program + " dial-stdio";
}

SshFailure of_remote(const SshEnd& end) {
  if (auto told = of_traind(end.said)) return *std::move(told);
  const std::string last = last_line_of(end.said);
  const std::string quoted = last.empty() ? "" : fmt::format(" ({})", last);
  if (end.code == kNoCommand || end.code == kNotExecutable)
    return {{Errc::Unavailable, "there is no traind" + quoted,
             "install trainrun there, or name its path on the hosts: cluster.ssh.traind"},
            true,
            false};
  if (end.other_program || end.code == kWrongArguments)
    return {{Errc::Protocol, "its traind knows no dial-stdio" + quoted,
             "install the version of train-run there"},
            true,
            false};
  return {{Errc::Unavailable,
           end.code ? fmt::format("its traind cannot be reached: exit code {}{}", *end.code, quoted)
                    : "ssh ended" + quoted,
           dial_by_hand(end)},
          false,
          false};
}

SshFailure of_ssh(const SshEnd& end) {
  for (const OfSsh& row : kOfSshTable) {
    const std::string line = line_with(end.said, row.text);
    if (line.empty()) continue;
    return {{row.code, line, with_arguments(row.hint, end)}, row.final, row.silent};
  }
  const std::string last = last_line_of(end.said);
  return {{Errc::Unavailable, last.empty() ? "ssh failed and does not say why" : last,
           with_arguments("try it by hand: ssh{} true", end)},
          false,
          false};
}

}  // namespace

std::string last_line_of(std::string_view said) { return line_with(said, ""); }

SshFailure explain_ssh(const SshEnd& end) {
  SshFailure failure;
  if (end.timed_out) {
    const std::string last = last_line_of(end.said);
    failure = {{Errc::Unavailable, "the login took too long" + (last.empty() ? "" : ": " + last),
                dial_by_hand(end)},
               false,
               true};
  } else if (end.code == kOfSsh) {
    failure = of_ssh(end);
  } else {
    failure = of_remote(end);
  }
  failure.error.message = fmt::format("ssh to {}: {}", end.host, failure.error.message);
  return failure;
}

}  // namespace train
