#include "lib/storage/remote/arrow_store.h"

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/future.h>
#include <arrow/util/io_util.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <new>

namespace train::remote {
namespace {

constexpr std::int64_t kReadBytes = 8 << 20;  // per request
constexpr std::size_t kReadsAhead = 4;        // requests in progress

// Texts in the messages of the S3 and Google clients.
constexpr std::array kNotFound{"NO_SUCH_KEY", "NO_SUCH_BUCKET", "RESOURCE_NOT_FOUND",
                               "HTTP status 404", "Status(NOT_FOUND"};
constexpr std::array kRefused{
    "ACCESS_DENIED",   "INVALID_ACCESS_KEY_ID",    "SIGNATURE_DOES_NOT_MATCH",
    "HTTP status 403", "Status(PERMISSION_DENIED", "Status(UNAUTHENTICATED"};
constexpr std::array kBusy{"NETWORK_CONNECTION", "SLOW_DOWN",     "SERVICE_UNAVAILABLE",
                           "INTERNAL_FAILURE",   "HTTP status 5", "Status(UNAVAILABLE"};

constexpr int kNoErrno = 255;  // from here on, numbers are libhdfs's own, for Java exceptions

bool says_one_of(const arrow::Status& status, const auto& texts) {
  return std::any_of(texts.begin(), texts.end(), [&](const char* text) {
    return status.message().find(text) != std::string::npos;
  });
}

Errc code_of(const arrow::Status& status) {
  const int number = arrow::internal::ErrnoFromStatus(status);
  if (number == ENOENT || says_one_of(status, kNotFound)) return Errc::NotFound;
  if (number == EACCES || number == EPERM || says_one_of(status, kRefused)) return Errc::Permission;
  if (number == ENOSPC || number == EDQUOT) return Errc::NoSpace;
  if (number >= kNoErrno || says_one_of(status, kBusy)) return Errc::Unavailable;
  return status.IsOutOfMemory() ? Errc::ResourceExhausted : Errc::Io;
}

class ArrowWriter final : public ObjectWriter {
 public:
  ArrowWriter(std::shared_ptr<arrow::io::OutputStream> stream, std::string shown,
              const ArrowTraits& traits)
      : stream_(std::move(stream)), shown_(std::move(shown)), traits_(traits) {}
  ~ArrowWriter() override {
    if (stream_->closed()) return;
    if (!traits_.destroying_finishes) {
      (void)stream_->Abort();
      return;
    }
    // Never destroy the stream: that would finish the object, but the server forgets unfinished
    // ones.
    [[maybe_unused]] const auto* kept = new (std::nothrow) std::shared_ptr(std::move(stream_));
  }
  Result<Unit> write(std::string_view bytes) override {
    return done(stream_->Write(bytes.data(), static_cast<std::int64_t>(bytes.size())));
  }
  Result<Unit> close() override { return done(stream_->Close()); }

 private:
  Result<Unit> done(const arrow::Status& status) const {
    if (!status.ok()) return error_from(status, "writing", shown_, traits_.hints);
    return Unit{};
  }

  std::shared_ptr<arrow::io::OutputStream> stream_;
  const std::string shown_;
  const ArrowTraits traits_;
};

/// Reads from beginning to end, requesting some pieces ahead.
class ArrowPiecesReader final : public ReadableFile {
 public:
  ArrowPiecesReader(std::shared_ptr<arrow::io::RandomAccessFile> file, std::int64_t bytes,
                    std::string shown, StoreHints hints)
      : file_(std::move(file)), bytes_(bytes), shown_(std::move(shown)), hints_(hints) {}
  ~ArrowPiecesReader() override {
    for (auto& piece : ahead_) piece.Wait();  // they use the file
  }

  Result<std::size_t> read(char* buffer, std::size_t size) override {
    if (piece_ == nullptr || taken_ == piece_->size()) {
      TRY(const bool more, next_piece());
      if (!more) return std::size_t{0};
    }
    const auto got = std::min<std::size_t>(size, static_cast<std::size_t>(piece_->size() - taken_));
    std::memcpy(buffer, piece_->data() + taken_, got);
    taken_ += static_cast<std::int64_t>(got);
    return got;
  }
  Result<Unit> sync() override { return Unit{}; }  // objects in the store are durable

 private:
  Result<bool> next_piece() {
    while (asked_ < bytes_ && ahead_.size() < kReadsAhead) {
      const std::int64_t size = std::min(kReadBytes, bytes_ - asked_);
      ahead_.push_back(file_->ReadAsync(file_->io_context(), asked_, size));
      asked_ += size;
    }
    if (ahead_.empty()) return false;
    auto piece = ahead_.front().result();
    ahead_.pop_front();
    if (!piece.ok()) return error_from(piece.status(), "reading", shown_, hints_);
    piece_ = *piece;
    taken_ = 0;
    const std::int64_t size = std::min(kReadBytes, bytes_ - arrived_);
    arrived_ += size;
    if (piece_->size() != size)
      return Error{Errc::Corrupt, fmt::format("'{}' is shorter than it was", shown_)};
    return true;
  }

  std::shared_ptr<arrow::io::RandomAccessFile> file_;
  const std::int64_t bytes_;
  const std::string shown_;
  const StoreHints hints_;
  std::deque<arrow::Future<std::shared_ptr<arrow::Buffer>>> ahead_;
  std::int64_t asked_ = 0, arrived_ = 0;
  std::shared_ptr<arrow::Buffer> piece_;
  std::int64_t taken_ = 0;
};

/// Reads from beginning to end, in one request.
class ArrowStreamReader final : public ReadableFile {
 public:
  ArrowStreamReader(std::shared_ptr<arrow::io::InputStream> stream, std::string shown,
                    StoreHints hints)
      : stream_(std::move(stream)), shown_(std::move(shown)), hints_(hints) {}

  Result<std::size_t> read(char* buffer, std::size_t size) override {
    const auto got = stream_->Read(static_cast<std::int64_t>(size), buffer);
    if (!got.ok()) return error_from(got.status(), "reading", shown_, hints_);
    return static_cast<std::size_t>(*got);
  }
  Result<Unit> sync() override { return Unit{}; }

 private:
  std::shared_ptr<arrow::io::InputStream> stream_;
  const std::string shown_;
  const StoreHints hints_;
};

}  // namespace

Error error_from(const arrow::Status& status, std::string_view doing, const std::string& where,
                 const StoreHints& hints) {
  const Errc code = code_of(status);
  return Error{code, fmt::format("{} '{}': {}", doing, where, status.message()), hints.of(code)};
}

Result<std::string> ArrowStore::get(const std::string& key, std::uint64_t bytes_max) {
  TRY(auto file, open_to_read(key));
  std::string text, buffer(64 << 10, '\0');
  for (;;) {
    TRY(const std::size_t got, file->read(buffer.data(), buffer.size()));
    if (got == 0) return text;
    if (text.size() + got > bytes_max)
      return Error{Errc::ResourceExhausted,
                   fmt::format("'{}' is larger than {} bytes", shown(key), bytes_max)};
    text.append(buffer.data(), got);
  }
}

Result<Unit> ArrowStore::put(const std::string& key, std::string_view bytes) {
  TRY(auto writer, create(key));
  TRY_VOID(writer->write(bytes));
  return writer->close();
}

Result<Unit> ArrowStore::put_new(const std::string& key, std::string_view bytes) {
  auto put = put_if_absent(key, bytes);
  if (!put.has_error() || put.error().code != Errc::AlreadyExists) return put;
  const auto there = get(key, bytes.size());
  if (!there.has_error() && *there == bytes) return Unit{};
  const bool unknown = there.has_error() && there.error().code != Errc::NotFound &&
                       there.error().code != Errc::ResourceExhausted;
  return unknown ? there.error() : put;  // it may be our own, from a try whose answer was lost
}

Result<std::unique_ptr<ObjectWriter>> ArrowStore::create(const std::string& key) {
  auto stream = files_->OpenOutputStream(path(key), nullptr);
  if (!stream.ok()) return error_from(stream.status(), "creating", shown(key), traits_.hints);
  return std::make_unique<ArrowWriter>(*stream, shown(key), traits_);
}

Result<std::unique_ptr<ReadableFile>> ArrowStore::open_to_read(const std::string& key) {
  if (traits_.read_as_stream) {
    auto stream = files_->OpenInputStream(path(key));
    if (!stream.ok()) return error_from(stream.status(), "opening", shown(key), traits_.hints);
    return std::make_unique<ArrowStreamReader>(*stream, shown(key), traits_.hints);
  }
  auto file = files_->OpenInputFile(path(key));
  if (!file.ok()) return error_from(file.status(), "opening", shown(key), traits_.hints);
  const auto bytes = (*file)->GetSize();
  if (!bytes.ok()) return error_from(bytes.status(), "opening", shown(key), traits_.hints);
  return std::make_unique<ArrowPiecesReader>(*file, *bytes, shown(key), traits_.hints);
}

Result<std::vector<StoredObject>> ArrowStore::list(const std::string& folder) {
  arrow::fs::FileSelector below;
  below.base_dir = path(folder);
  below.allow_not_found = true;
  below.recursive = true;
  const auto found = files_->GetFileInfo(below);
  if (!found.ok()) return error_from(found.status(), "listing", shown(folder), traits_.hints);
  std::vector<StoredObject> objects;
  for (const arrow::fs::FileInfo& info : *found) {
    if (info.IsFile())
      objects.push_back(
          {info.path().substr(root_.size() + 1), static_cast<std::uint64_t>(info.size())});
  }
  std::sort(objects.begin(), objects.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  return objects;
}

std::vector<ObjectStatus> ArrowStore::below(const std::string& above,
                                            std::vector<ObjectStatus> objects) {
  const std::string folder = above.empty() ? "" : above + "/";
  // A server that answers with others is not believed.
  std::erase_if(objects, [&](const auto& object) { return !object.key.starts_with(folder); });
  for (ObjectStatus& object : objects) object.key.erase(0, folder.size());
  return objects;
}

}  // namespace train::remote
