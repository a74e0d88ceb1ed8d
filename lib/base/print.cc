#include "lib/base/print.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace train {
namespace {

void say_failed(int error) {
  const std::string line = fmt::format("{}: error: stdout cannot be written: {}\n",
                                       ::program_invocation_short_name, std::strerror(error));
  (void)std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

void write_screen(std::FILE* stream, std::string_view text) {
  if (stream == stdout && output_has_failed()) return;
  const bool all = std::fwrite(text.data(), 1, text.size(), stream) == text.size();
  if (!all && stream == stdout) say_failed(errno);
}

void hold_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
      const int mode = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
      (void)::open("/dev/null", mode);  // open() takes the lowest free number, which is fd
    }
  }
}

void print_json(std::string_view json) {
  std::string text;
  for (const char c : json) {
    if (c == '\x7F')
      text += "\\u007f";
    else
      text += c;
  }
  print_out("{}\n", Lines{text});
}

void print_error(std::string_view program, const Error& error) {
  print_err("{}: error: {}\n", program, Lines{error.message});
  if (!error.hint.empty()) print_err("{}: {}\n", program, Lines{error.hint});
}

bool output_has_failed() { return std::ferror(stdout) != 0; }

void flush_out() {
  if (!output_has_failed() && std::fflush(stdout) != 0) say_failed(errno);
}

int finish_output(int code) {
  flush_out();
  return output_has_failed() && code == 0 ? kOutputFailed : code;
}

}  // namespace train
