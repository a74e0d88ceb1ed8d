// bundle: puts what a bug report about a run needs into one archive.
#include <fmt/format.h>

#include <filesystem>

#include "cmd/build_info.h"
#include "cmd/train-run/commands.h"
#include "cmd/train-run/run_life.h"
#include "launcher/bundle/bundle.h"
#include "lib/base/print.h"
#include "lib/base/time.h"

namespace train {
namespace {

namespace fs = std::filesystem;

/// Return "NAME-bundle-20261126-151500.tar.gz".
std::string default_path(const RunFolder& folder) {
  std::string time;
  for (const char c : format_utc(std::chrono::system_clock::now()).substr(0, 19))
    if (c != '-' && c != ':') time += c == 'T' ? '-' : c;
  return fmt::format("{}-bundle-{}.tar.gz", fs::path(folder.path()).filename().string(), time);
}

}  // namespace

int bundle_command(const RunReference& reference, const BundleCommand& options) {
  if (options.bytes_max < kBundleBytesMin || options.bytes_max > kBundleBytesMax) {
    print_err("train-run: error: --max-bytes is {}, not {} to {}\n", options.bytes_max,
              kBundleBytesMin, kBundleBytesMax);
    return exit_code::kUsage;
  }
  const auto folder = folder_of(reference);
  if (!folder) return failed(folder.error());
  const std::string path = options.path.empty() ? default_path(*folder) : options.path;
  const auto made =
      make_bundle(*folder, {.path = path, .bytes_max = options.bytes_max, .build = kBuild});
  if (!made) return failed(made.error());
  print_out("{}: {} bytes, mode 0600\n", path, made->bytes);
  print_out(
      "in it: {} files of the run ({} of them not complete), facts about this machine, and "
      "MANIFEST.txt, which also lists what is left out\n",
      made->files, made->shortened);
  if (!made->secrets.empty())
    print_out("these secrets could not be looked for:\n{}", Lines{made->secrets});
  print_out(
      "look through it before you send it: train-run has removed the secrets that it knows of, "
      "and the output of workers may tell more\n");
  return 0;
}

}  // namespace train
