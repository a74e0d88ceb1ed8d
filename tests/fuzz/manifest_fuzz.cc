// Reads a checkpoint folder's manifest, what a validation left beside it, and the table of a run's
// code, from arbitrary bytes. An accepted manifest names only files inside the folder, with sizes
// that can be added up, and can be written and read again.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "lib/storage/code_manifest.h"
#include "lib/storage/manifest.h"
#include "lib/storage/storage_marker.h"
#include "lib/storage/validation_record.h"

namespace {

using namespace train;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_manifest(std::string_view text) {
  const auto manifest = parse_manifest(text);
  if (!manifest) return;
  std::uint64_t sum = 0;
  for (const ManifestFile& file : manifest->files) {
    const std::filesystem::path path = std::filesystem::path("/root/c").append(file.path);
    require(path.lexically_normal().string().starts_with("/root/c/"));
    require(path.lexically_normal() == path);
    require(!__builtin_add_overflow(sum, file.bytes, &sum));
  }
  require(manifest->total_bytes() == sum);
  const auto again = format_manifest(*manifest);
  require(again.has_value());
  const auto twice = parse_manifest(*again);
  require(twice && format_manifest(*twice).value() == *again);
  require(twice->files == manifest->files && twice->world_size == manifest->world_size);
}

void check_code(std::string_view text) {
  const auto files = parse_code(text);
  if (!files) return;
  std::uint64_t sum = 0;
  for (const CodeFile& file : *files) {
    const std::filesystem::path path = std::filesystem::path("/root/c").append(file.path);
    require(path.lexically_normal().string().starts_with("/root/c/"));
    require(path.lexically_normal() == path && file.path != kCodeManifestName);
    require(!__builtin_add_overflow(sum, file.bytes, &sum));
  }
  const auto twice = parse_code(format_code(*files));
  require(twice && *twice == *files);
}

void check_validation(std::string_view text) {
  const auto record = parse_validation(text);
  if (!record) return;
  const std::string again = format_validation(*record);
  const auto twice = parse_validation(again);
  require(twice && format_validation(*twice) == again);
}

/// Return a body with its digest, in the form in which both files end.
std::string with_digest(std::string_view body) {
  return std::string(body) + ",\n\"digest\":\"" + to_hex(digest_of(body)) + "\"}\n";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string text = data[0] % 2 == 0 ? std::string(rest) : with_digest(rest);
  check_manifest(text);
  check_code(text);
  check_validation(text);
  (void)parse_validation_result(rest);
  return 0;
}
