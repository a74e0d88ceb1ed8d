#include "sdk/trainer/resolved_spec.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <train/config.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "sdk/trainer/run_errors.h"

namespace train::trainer {
namespace {

/// A file in memory for what a program writes: unlike a pipe, it never makes the program wait.
class WrittenFile {
 public:
  WrittenFile() : fd_(::memfd_create("trainrun-spec", MFD_CLOEXEC)) {}
  ~WrittenFile() { ::close(fd_); }
  WrittenFile(const WrittenFile&) = delete;
  WrittenFile& operator=(const WrittenFile&) = delete;

  int fd() const { return fd_; }
  std::string read() const {
    std::string text;
    char buffer[16 << 10];
    for (;;) {
      const ssize_t count = ::pread(fd_, buffer, sizeof buffer, static_cast<off_t>(text.size()));
      if (count <= 0) return text;
      text.append(buffer, static_cast<std::size_t>(count));
    }
  }

 private:
  const int fd_;
};

/// Run a program to its end. Return its exit code, or 128 + the signal that killed it.
int run_program(std::vector<std::string>& words, const WrittenFile& out, const WrittenFile& err) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out.fd(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err.fd(), STDERR_FILENO);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int failed = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0)
    throw ControllerError(fmt::format("cannot start '{}': {} (set TRAINRUN_PROGRAM, or put "
                                      "train-run on PATH)",
                                      words.front(), std::strerror(failed)),
                          RunResult());
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Return the lines of a section, without its name; nothing if there is none.
std::optional<std::string_view> lines_of(std::string_view spec, std::string_view section) {
  const std::string name = fmt::format("\n{}:\n", section);
  const std::size_t found = spec.find(name);
  if (found == std::string_view::npos) return std::nullopt;
  const std::string_view lines = spec.substr(found + name.size() - 1);  // with the newline before
  std::size_t end = 0;
  while (lines.substr(end, 3) == "\n  ") end = std::min(lines.find('\n', end + 1), lines.size());
  return lines.substr(0, end);
}

/// Return the length of a text in quotes at the beginning of a line.
std::size_t quoted_size(std::string_view line) {
  std::size_t at = 1;
  while (at < line.size() && line[at] != '"') at += line[at] == '\\' ? 2 : 1;
  return std::min(at + 1, line.size());
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace

std::string resolved_spec(std::vector<std::string> words) {
  words.insert(words.begin() + 2, "--print-config");
  const WrittenFile out, err;
  const int code = run_program(words, out, err);
  if (code == 0) return out.read();
  std::string said = err.read();
  while (said.ends_with('\n')) said.pop_back();
  if (said.empty()) said = fmt::format("train-run ended with {}", code);
  RunResult refused;
  refused.outcome = "refused";
  refused.exit_code = code;
  throw_error_of(std::move(refused), said, std::nullopt);
}

SpecValue value_of(std::string_view spec, std::string_view section, std::string_view key) {
  const std::string whole = fmt::format("\n{}", spec);
  const auto lines = section.empty() ? std::string_view(whole) : lines_of(whole, section);
  if (!lines) return {};
  const std::string name = fmt::format("\n{}{}: ", section.empty() ? "" : "  ", key);
  const std::size_t found = lines->find(name);
  if (found == std::string_view::npos) return {};
  std::string_view line = lines->substr(found + name.size());
  line = line.substr(0, line.find('\n'));
  const bool quoted = line.starts_with('"');
  const std::size_t size = quoted ? quoted_size(line) : std::min(line.find("  # "), line.size());
  const std::string_view value = line.substr(0, size);
  return {.text = quoted ? parse_json(value).as<std::string>() : std::string(value),
          .given = line.substr(size) != "  # default"};
}

std::string escaped(std::string text) { return replaced(std::move(text), "${", "$${"); }

std::string unescaped(std::string text) { return replaced(std::move(text), "$${", "${"); }

}  // namespace train::trainer
