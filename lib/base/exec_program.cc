#include "lib/base/exec_program.h"

#include <unistd.h>

#include <cerrno>

#include "lib/base/print.h"

namespace train {

Error exec_program(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  flush_out();
  ::execvp(arguments[0], arguments.data());
  return system_error(errno, "starting " + words.front());
}

}  // namespace train
