#include "lib/base/text_file.h"

#include <fstream>
#include <sstream>

namespace train {

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return file.bad() || text.bad() ? "" : std::move(text).str();
}

}  // namespace train
