#include "lib/storage/remote/arrow_store.h"

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/future.h>
#include <arrow/util/io_util.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>

namespace train::remote {
namespace {

constexpr std::int64_t kReadBytes = 8 << 20;  // of one request
constexpr std::size_t kReadsAhead = 4;        // requests on the way

bool says(const arrow::Status& status, std::string_view text) {
  return status.message().find(text) != std::string::npos;
}

Errc code_of(const arrow::Status& status) {
  if (arrow::internal::ErrnoFromStatus(status) == ENOENT || says(status, "NO_SUCH_KEY") ||
      says(status, "NO_SUCH_BUCKET") || says(status, "RESOURCE_NOT_FOUND") ||
      says(status, "HTTP status 404"))
    return Errc::NotFound;
  if (says(status, "ACCESS_DENIED") || says(status, "INVALID_ACCESS_KEY_ID") ||
      says(status, "SIGNATURE_DOES_NOT_MATCH") || says(status, "HTTP status 403"))
    return Errc::Permission;
  if (says(status, "NETWORK_CONNECTION") || says(status, "SLOW_DOWN") ||
      says(status, "SERVICE_UNAVAILABLE") || says(status, "INTERNAL_FAILURE") ||
      says(status, "HTTP status 5"))
    return Errc::Unavailable;
  return status.IsOutOfMemory() ? Errc::ResourceExhausted : Errc::Io;
}

std::string_view hint_of(Errc code) {
  switch (code) {
    case Errc::NotFound:
      return "does the bucket exist, under this endpoint (AWS_ENDPOINT_URL) and region?";
    case Errc::Permission:
      return "check the credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE, or the machine's role) and "
             "what they may do";
    case Errc::Unavailable:
      return "is the endpoint in reach from there (AWS_ENDPOINT_URL)?";
    default:
      return "";
  }
}

class ArrowWriter final : public ObjectWriter {
 public:
  ArrowWriter(std::shared_ptr<arrow::io::OutputStream> stream, std::string shown)
      : stream_(std::move(stream)), shown_(std::move(shown)) {}
  ~ArrowWriter() override {
    if (!stream_->closed()) (void)stream_->Abort();
  }
  Result<Unit> write(std::string_view bytes) override {
    const auto wrote = stream_->Write(bytes.data(), static_cast<std::int64_t>(bytes.size()));
    if (!wrote.ok()) return error_from(wrote, "writing", shown_);
    return Unit{};
  }
  Result<Unit> close() override {
    const auto closed = stream_->Close();
    if (!closed.ok()) return error_from(closed, "writing", shown_);
    return Unit{};
  }

 private:
  std::shared_ptr<arrow::io::OutputStream> stream_;
  const std::string shown_;
};

/// From its beginning to its end, with some requests on the way ahead of the reader.
class ArrowReader final : public ReadableFile {
 public:
  ArrowReader(std::shared_ptr<arrow::io::RandomAccessFile> file, std::int64_t bytes,
              std::string shown)
      : file_(std::move(file)), bytes_(bytes), shown_(std::move(shown)) {}
  ~ArrowReader() override {
    for (auto& piece : ahead_) piece.Wait();  // they hold the file
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
  Result<Unit> sync() override { return Unit{}; }  // what can be read there is durable

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
    if (!piece.ok()) return error_from(piece.status(), "reading", shown_);
    piece_ = *piece;
    taken_ = 0;
    if (piece_->size() == 0)
      return Error{Errc::Corrupt, fmt::format("'{}' is shorter than it was", shown_)};
    return true;
  }

  std::shared_ptr<arrow::io::RandomAccessFile> file_;
  const std::int64_t bytes_;
  const std::string shown_;
  std::deque<arrow::Future<std::shared_ptr<arrow::Buffer>>> ahead_;
  std::int64_t asked_ = 0;
  std::shared_ptr<arrow::Buffer> piece_;
  std::int64_t taken_ = 0;
};

}  // namespace

Error error_from(const arrow::Status& status, std::string_view doing, const std::string& where) {
  const Errc code = code_of(status);
  return Error{code, fmt::format("{} '{}': {}", doing, where, status.message()),
               std::string(hint_of(code))};
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

Result<std::unique_ptr<ObjectWriter>> ArrowStore::create(const std::string& key) {
  auto stream = files_->OpenOutputStream(path(key), nullptr);
  if (!stream.ok()) return error_from(stream.status(), "creating", shown(key));
  return std::make_unique<ArrowWriter>(*stream, shown(key));
}

Result<std::unique_ptr<ReadableFile>> ArrowStore::open_to_read(const std::string& key) {
  auto file = files_->OpenInputFile(path(key));
  if (!file.ok()) return error_from(file.status(), "opening", shown(key));
  const auto bytes = (*file)->GetSize();
  if (!bytes.ok()) return error_from(bytes.status(), "opening", shown(key));
  return std::make_unique<ArrowReader>(*file, *bytes, shown(key));
}

Result<std::vector<StoredObject>> ArrowStore::list(const std::string& folder) {
  arrow::fs::FileSelector below;
  below.base_dir = path(folder);
  below.allow_not_found = true;
  below.recursive = true;
  const auto found = files_->GetFileInfo(below);
  if (!found.ok()) return error_from(found.status(), "listing", shown(folder));
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

}  // namespace train::remote
