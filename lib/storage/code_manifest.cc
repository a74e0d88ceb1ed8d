#include "lib/storage/code_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>

#include "lib/base/utf8.h"
#include "lib/storage/digest.h"
#include "lib/storage/manifest.h"

namespace train {
namespace {

namespace json = boost::json;

constexpr std::size_t kPathBytesMax = 1024;
constexpr std::size_t kComponentBytesMax = 255;

Error bad_code(std::string_view why) {
  return Error{Errc::Corrupt, fmt::format("the table of the code: {}", why)};
}

Result<CodeFile> file_of(const json::value& value) {
  const auto* object = value.if_object();
  if (object == nullptr) return bad_code("a file is no object");
  const auto* path = object->if_contains("path");
  const auto* bytes = object->if_contains("bytes");
  const auto* digest = object->if_contains("xxh3");
  const auto* executable = object->if_contains("executable");
  if (path == nullptr || !path->is_string() || bytes == nullptr || digest == nullptr ||
      !digest->is_string() || executable == nullptr || !executable->is_bool())
    return bad_code("a file lacks path, bytes, xxh3 or executable");
  CodeFile file;
  file.path = path->as_string();
  TRY_VOID(check_code_path(file.path));
  json::error_code ec;
  file.bytes = bytes->to_number<std::uint64_t>(ec);
  const auto parsed = parse_digest(digest->as_string());
  if (ec || !parsed) return bad_code(fmt::format("'{}' has no size or digest", file.path));
  file.digest = *parsed;
  file.executable = executable->as_bool();
  return file;
}

}  // namespace

Result<Unit> check_code_path(std::string_view path) {
  const auto refuse = [&](std::string_view why) {
    return Error{Errc::InvalidArgument,
                 fmt::format("file name '{}' {}", escape_name(path.substr(0, kPathBytesMax)), why),
                 "rename it, or leave it out in .trainignore"};
  };
  if (path.empty()) return refuse("is empty");
  if (path.size() > kPathBytesMax)
    return refuse(fmt::format("has {} bytes, more than {}", path.size(), kPathBytesMax));
  if (path == kCodeManifestName) return refuse("is what trainrun calls its own table");
  for (std::string_view rest = path; !rest.empty();) {
    const CodePoint next = read_code_point(rest);
    if (!next.valid) return refuse("is not UTF-8");
    if (is_steering(next.value)) return refuse("holds a control character");
    rest.remove_prefix(next.length);
  }
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t slash = std::min(path.find('/', start), path.size());
    const std::string_view component = path.substr(start, slash - start);
    if (component.empty()) return refuse("holds an empty component");
    if (component == "." || component == "..") return refuse("holds a component that is no name");
    if (component.size() > kComponentBytesMax)
      return refuse(fmt::format("holds a component of {} bytes, more than {}", component.size(),
                                kComponentBytesMax));
    start = slash + 1;
  }
  return Unit{};
}

std::string format_code(std::vector<CodeFile> files) {
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  std::string text = "{\"format\":\"trainrun-code\",\"version\":1,\"files\":[";
  for (std::size_t i = 0; i < files.size(); ++i)
    text += fmt::format("{}\n{{\"path\":{},\"bytes\":{},\"xxh3\":\"{}\",\"executable\":{}}}",
                        i == 0 ? "" : ",", json::serialize(json::string(files[i].path)),
                        files[i].bytes, to_hex(files[i].digest), files[i].executable);
  return text + "]}\n";
}

Result<std::vector<CodeFile>> parse_code(std::string_view text) {
  json::error_code ec;
  const json::value value = json::parse(text, ec);
  const auto* object = ec ? nullptr : value.if_object();
  if (object == nullptr) return bad_code("it is no JSON object");
  const auto* version = object->if_contains("version");
  if (version == nullptr || !version->is_int64() || version->as_int64() != 1)
    return bad_code("its version is not 1");
  const auto* listed = object->if_contains("files");
  if (listed == nullptr || !listed->is_array()) return bad_code("it lists no files");
  if (listed->as_array().size() > kCodeFilesMax)
    return bad_code(fmt::format("it lists more than {} files", kCodeFilesMax));
  std::vector<CodeFile> files;
  std::uint64_t total = 0;
  for (const json::value& one : listed->as_array()) {
    TRY(CodeFile file, file_of(one));
    if (!files.empty() && file.path <= files.back().path)
      return bad_code(fmt::format("'{}' comes twice or out of order", file.path));
    if (__builtin_add_overflow(total, file.bytes, &total))
      return bad_code("its sizes cannot be added up");
    files.push_back(std::move(file));
  }
  return files;
}

std::string code_name(std::string_view text) { return to_hex(digest_of(text)); }

bool is_code_name(std::string_view name) { return parse_digest(name).has_value(); }

}  // namespace train
