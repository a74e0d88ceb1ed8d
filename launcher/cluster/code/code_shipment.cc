#include "launcher/cluster/code/code_shipment.h"

#include <fmt/format.h>

#include <filesystem>

#include "launcher/cluster/code/code_keeper.h"
#include "launcher/cluster/code/code_listing.h"
#include "lib/base/size_text.h"

namespace train {

namespace {

bool is_here_now(const JobSpec& spec) {
  std::error_code ec;
  return std::filesystem::is_directory(spec.working_dir, ec);
}

}  // namespace

Result<Unit> CodeShipment::check(const JobSpec& spec) {
  const bool changes = !spec.setup.empty();  // it may make and remove files
  if (!spec.ship.on || changes || !is_here_now(spec)) return Unit{};
  TRY_VOID(list_code(spec));
  return Unit{};
}

Result<Unit> CodeShipment::make(const std::function<bool()>& stopped) {
  const bool is_here = is_here_now(spec_);
  if (restarted_ || !is_here) {
    if (auto kept = kept_code(run_)) {
      made_ = Made{.folder = *kept, .text = "code: as before, from " + *kept, .warnings = {}};
      if (!is_here && !restarted_)
        made_->warnings.push_back(
            fmt::format("ship: '{}' is not here: the run goes on with the "
                        "code that it has",
                        spec_.working_dir));
      return Unit{};
    }
  }
  TRY(CodeListing listing, list_code(spec_, stopped));
  auto kept = keep_code(run_, spec_.working_dir, listing, stopped);
  if (kept.has_error()) return std::move(kept).error().with_context("ship");
  made_ = Made{.folder = kept->folder,
               .text = fmt::format("code: {} {} ({}) of {}", kept->files,
                                   kept->files == 1 ? "file" : "files", size_text(kept->bytes),
                                   spec_.working_dir),
               .warnings = std::move(listing.warnings)};
  return Unit{};
}

}  // namespace train
