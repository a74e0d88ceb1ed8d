#include "lib/storage/code_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <set>

#include "lib/storage/digest.h"
#include "lib/storage/manifest.h"

namespace train {
namespace {

namespace json = boost::json;

constexpr std::string_view kFormat = "trainrun-code";

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
  constexpr const char* kHint = "rename it, or leave it out in .trainignore";
  auto checked = check_relative_path(path, HiddenNames::Allowed);
  if (checked.has_error()) return Error{checked.error().code, checked.error().message, kHint};
  if (path == kCodeManifestName)
    return Error{Errc::InvalidArgument,
                 fmt::format("file name '{}' is what trainrun calls its own table", path), kHint};
  return Unit{};
}

std::string format_code(std::vector<CodeFile> files) {
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  std::string text = fmt::format("{{\"format\":\"{}\",\"version\":1,\"files\":[", kFormat);
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
  const auto* format = object->if_contains("format");
  if (format == nullptr || !format->is_string() || format->as_string() != kFormat)
    return bad_code("its format is another");
  const auto* version = object->if_contains("version");
  if (version == nullptr || !version->is_int64() || version->as_int64() != 1)
    return bad_code("its version is not 1");
  const auto* listed = object->if_contains("files");
  if (listed == nullptr || !listed->is_array()) return bad_code("it lists no files");
  if (listed->as_array().size() > kCodeFilesMax)
    return bad_code(fmt::format("it lists more than {} files", kCodeFilesMax));
  std::vector<CodeFile> files;
  std::set<std::string, std::less<>> folders;
  std::uint64_t total = 0;
  for (const json::value& one : listed->as_array()) {
    TRY(CodeFile file, file_of(one));
    if (!files.empty() && file.path <= files.back().path)
      return bad_code(fmt::format("'{}' comes twice or out of order", file.path));
    if (__builtin_add_overflow(total, file.bytes, &total))
      return bad_code("its sizes cannot be added up");
    for (auto slash = file.path.find('/'); slash != std::string::npos;
         slash = file.path.find('/', slash + 1))
      folders.insert(file.path.substr(0, slash));
    files.push_back(std::move(file));
  }
  for (const CodeFile& file : files)
    if (folders.contains(file.path))
      return bad_code(fmt::format("'{}' is both a file and a folder", file.path));
  return files;
}

std::string code_name(std::string_view text) { return to_hex(digest_of(text)); }

bool is_code_name(std::string_view name) { return parse_digest(name).has_value(); }

}  // namespace train
