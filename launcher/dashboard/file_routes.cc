// The routes about files in a run's folder: stacks, profiles and logs.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "launcher/dashboard/assets.h"
#include "launcher/dashboard/json_members.h"
#include "launcher/dashboard/run_file_id.h"
#include "launcher/dashboard/run_routes.h"
#include "lib/base/time.h"

namespace train {
namespace {

constexpr std::size_t kListedMax = 1000;
constexpr std::size_t kFileBytesMax = 32u << 20;

/// What a flame graph may do: its own scripts, in an origin of its own.
constexpr const char* kSandbox =
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src "
    "'unsafe-inline'; img-src data:; frame-ancestors 'self'";

struct Found {
  RunFileId id;
  FileStamp stamp;
};

/// Look for files of the wanted kind and rank in one folder of an attempt.
void look(const FolderFiles& files, const std::string& folder, const std::string& kind,
          std::optional<std::int64_t> rank, std::vector<Found>& found) {
  for (const std::string& name : files.list(folder)) {
    const auto id = parse_run_file_id(folder + "/" + name);
    if (!id || (!kind.empty() && kind != id->kind) || (rank && id->rank != rank)) continue;
    if (const auto stamp = files.stamp(id->path)) found.push_back({*id, *stamp});
  }
}

std::vector<Found> find_files(const FolderFiles& files, const std::string& kind,
                              std::optional<std::int64_t> rank) {
  std::vector<Found> found;
  for (const char* name : {"train-run.log", "launcher.log"}) {
    const auto id = parse_run_file_id(name);
    const auto stamp = files.stamp(name);
    if (id && stamp && !rank && (kind.empty() || kind == "log")) found.push_back({*id, *stamp});
  }
  for (const std::string& attempt : files.list("attempts")) {
    const std::string folder = "attempts/" + attempt;
    if (kind != "log") look(files, folder + "/stacks", kind, rank, found);
    if (kind != "log") look(files, folder + "/profiles", kind, rank, found);
    if (!kind.empty() && kind != "log") continue;
    for (const std::string& one : files.list(folder + "/ranks"))
      if (found.size() < 4 * kListedMax) look(files, folder + "/ranks/" + one, kind, rank, found);
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return a.stamp.changed_ns > b.stamp.changed_ns;
  });
  if (found.size() > kListedMax) found.resize(kListedMax);
  return found;
}

}  // namespace

Result<HttpResponse> answer_files(const RunRequest& request) {
  const std::string kind = request.query.text("kind");
  TRY(const std::int64_t rank, request.query.whole("rank", -1, 0, 1'000'000));
  JsonWriter json;
  json.object().key("files").array();
  for (const Found& file :
       find_files(request.run.files(), kind, rank < 0 ? std::nullopt : std::optional(rank))) {
    json.object().member("id", file.id.path).member("kind", file.id.kind);
    put(json, "attempt", file.id.attempt);
    put(json, "rank", file.id.rank);
    json.member("t", format_utc(std::chrono::system_clock::time_point(
                         std::chrono::microseconds(file.stamp.changed_ns / 1000))));
    json.text_or_null("why", file.id.why).member("bytes", file.stamp.bytes);
    json.member("type", content_type_of(file.id.path)).end();
  }
  json.end().end();
  return HttpResponse{.body = std::move(json).take()};
}

Result<HttpResponse> answer_file(const RunRequest& request) {
  const auto id = parse_run_file_id(request.parts[0]);
  if (!id) return Error{Errc::NotFound, "the run has no such file", "see …/files"};
  auto read = request.run.files().read_whole(id->path, kFileBytesMax);
  if (!read && read.error().code != Errc::ResourceExhausted)
    return Error{Errc::NotFound, "the run has no such file", "see …/files"};
  if (!read) return read.error();
  HttpResponse response{.content_type = content_type_of(id->path), .body = std::move(read->text)};
  if (response.content_type.starts_with("text/html") || response.content_type == "image/svg+xml")
    response.headers = {{"Content-Security-Policy", kSandbox}, {"X-Frame-Options", "SAMEORIGIN"}};
  return response;
}

}  // namespace train
