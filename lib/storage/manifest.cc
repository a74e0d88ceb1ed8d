#include "lib/storage/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <limits>
#include <set>

#include "lib/base/utf8.h"
#include "lib/storage/metrics_json.h"

namespace train {
namespace {

namespace json = boost::json;

constexpr std::string_view kFormat = "trainrun-checkpoint";
constexpr std::string_view kDigestKey = ",\n\"digest\":\"";
constexpr std::string_view kEnd = "\"}\n";
constexpr std::size_t kDigestChars = 32;
constexpr std::size_t kPathBytesMax = 1024;
constexpr std::size_t kComponentBytesMax = 255;
constexpr int kComponentsMax = 32;

Error bad_manifest(std::string why) { return Error{Errc::InvalidArgument, "manifest: " + why}; }

Result<Unit> check_files(const std::vector<ManifestFile>& files, int world_size) {
  std::set<std::string_view> folders;
  std::string_view before;
  for (const ManifestFile& file : files) {
    TRY_VOID(check_file_path(file.path));
    if (!file.at.empty()) TRY_VOID(check_file_path(file.at));
    if (!file.nodes.empty() && file.at.empty())
      return bad_manifest(fmt::format("file '{}' has no location on its nodes", file.path));
    if (!before.empty() && file.path <= before)
      return bad_manifest(fmt::format("file '{}' comes twice or out of order", file.path));
    before = file.path;
    for (auto slash = file.path.find('/'); slash != std::string::npos;
         slash = file.path.find('/', slash + 1))
      folders.insert(std::string_view(file.path).substr(0, slash));
    if (file.ranks.empty())
      return bad_manifest(fmt::format("file '{}' belongs to no rank", file.path));
    for (std::size_t i = 0; i < file.ranks.size(); ++i) {
      const Rank rank = file.ranks[i];
      if (rank.value < 0 || rank.value >= world_size)
        return bad_manifest(fmt::format("file '{}' is of rank {}, but world_size is {}", file.path,
                                        rank.value, world_size));
      if (i > 0 && rank <= file.ranks[i - 1])
        return bad_manifest(fmt::format("ranks of file '{}' are not ascending", file.path));
    }
  }
  for (const ManifestFile& file : files)
    if (folders.contains(file.path))
      return bad_manifest(fmt::format("'{}' is both a file and a folder", file.path));
  return Unit{};
}

Result<Unit> check_manifest(const Manifest& manifest) {
  if (manifest.checkpoint.value == 0) return bad_manifest("checkpoint is 0; numbers start at 1");
  if (manifest.world_size < 1)
    return bad_manifest(fmt::format("world_size is {}, less than 1", manifest.world_size));
  return check_files(manifest.files, manifest.world_size);
}

// Reads members of one object. Errors name a member that is missing or has the wrong type.
class Members {
 public:
  Members(const json::object& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  Result<std::uint64_t> number(std::string_view key,
                               std::uint64_t max = std::numeric_limits<std::int64_t>::max()) const {
    TRY(const json::value* value, find(key));
    json::error_code error;
    const auto number = value->is_double() ? 0 : value->to_number<std::uint64_t>(error);
    if (value->is_double() || error) return wrong(key, "a whole number of 0 or more");
    if (number > max) return wrong(key, fmt::format("at most {}", max));
    return number;
  }
  Result<std::string> string(std::string_view key) const {
    TRY(const json::value* value, find(key));
    if (!value->is_string()) return wrong(key, "a string");
    return std::string(value->get_string());
  }
  Result<const json::array*> array(std::string_view key) const {
    TRY(const json::value* value, find(key));
    if (!value->is_array()) return wrong(key, "a list");
    return &value->get_array();
  }
  Result<const json::object*> object(std::string_view key) const {
    TRY(const json::value* value, find(key));
    if (!value->is_object()) return wrong(key, "an object");
    return &value->get_object();
  }

 private:
  Result<const json::value*> find(std::string_view key) const {
    const json::value* value = object_.if_contains(key);
    if (value == nullptr) return bad_manifest(fmt::format("{}'{}' is missing", where_, key));
    return value;
  }
  Error wrong(std::string_view key, std::string_view wanted) const {
    return bad_manifest(fmt::format("{}'{}' is not {}", where_, key, wanted));
  }

  const json::object& object_;
  std::string where_;
};

Result<ManifestFile> parse_file(const json::value& value, std::size_t index) {
  if (!value.is_object()) return bad_manifest(fmt::format("files[{}] is not an object", index));
  const Members members(value.get_object(), fmt::format("files[{}]: ", index));
  ManifestFile file;
  TRY(file.path, members.string("path"));
  TRY(file.bytes, members.number("size"));
  TRY(const std::string hex, members.string("xxh3_128"));
  const auto digest = parse_digest(hex);
  if (!digest)
    return bad_manifest(fmt::format("files[{}]: 'xxh3_128' is not 32 hex digits", index));
  file.digest = *digest;
  TRY(const json::array* ranks, members.array("ranks"));
  for (const json::value& rank : *ranks) {
    if (!rank.is_int64() || rank.get_int64() < 0 ||
        rank.get_int64() > std::numeric_limits<std::int32_t>::max())
      return bad_manifest(fmt::format("files[{}]: 'ranks' holds an invalid rank", index));
    file.ranks.push_back(Rank{static_cast<std::int32_t>(rank.get_int64())});
  }
  if (value.get_object().contains("at")) {
    TRY(file.at, members.string("at"));
  }
  if (value.get_object().contains("nodes")) {
    TRY(const json::array* nodes, members.array("nodes"));
    for (const json::value& node : *nodes) {
      if (!node.is_string())
        return bad_manifest(fmt::format("files[{}]: 'nodes' holds something else", index));
      file.nodes.emplace_back(node.get_string());
    }
  }
  return file;
}

/// Check the digest, and return the bytes that it covers.
Result<std::string_view> checked_body(std::string_view text) {
  const std::size_t tail = kDigestKey.size() + kDigestChars + kEnd.size();
  if (text.size() < tail || !text.ends_with(kEnd) ||
      text.substr(text.size() - tail, kDigestKey.size()) != kDigestKey)
    return Error{
        Errc::Corrupt,
        fmt::format("manifest: no digest at the end of {} bytes; it is truncated or not a manifest",
                    text.size())};
  const std::string_view body = text.substr(0, text.size() - tail);
  const std::string_view expected = text.substr(body.size() + kDigestKey.size(), kDigestChars);
  const std::string found = to_hex(digest_of(body));
  if (found != expected)
    return Error{Errc::Corrupt, fmt::format("manifest: xxh3-128 is {}, expected {}", found,
                                            escape_name(expected))};
  return body;
}

}  // namespace

std::uint64_t Manifest::total_bytes() const {
  std::uint64_t total = 0;
  for (const ManifestFile& file : files) total += file.bytes;
  return total;
}

std::vector<std::string> Manifest::nodes() const {
  std::set<std::string> all;
  for (const ManifestFile& file : files) all.insert(file.nodes.begin(), file.nodes.end());
  return {all.begin(), all.end()};
}

std::string checkpoint_name(CheckpointNumber number) {
  return fmt::format("checkpoint_{:06}", number.value);
}

std::optional<CheckpointNumber> parse_checkpoint_name(std::string_view name) {
  constexpr std::string_view kPrefix = "checkpoint_";
  constexpr std::uint64_t kCheckpointNumberMax = 1'000'000'000'000'000;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  CheckpointNumber number;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), number.value);
  // A folder of such a number is none of ours, and no number could follow it.
  if (number.value > kCheckpointNumberMax) return std::nullopt;
  // Formatting the number again refuses signs, too few digits, too many zeros and text after the
  // digits.
  if (number.value == 0 || checkpoint_name(number) != name) return std::nullopt;
  return number;
}

std::string escape_name(std::string_view name) {
  std::string shown;
  while (!name.empty()) {
    const CodePoint next = read_code_point(name);
    const auto byte = static_cast<unsigned char>(name.front());
    if (!next.valid || (next.length == 1 && is_steering(byte)) || byte == '\'' || byte == '\\')
      shown += fmt::format("\\x{:02x}", byte);
    else if (is_steering(next.value))
      shown += fmt::format("\\u{:04x}", next.value);
    else
      shown += name.substr(0, next.length);
    name.remove_prefix(next.length);
  }
  return shown;
}

Result<Unit> check_relative_path(std::string_view path, HiddenNames hidden) {
  const auto refuse = [&](std::string_view why) {
    return Error{Errc::InvalidArgument,
                 fmt::format("file name '{}' {}", escape_name(path.substr(0, kPathBytesMax)), why)};
  };
  if (path.empty()) return refuse("is empty");
  if (path.size() > kPathBytesMax)
    return refuse(fmt::format("has {} bytes, more than {}", path.size(), kPathBytesMax));
  if (path.front() == '/') return refuse("is absolute");
  for (std::string_view rest = path; !rest.empty();) {
    const CodePoint next = read_code_point(rest);
    if (!next.valid) return refuse("is not UTF-8");
    if (is_steering(next.value)) return refuse("holds a control character");
    rest.remove_prefix(next.length);
  }
  int components = 0;
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t slash = std::min(path.find('/', start), path.size());
    const std::string_view component = path.substr(start, slash - start);
    if (component.empty()) return refuse("holds an empty component");
    if (hidden == HiddenNames::Refused && component.front() == '.')
      return refuse("holds a component that begins with '.'");
    if (component == "." || component == "..") return refuse("holds a component that is no name");
    if (component.size() > kComponentBytesMax)
      return refuse(fmt::format("holds a component of {} bytes, more than {}", component.size(),
                                kComponentBytesMax));
    if (++components > kComponentsMax)
      return refuse(fmt::format("is more than {} folders deep", kComponentsMax));
    start = slash + 1;
  }
  return Unit{};
}

Result<Unit> check_file_path(std::string_view path) {
  auto checked = check_relative_path(path, HiddenNames::Refused);
  if (checked.has_error())
    return Error{checked.error().code, checked.error().message,
                 "rename it in the program that writes the checkpoint"};
  return Unit{};
}

Result<std::string> format_manifest(Manifest manifest) {
  std::sort(manifest.files.begin(), manifest.files.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  TRY_VOID(check_manifest(manifest));
  const MetricsJson metrics = metrics_to_json(manifest.metrics);
  json::value metadata = manifest.metadata;
  drop_non_finite(metadata);

  std::string text = fmt::format(
      "{{\"format\":\"{}\",\n\"version\":{},\n\"checkpoint\":{},\n\"generation\":{},\n\"attempt\":{"
      "},"
      "\n\"checkpoint_seq\":{},\n"
      "\"world_size\":{},\n\"created\":{},\n\"files\":[",
      kFormat, kManifestVersion, manifest.checkpoint.value, manifest.generation.value,
      manifest.attempt.value, manifest.checkpoint_seq.value, manifest.world_size,
      json::serialize(manifest.created));
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    const ManifestFile& file = manifest.files[i];
    json::array ranks;
    for (const Rank rank : file.ranks) ranks.push_back(rank.value);
    std::string at = file.at.empty() ? "" : fmt::format(",\"at\":{}", json::serialize(file.at));
    if (!file.nodes.empty())
      at += fmt::format(",\"nodes\":{}",
                        json::serialize(json::array(file.nodes.begin(), file.nodes.end())));
    text += fmt::format("{}\n{{\"path\":{},\"size\":{},\"xxh3_128\":\"{}\",\"ranks\":{}{}}}",
                        i == 0 ? "" : ",", json::serialize(file.path), file.bytes,
                        to_hex(file.digest), json::serialize(ranks), at);
  }
  text += fmt::format("\n],\n\"metrics\":{},\n\"non_finite\":{},\n\"metadata\":{}",
                      json::serialize(metrics.metrics), json::serialize(metrics.non_finite),
                      json::serialize(metadata));
  const std::string digest = to_hex(digest_of(text));
  text += fmt::format("{}{}{}", kDigestKey, digest, kEnd);
  if (text.size() > kManifestBytesMax)
    return Error{Errc::ResourceExhausted,
                 fmt::format("manifest: {} bytes, more than {}", text.size(), kManifestBytesMax),
                 "write fewer files, or less metadata"};
  // Metadata that is not UTF-8 or nests too deep must fail now, not when the checkpoint is needed.
  TRY_VOID(parse_manifest(text));
  return text;
}

Result<Manifest> parse_manifest(std::string_view text) {
  TRY(const std::string_view body, checked_body(text));
  json::error_code error;
  const json::value root = json::parse(std::string(body) + "}", error);
  if (error || !root.is_object())
    return bad_manifest(fmt::format("not a JSON object: {}", error.message()));
  const Members members(root.get_object(), "");

  TRY(const std::string format, members.string("format"));
  if (format != kFormat)
    return bad_manifest(fmt::format("format is '{}', not '{}'", escape_name(format), kFormat));
  TRY(const std::uint64_t version, members.number("version"));
  if (version != kManifestVersion)
    return Error{Errc::InvalidArgument,
                 fmt::format("manifest: version {}, this program reads version {}", version,
                             kManifestVersion),
                 "use the trainrun that wrote it, or a newer one"};
  Manifest manifest;
  TRY(manifest.checkpoint.value, members.number("checkpoint"));
  TRY(manifest.generation.value, members.number("generation"));
  TRY(const std::uint64_t attempt,
      members.number("attempt", std::numeric_limits<std::uint32_t>::max()));
  manifest.attempt = Attempt{static_cast<std::uint32_t>(attempt)};
  TRY(manifest.checkpoint_seq.value, members.number("checkpoint_seq"));
  TRY(const std::uint64_t world_size,
      members.number("world_size", std::numeric_limits<std::int32_t>::max()));
  manifest.world_size = static_cast<int>(world_size);
  TRY(manifest.created, members.string("created"));
  TRY(const json::array* files, members.array("files"));
  for (std::size_t i = 0; i < files->size(); ++i) {
    TRY(auto file, parse_file((*files)[i], i));
    manifest.files.push_back(std::move(file));
  }
  TRY(const json::object* metrics, members.object("metrics"));
  TRY(const json::object* non_finite, members.object("non_finite"));
  TRY(const json::object* metadata, members.object("metadata"));
  manifest.metrics = metrics_from_json(*metrics, *non_finite);
  manifest.metadata = *metadata;
  TRY_VOID(check_manifest(manifest));
  return manifest;
}

Result<Manifest> read_manifest(FileSystem& fs, const std::string& folder) {
  const std::string path = join_path(folder, kManifestName);
  TRY(const std::string text, read_small_file(fs, path, kManifestBytesMax));
  auto manifest = parse_manifest(text);
  if (manifest.has_error()) return std::move(manifest).error().with_context(path);
  return manifest;
}

}  // namespace train
