#include "lib/storage/remote/hdfs_store.h"

#include <arrow/filesystem/hdfs.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <random>

#include "lib/storage/remote/arrow_store.h"
#include "lib/storage/remote/libhdfs.h"
#include "lib/storage/remote/retries.h"
#include "lib/storage/remote/store_environment.h"

namespace train::remote {
namespace {

namespace fs = arrow::fs;

constexpr StoreHints kHdfsHints{"does the folder exist?",
                                "does this user have permission there (HADOOP_USER_NAME, kinit)?",
                                "is the NameNode running, reachable from there and out of safe "
                                "mode? Hadoop's own messages are on standard error, or in "
                                "traind's log"};

// In HDFS a file is visible from its first byte, and a rename does not replace. So a file is
// written under a temporary name until it is complete: "<key>.trainrun-part-<number>". A file that
// replaces another one waits as "<key>.trainrun-next" while the old one is removed; readers that
// find no file under the key use that one.
constexpr std::string_view kPartial = ".trainrun-part-", kNext = ".trainrun-next";

std::string partial_of(const std::string& path) {
  std::random_device chance;
  return fmt::format("{}{}{:08x}{:08x}", path, kPartial, chance(), chance());
}

/// Return "a/model.pt" for "a/model.pt.trainrun-part-12"; empty for any other key.
std::string key_of_partial(const std::string& key) {
  const auto suffix = key.rfind(kPartial);
  return suffix == std::string::npos ? "" : key.substr(0, suffix);
}

class HdfsWriter final : public ObjectWriter {
 public:
  using Location = std::function<Result<Unit>(const std::string& partial)>;
  HdfsWriter(std::unique_ptr<ObjectWriter> partial, std::string path, LibHdfs& hdfs,
             Location location)
      : partial_(std::move(partial)),
        path_(std::move(path)),
        hdfs_(hdfs),
        location_(std::move(location)) {}
  ~HdfsWriter() override {
    partial_.reset();
    if (!placed_) (void)hdfs_.remove(path_);
  }
  Result<Unit> write(std::string_view bytes) override { return partial_->write(bytes); }
  Result<Unit> close() override {
    TRY_VOID(partial_->close());
    TRY_VOID(location_(path_));
    placed_ = true;
    return Unit{};
  }

 private:
  std::unique_ptr<ObjectWriter> partial_;
  const std::string path_;
  LibHdfs& hdfs_;
  const Location location_;
  bool placed_ = false;
};

class HdfsStore final : public ArrowStore {
 public:
  HdfsStore(std::shared_ptr<fs::HadoopFileSystem> files, std::unique_ptr<LibHdfs> hdfs,
            const std::string& root, std::string url, const ObjectStoreOptions& options)
      : ArrowStore(std::move(files), root, std::move(url), ArrowTraits{kHdfsHints, true}),
        hdfs_(std::move(hdfs)),
        options_(options) {}

  Result<Unit> put(const std::string& key, std::string_view bytes) override {
    return insist(options_, [&] {
      return put_once(key, bytes,
                      [&](const std::string& partial) { return replace(partial, path(key)); });
    });
  }
  Result<std::unique_ptr<ObjectWriter>> create(const std::string& key) override {
    return insist(options_, [&] {
      return write_partial(key, [this, key](const std::string& partial) {
        return insist(options_, [&] { return replace(partial, path(key)); });
      });
    });
  }
  Result<std::unique_ptr<ReadableFile>> open_to_read(const std::string& key) override {
    return insist(options_, [&] { return open_once(key); });
  }
  Result<std::vector<StoredObject>> list(const std::string& folder) override {
    return insist(options_, [&] { return list_once(folder); });
  }
  Result<Unit> remove(const std::string& key) override {
    return insist(options_, [&] { return remove_once(key); });
  }
  Result<std::vector<ObjectStatus>> find(const std::string& prefix,
                                         std::size_t objects_max) override {
    return insist(options_, [&] { return find_once(prefix, objects_max); });
  }
  Result<std::optional<ObjectStatus>> status(const std::string& key) override {
    return insist(options_, [&] { return status_once(key); });
  }
  Result<Unit> read_range(const RangeRead& range) override {
    return insist(
        options_, [&] { return read_once(range); }, range.cancelled);
  }
  Result<Unit> drop_unfinished(const std::string& folder,
                               const std::function<bool(const std::string& key)>& which) override {
    TRY(const auto objects, ArrowStore::list(folder));
    for (const StoredObject& object : objects) {
      const std::string key = key_of_partial(object.key);
      if (!key.empty() && which(key)) TRY_VOID(hdfs_->remove(path(object.key)));
    }
    return Unit{};
  }

 private:
  Result<Unit> put_if_absent(const std::string& key, std::string_view bytes) override {
    return insist(options_, [&] {
      return put_once(key, bytes, [&](const std::string& partial) {
        return hdfs_->rename(partial, path(key));
      });
    });
  }

  Result<std::unique_ptr<ObjectWriter>> write_partial(const std::string& key,
                                                      HdfsWriter::Location location) {
    const std::string partial = partial_of(key);
    TRY(auto writer, ArrowStore::create(partial));
    return std::make_unique<HdfsWriter>(std::move(writer), path(partial), *hdfs_,
                                        std::move(location));
  }

  Result<Unit> put_once(const std::string& key, std::string_view bytes,
                        HdfsWriter::Location location) {
    TRY(auto writer, write_partial(key, std::move(location)));
    TRY_VOID(writer->write(bytes));
    return writer->close();
  }

  /// Replace `to`. At every moment, either `to` or the file that waits to replace it exists and is
  /// complete.
  Result<Unit> replace(const std::string& partial, const std::string& to) {
    auto named = hdfs_->rename(partial, to);
    if (!named.has_error() || named.error().code != Errc::AlreadyExists) return named;
    const std::string next = to + std::string(kNext);
    TRY_VOID(remove_if_there(next));
    TRY_VOID(hdfs_->rename(partial, next));
    TRY_VOID(remove_if_there(to));
    return hdfs_->rename(next, to);
  }

  /// Open a file after checking that it exists: libhdfs prints a Java stack trace for each file
  /// that it cannot open.
  Result<std::unique_ptr<ReadableFile>> open_once(const std::string& key) {
    const std::string next = key + std::string(kNext);
    // Try `key` again, since `next` may have been renamed to it meanwhile.
    for (const std::string& name : {key, next, key}) {
      TRY(const bool there, hdfs_->exists(path(name)));
      if (!there) continue;
      auto opened = ArrowStore::open_to_read(name);
      if (!opened.has_error() || opened.error().code != Errc::NotFound) return opened;
    }
    return Error{Errc::NotFound, fmt::format("'{}' does not exist", shown(key))};
  }

  /// Check that the NameNode answers, because Arrow takes an unreachable one for a missing folder.
  Result<Unit> check_it_answers() {
    TRY_VOID(hdfs_->exists("/"));
    return Unit{};
  }

  Result<std::vector<StoredObject>> list_once(const std::string& folder) {
    TRY_VOID(check_it_answers());
    TRY(const auto objects, ArrowStore::list(folder));
    if (objects.empty()) TRY_VOID(check_it_answers());
    std::map<std::string, std::uint64_t> sizes;
    for (const StoredObject& object : objects) {
      if (!key_of_partial(object.key).empty()) continue;
      if (object.key.ends_with(kNext))  // counts only if the file that it replaces is gone
        sizes.try_emplace(object.key.substr(0, object.key.size() - kNext.size()), object.bytes);
      else
        sizes[object.key] = object.bytes;
    }
    std::vector<StoredObject> whole;
    for (const auto& [key, bytes] : sizes) whole.push_back({key, bytes});
    return whole;
  }

  /// Return the entries of a folder; none if there is no such folder.
  Result<std::vector<fs::FileInfo>> entries_of(const std::string& folder) {
    fs::FileSelector inside;
    inside.base_dir = path(folder);
    inside.allow_not_found = true;
    auto found = files().GetFileInfo(inside);
    if (!found.ok()) return error_from(found.status(), "listing", shown(folder), kHdfsHints);
    return std::move(found).ValueUnsafe();
  }

  static ObjectStatus status_of(std::string key, const fs::FileInfo& info) {
    return {std::move(key), static_cast<std::uint64_t>(std::max<std::int64_t>(0, info.size())),
            fmt::format("{}", info.mtime().time_since_epoch().count())};
  }

  Result<std::vector<ObjectStatus>> find_once(const std::string& prefix, std::size_t objects_max) {
    TRY_VOID(check_it_answers());
    const std::size_t slash = prefix.rfind('/');
    std::vector<std::string> folders{slash == std::string::npos ? "" : prefix.substr(0, slash)};
    std::vector<ObjectStatus> objects;
    std::size_t seen = 0;
    while (!folders.empty()) {
      const std::string folder = std::move(folders.back());
      folders.pop_back();
      TRY(const auto entries, entries_of(folder));
      for (const fs::FileInfo& info : entries) {
        std::string key = join_path(folder, info.base_name());
        if (!key.starts_with(prefix) || !key_of_partial(key).empty()) continue;
        ++seen;
        if (seen > objects_max)
          return Error{
              Errc::ResourceExhausted,
              fmt::format("there are more than {} files below '{}'", objects_max, shown(prefix)),
              "give a longer path"};
        if (info.IsFile())
          objects.push_back(status_of(std::move(key), info));
        else if (info.IsDirectory())
          folders.push_back(std::move(key));
      }
    }
    if (objects.empty()) TRY_VOID(check_it_answers());
    std::sort(objects.begin(), objects.end(),
              [](const auto& a, const auto& b) { return a.key < b.key; });
    return objects;
  }

  Result<std::optional<ObjectStatus>> status_once(const std::string& key) {
    TRY_VOID(check_it_answers());
    const auto info = files().GetFileInfo(path(key));
    if (!info.ok()) return error_from(info.status(), "looking for", shown(key), kHdfsHints);
    if (info->IsFile()) return std::optional(status_of(key, *info));
    TRY_VOID(check_it_answers());
    return std::optional<ObjectStatus>();
  }

  Result<Unit> read_once(const RangeRead& range) {
    TRY(const auto now, status_once(range.key));
    if (!now) return Error{Errc::NotFound, fmt::format("'{}' does not exist", shown(range.key))};
    if (range.offset + range.bytes > now->bytes ||
        (!range.version.empty() && now->version != range.version))
      return Error{Errc::Corrupt,
                   fmt::format("'{}' is not what it was when it was listed", shown(range.key)),
                   "it was replaced meanwhile: start the run again"};
    const auto reading = [&](const arrow::Status& status) {
      return error_from(status, "reading", shown(range.key), kHdfsHints);
    };
    auto file = files().OpenInputFile(path(range.key));
    if (!file.ok()) return reading(file.status());
    const auto got = (*file)->ReadAt(static_cast<std::int64_t>(range.offset),
                                     static_cast<std::int64_t>(range.bytes), range.to);
    if (!got.ok()) return reading(got.status());
    if (static_cast<std::size_t>(*got) == range.bytes) return Unit{};
    return Error{Errc::Unavailable, fmt::format("reading '{}': {} bytes came, and not {}",
                                                shown(range.key), *got, range.bytes)};
  }

  Result<Unit> remove_once(const std::string& key) {
    TRY_VOID(remove_if_there(path(key) + std::string(kNext)));
    TRY_VOID(remove_if_there(path(key)));
    // Remove folders that are now empty, since an object store has none.
    for (std::string folder = key; folder.find('/') != std::string::npos;) {
      folder.resize(folder.rfind('/'));
      fs::FileSelector inside;
      inside.base_dir = path(folder);
      const auto found = files().GetFileInfo(inside);
      if (!found.ok() || !found->empty() || hdfs_->remove(path(folder)).has_error()) break;
    }
    return Unit{};
  }

  Result<Unit> remove_if_there(const std::string& path) {
    auto removed = hdfs_->remove(path);
    if (removed.has_error() && removed.error().code == Errc::NotFound) return Unit{};
    return removed;
  }

  const std::unique_ptr<LibHdfs> hdfs_;
  const ObjectStoreOptions options_;
};

/// Set up Java's environment, which Java reads once per process. Variables that are not set in this
/// process are taken from the submitter.
Result<Unit> set_up_java(const ObjectStoreOptions& options) {
  for (const char* name : {"JAVA_HOME", "HADOOP_HOME", "HADOOP_CONF_DIR", "HADOOP_USER_NAME",
                           "ARROW_LIBHDFS_DIR", "CLASSPATH", "KRB5CCNAME", "LIBHDFS_OPTS"})
    if (const std::string value = variable(options, name); !value.empty())
      ::setenv(name, value.c_str(), 0);
  if (std::getenv("CLASSPATH") == nullptr)
    return Error{Errc::Unavailable, "Hadoop's jars are not found: CLASSPATH is not set",
                 "export CLASSPATH=$($HADOOP_HOME/bin/hadoop classpath --glob) where traind and "
                 "train-run start"};
  // -Xrs leaves SIGINT and SIGTERM to us. The thread that waits for Hadoop's shell commands has a
  // stack of 128 KiB by default, of which Arrow's thread-local storage leaves too little.
  const char* more = std::getenv("LIBHDFS_OPTS");
  ::setenv("LIBHDFS_OPTS",
           fmt::format("-Xrs -Djdk.lang.processReaperUseDefaultStackSize=true {}",
                       more != nullptr ? more : "")
               .c_str(),
           1);
  return Unit{};
}

Result<Unit> start_java(const ObjectStoreOptions& options) {
  static std::mutex mutex;
  static bool started = false;
  const std::lock_guard lock(mutex);
  if (started) return Unit{};
  TRY_VOID(set_up_java(options));
  const arrow::Status there = fs::HaveLibHdfs();
  if (!there.ok())
    return Error{Errc::Unavailable,
                 there.message().substr(0, there.message().find('\n')),  // omits where it looked
                 "set JAVA_HOME, and HADOOP_HOME or ARROW_LIBHDFS_DIR (the folder of libhdfs.so), "
                 "where traind and train-run start"};
  started = true;
  return Unit{};
}

struct Location {
  HdfsLocation location;
  std::string path;  // "/runs/vit"
};

/// Parse hdfs://[user@][host[:port]]/path.
Result<Location> parse(const std::string& url) {
  Location location;
  const std::string rest = url.substr(std::string_view("hdfs://").size());
  const auto slash = rest.find('/');
  std::string authority = rest.substr(0, slash);
  location.path = rest.substr(slash);
  if (const auto at = authority.find('@'); at != std::string::npos) {
    location.location.user = authority.substr(0, at);
    authority.erase(0, at + 1);
  }
  if (const auto colon = authority.rfind(':'); colon != std::string::npos) {
    const char* end = authority.data() + authority.size();
    const auto read = std::from_chars(authority.data() + colon + 1, end, location.location.port);
    if (read.ec != std::errc{} || read.ptr != end)
      return Error{Errc::InvalidArgument, fmt::format("'{}' has no port after ':'", url),
                   "write hdfs://namenode:8020/folder"};
    authority.resize(colon);
  }
  if (!authority.empty()) location.location.host = authority;
  return location;
}

}  // namespace

Result<std::shared_ptr<ObjectStore>> open_hdfs(const std::string& url,
                                               const ObjectStoreOptions& options) {
  TRY(const Location location, parse(url));
  TRY_VOID(start_java(options));
  fs::HdfsOptions hdfs;
  hdfs.ConfigureEndPoint(location.location.host, location.location.port);
  if (!location.location.user.empty()) hdfs.ConfigureUser(location.location.user);
  hdfs.ConfigureReplication(0);  // the cluster's default
  auto files = fs::HadoopFileSystem::Make(hdfs);
  if (!files.ok()) return error_from(files.status(), "connecting to", url, kHdfsHints);
  TRY(auto library, LibHdfs::connect(location.location));
  return std::make_shared<HdfsStore>(*files, std::move(library), location.path, url, options);
}

}  // namespace train::remote
