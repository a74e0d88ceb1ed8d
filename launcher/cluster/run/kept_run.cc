#include "launcher/cluster/run/kept_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/cluster/run/folder_owner.h"
#include "launcher/core/run_history.h"
#include "launcher/spec/job_spec_parser.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/terminal_text.h"
#include "lib/base/write_all.h"
#include "lib/net/run_owner.h"
#include "lib/storage/journal.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

constexpr std::uint64_t kKeyBytesMax = 256, kTakerBytesMax = 8u << 10;
/// Names the loop of a worker that is a function of Python: it may be another in each run.
constexpr const char* kPythonLoop = "TRAINRUN_LOOP";

}  // namespace

Result<Unit> take_workers(const RunFolder& folder, const std::string& taker) {
  const std::string note = folder.workers_taken();
  const FileDescriptor file(
      ::open(note.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0 && errno == EEXIST)
    return Error{Errc::AlreadyExists, taker_of_workers(folder) + " has taken them"};
  if (file.get() < 0) return system_error(errno, "creating " + note);
  auto written = write_all(file.get(), taker + "\n", note);
  if (written && ::fsync(file.get()) != 0) written = system_error(errno, "syncing " + note);
  if (!written) ::unlink(note.c_str());  // a full disk has taken nobody's workers
  return written;
}

std::string taker_of_workers(const RunFolder& folder) {
  PosixFileSystem files;
  const auto text = read_small_file(files, folder.workers_taken(), kTakerBytesMax);
  if (!text) return text.error().code == Errc::NotFound ? "" : "another run";
  const std::string taker = text->substr(0, text->find('\n'));
  return taker.empty() ? "another run" : terminal_safe(taker);
}

std::string why_none_stay(const JobSpec& spec, bool own_daemons) {
  if (own_daemons) return "the daemons of a Slurm step end with their run";
  if (spec.cluster.finds_nodes()) return "nodes are found anew for each run";
  if (!ingest_needs(spec).empty()) return "ingest workers are started anew for each run";
  if (spec.backend == Backend::Mpi) return "a process speaks MPI once in its life";
  if (is_object_url(spec.run_config.storage_path)) return "the run is in an object store";
  return "";
}

std::string worker_differences(const JobSpec& before, const JobSpec& now) {
  auto old_env = before.env, env = now.env;
  old_env.erase(kPythonLoop);
  env.erase(kPythonLoop);
  const std::pair<const char*, bool> same[] = {
      {"command", before.command == now.command},
      {"working_dir", before.working_dir == now.working_dir},
      {"ship", before.ship == now.ship},
      {"env", old_env == env},
      {"per_node_setup", before.per_node_setup == now.per_node_setup},
      {"backend", before.backend == now.backend},
      {"backend_config", before.backend_config == now.backend_config &&
                             before.collectives == now.collectives &&
                             before.deterministic == now.deterministic},
      {"scaling_config", before.scaling_config == now.scaling_config},
      {"run_config.umask", before.run_config.umask == now.run_config.umask},
      {"run_config.rlimits", before.run_config.rlimits == now.run_config.rlimits},
      {"run_config.keep_capabilities",
       before.run_config.keep_capabilities == now.run_config.keep_capabilities},
      {"cluster", before.cluster == now.cluster}};
  std::vector<std::string> different;
  for (const auto& [key, is_same] : same)
    if (!is_same) different.emplace_back(key);
  return fmt::format("{}", fmt::join(different, ", "));
}

Result<KeptRun> read_kept_run(const RunFolder& folder, const JobSpec& spec) {
  PosixFileSystem files;
  TRY_VOID(check_folder_owner(folder.path(), "the run before"));
  TRY(const JournalReplay journal, read_journal(files, folder.journal()));
  SpecSource source{.path = folder.resolved_spec()};
  const auto read = parse_job_spec(source);
  const auto* parsed = std::get_if<ParsedSpec>(&read);
  if (parsed == nullptr)
    return Error{Errc::Corrupt, "its spec cannot be read: " + std::get<std::string>(read)};
  const JobSpec& before = parsed->spec;
  KeptRun kept;
  RunHistory history(before.run_config.failure_config, before.scaling_config.num_workers.elastic());
  for (const JournalRecord& record : journal.records) {
    history.add(record.generation, record.time, record.event);
    kept.generation = std::max(kept.generation, record.generation);
    const auto* id = record.event.if_contains("run_id");
    if (id != nullptr && id->is_string()) kept.run_id = std::string(id->as_string());
  }
  if (!history.workers_stay() || history.attempts().empty())
    return Error{Errc::NotFound, "no workers have stayed after it"};
  TRY(kept.owner_key, read_small_file(files, folder.owner_key(), kKeyBytesMax));
  while (!kept.owner_key.empty() && kept.owner_key.back() == '\n') kept.owner_key.pop_back();
  if (!is_owner_key(kept.owner_key) || !kept.run_id.ends_with("-" + owner_digest(kept.owner_key)))
    return Error{Errc::Corrupt, folder.owner_key() + " is not the key of that run"};
  kept.workers = {
      .attempt = history.attempts().back().id, .placement = history.placed(), .differs = {}};
  const std::string keys = worker_differences(before, spec);
  if (!keys.empty())
    kept.workers.differs = fmt::format("they are of a job with another {}", keys);
  else
    kept.workers.differs = why_none_stay(spec, /*own_daemons=*/false);
  return kept;
}

}  // namespace train
