#include "launcher/bundle/bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "launcher/bundle/archive_writer.h"
#include "launcher/bundle/bundle_plan.h"
#include "launcher/bundle/machine_facts.h"
#include "launcher/bundle/run_files.h"
#include "launcher/bundle/run_secrets.h"
#include "launcher/cluster/checkpoints/remote_run.h"
#include "lib/base/secrets.h"
#include "lib/base/terminal_text.h"
#include "lib/base/time.h"

namespace train {
namespace {

constexpr std::size_t kLinesMax = 10'000;        // of MANIFEST.txt, about what was left out
constexpr std::size_t kRemoteManifestsMax = 64;  // the newest
constexpr std::uint64_t kManifestBytesMax = 8u << 20;

/// Return the name of the archive without its folder and endings.
std::string stem_of(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  for (const std::string_view ending : {".gz", ".tar", ".tgz"})
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  return name.empty() || name.starts_with('.') ? "bundle" : redacted(name);
}

class Bundle {
 public:
  Bundle(const RunFolder& folder, const BundleOptions& options, ArchiveWriter archive)
      : folder_(folder), options_(options), archive_(std::move(archive)) {}

  Result<BundleSummary> make() {
    secrets_ = learn_run_secrets(folder_);
    const RunFiles found = list_run_files(folder_.path(), is_bundled_folder);
    notes_ = found.notes;
    BundlePlan plan = plan_bundle(found.files, options_.bytes_max);
    for (const BundlePart& part : plan.parts) {
      TRY_VOID(add_part(part));
    }
    TRY_VOID(add_remote_manifests());
    TRY_VOID(add("machine.txt", redacted(machine_facts(options_.build, folder_.path()))));
    TRY_VOID(add_workers());
    TRY_VOID(add("MANIFEST.txt", manifest_text(plan)));
    summary_.left_out = plan.left_out.size();
    for (const std::string& note : secrets_.notes) summary_.secrets += note + "\n";
    TRY(summary_.bytes, archive_.finish());
    return summary_;
  }

 private:
  Result<Unit> add(const std::string& name, std::string_view content) {
    return archive_.add(fmt::format("{}/{}", stem_of(options_.path), name), content);
  }

  /// Say in MANIFEST.txt what of a file is here.
  void list(std::string_view path, std::uint64_t bytes, std::string_view what) {
    manifest_ += fmt::format("{:>12}  {}{}{}\n", bytes, terminal_safe(path),
                             what.empty() ? "" : ": ", terminal_safe(what));
  }

  Result<Unit> add_part(const BundlePart& part) {
    ++summary_.files;
    if (part.path == "spec.yaml" || part.path == "spec.resolved.yaml") return add_spec(part);
    ReadPart head = read_run_file(folder_.path(), part.path, 0, part.head);
    std::string text = std::move(head.text);
    std::string what = head.problem.empty() ? "" : "cannot be read further: " + head.problem;
    if (!part.whole()) {
      const ReadPart tail =
          read_run_file(folder_.path(), part.path, part.bytes - part.tail, part.tail);
      if (!what.empty()) what += "; ";
      if (!tail.problem.empty()) what += "its end cannot be read: " + tail.problem + "; ";
      text.resize(without_cut_end(text).size());
      const std::string_view end = without_cut_begin(tail.text);
      const std::uint64_t missing =
          part.bytes - std::min<std::uint64_t>(part.bytes, text.size() + end.size());
      text += fmt::format("\n[trainrun: {} bytes are left out here]\n", missing);
      text += end;
      what += part.head == 0
                  ? fmt::format("its end; {} bytes before are left out", missing)
                  : fmt::format("its beginning and end; {} bytes between are left out", missing);
    }
    if (!what.empty()) ++summary_.shortened;
    list(part.path, part.bytes, what);
    return add("run/" + redacted(part.path), redacted(text));
  }

  /// Add a spec as it may be shown. Its bytes may hold secrets that only its structure tells.
  Result<Unit> add_spec(const BundlePart& part) {
    const std::string& shown = part.path == "spec.yaml" ? secrets_.spec : secrets_.resolved_spec;
    if (shown.empty()) {
      ++summary_.shortened;
      list(part.path, part.bytes,
           "left out: it cannot be read as a spec, so what is secret in it is not known");
      return Unit{};
    }
    list(part.path, part.bytes, "without its secrets");
    return add("run/" + part.path, redacted(shown));
  }

  /// Add the manifests of a run in an object store: its folder here has none.
  Result<Unit> add_remote_manifests() {
    const std::string location = location_of_run(folder_);
    if (location == folder_.path()) return Unit{};
    const auto remote = RemoteRun::open(location);
    if (!remote) return note(remote.error().describe());
    ObjectFiles& files = (*remote)->files();
    const std::string checkpoints = join_path(location, "checkpoints");
    const auto entries = files.list(checkpoints);
    if (!entries) {
      if (entries.error().code == Errc::NotFound) return Unit{};
      return note(entries.error().describe());
    }
    const std::size_t skipped = entries->size() - std::min(entries->size(), kRemoteManifestsMax);
    for (std::size_t i = skipped; i < entries->size(); ++i) {
      const std::string name = (*entries)[i].name;
      const std::string path = join_path(join_path(checkpoints, name), ".manifest.json");
      const auto text = read_small_file(files, path, kManifestBytesMax);
      if (!text) {
        notes_.push_back(text.error().describe());
        continue;
      }
      ++summary_.files;
      list("checkpoints/" + name + "/.manifest.json", text->size(), "");
      TRY_VOID(add("run/checkpoints/" + redacted(name) + "/.manifest.json", redacted(*text)));
    }
    return Unit{};
  }

  Result<Unit> add_workers() {
    std::string text;
    for (const int pid : secrets_.workers)
      if (const std::string libraries = training_libraries_of(pid); !libraries.empty())
        text += fmt::format("process {}:\n{}", pid, libraries);
    return text.empty() ? Result<Unit>(Unit{}) : add("libraries.txt", redacted(text));
  }

  Result<Unit> note(std::string text) {
    notes_.push_back(std::move(text));
    return Unit{};
  }

  std::string manifest_text(const BundlePlan& plan) const {
    std::string text = fmt::format(
        "A bundle of the run {}, made by train-run {} at {}.\n"
        "Values known to be secret, and those of names like password, read <redacted:NAME>.\n",
        location_of_run(folder_), options_.build, format_utc(std::chrono::system_clock::now()));
    for (const std::string& note : secrets_.notes)
      text += "Not known: " + terminal_safe(note) + "\n";
    text += "\nFiles of the run, with their sizes there:\n" + manifest_;
    text += "\nLeft out:\n";
    for (std::size_t i = 0; i < plan.left_out.size() && i < kLinesMax; ++i) {
      const LeftOut& file = plan.left_out[i];
      text += fmt::format("{:>12}  {}: {}\n", file.bytes, terminal_safe(file.path), file.why);
    }
    if (plan.left_out.size() > kLinesMax)
      text += fmt::format("and {} more\n", plan.left_out.size() - kLinesMax);
    if (!notes_.empty()) text += "\nProblems:\n";
    for (const std::string& note : notes_) text += terminal_safe(note) + "\n";
    return redacted(text);
  }

  const RunFolder& folder_;
  const BundleOptions& options_;
  ArchiveWriter archive_;
  RunSecrets secrets_;
  std::vector<std::string> notes_;
  std::string manifest_;
  BundleSummary summary_;
};

}  // namespace

Result<BundleSummary> make_bundle(const RunFolder& folder, const BundleOptions& options) {
  TRY(ArchiveWriter archive, ArchiveWriter::begin(options.path));
  return Bundle(folder, options, std::move(archive)).make();
}

}  // namespace train
