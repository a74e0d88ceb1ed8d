#include "launcher/cluster/run/run_end.h"

#include "launcher/cluster/run/detached_run.h"
#include "launcher/report/summary.h"
#include "lib/storage/storage_marker.h"

namespace train {

Result<Unit> put_run_end(RunRecord& record, const RunSummary& summary, bool detached) {
  const auto owner = record.check_owner();
  const bool replaced = owner.has_error() && owner.error().code == Errc::Fenced;
  if (replaced) return Unit{};  // the run now belongs to another launcher
  (void)write_small_file(record.files(), record.folder().run_json(), run_json(summary));
  (void)write_small_file(record.files(), record.folder().exit_json(), exit_json(summary));
  remove_storage_markers(record.files(), record.folder().path());
  (void)record.files().remove_file(record.folder().stop_request_taken());
  if (detached) end_detached(record.folder());
  if (owner.has_error()) return owner.error();  // who owns the run in the store is not known
  return record.remote() != nullptr ? record.remote()->finish() : Unit{};
}

}  // namespace train
