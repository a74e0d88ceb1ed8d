#include "daemon/supervisor/backends/pmix_libraries.h"

namespace train {

std::vector<std::string> pmix_libraries(const std::string& program,
                                        const std::map<std::string, std::string>& environment) {
  if (const auto own = environment.find(kPmixLibraryVariable); own != environment.end())
    return {own->second};
  std::vector<std::string> libraries;
  if (const std::size_t slash = program.rfind('/'); slash != std::string::npos) {
    const std::string folder = program.substr(0, slash);
    libraries.push_back(folder + "/../lib/openmpi/libpmix.so.2");
    libraries.push_back(folder + "/../lib/libpmix.so.2");
  }
  libraries.emplace_back("libpmix.so.2");
  return libraries;
}

}  // namespace train
