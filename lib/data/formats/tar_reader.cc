// This is the only file that calls libarchive.
#include "lib/data/formats/tar_reader.h"

#include <archive.h>
#include <archive_entry.h>
#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "lib/data/arrow_error.h"

namespace train::data {
namespace {

constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::int64_t kObjectReadBytes = 256 << 10;
constexpr std::int64_t kBlockBytes = 512;  // what headers and contents are padded to

/// The functions of libarchive that we use.
struct Functions {
  decltype(&::archive_read_new) read_new;
  decltype(&::archive_read_free) free;
  decltype(&::archive_read_support_format_tar) support_tar;
  decltype(&::archive_read_set_options) set_options;
  decltype(&::archive_read_open_filename) open_filename;
  decltype(&::archive_read_open_memory) open_memory;
  decltype(&::archive_read_open2) open_callbacks;
  decltype(&::archive_read_next_header) next_header;
  decltype(&::archive_filter_bytes) filter_bytes;
  decltype(&::archive_error_string) error_string;
  decltype(&::archive_entry_pathname) pathname;
  decltype(&::archive_entry_pathname_utf8) pathname_utf8;
  decltype(&::archive_entry_filetype) filetype;
  decltype(&::archive_entry_hardlink) hardlink;
  decltype(&::archive_entry_size) size;
  decltype(&::archive_entry_sparse_count) sparse_count;
};

template <typename F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, Functions& functions) {
  return find(library, "archive_read_new", functions.read_new) &&
         find(library, "archive_read_free", functions.free) &&
         find(library, "archive_read_support_format_tar", functions.support_tar) &&
         find(library, "archive_read_set_options", functions.set_options) &&
         find(library, "archive_read_open_filename", functions.open_filename) &&
         find(library, "archive_read_open_memory", functions.open_memory) &&
         find(library, "archive_read_open2", functions.open_callbacks) &&
         find(library, "archive_read_next_header", functions.next_header) &&
         find(library, "archive_filter_bytes", functions.filter_bytes) &&
         find(library, "archive_error_string", functions.error_string) &&
         find(library, "archive_entry_pathname", functions.pathname) &&
         find(library, "archive_entry_pathname_utf8", functions.pathname_utf8) &&
         find(library, "archive_entry_filetype", functions.filetype) &&
         find(library, "archive_entry_hardlink", functions.hardlink) &&
         find(library, "archive_entry_size", functions.size) &&
         find(library, "archive_entry_sparse_count", functions.sparse_count);
}

Result<Functions> load_libarchive() {
  constexpr const char* kName = "libarchive.so.13";  // of libarchive 3
  Functions functions{};
  void* library = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr && find_all(library, functions)) return functions;
  return Error{Errc::Unavailable, fmt::format("{} cannot be loaded", kName),
               "install libarchive 3 (Debian: libarchive13)"};
}

/// The bytes of an object, for libarchive.
class ObjectBytes {
 public:
  explicit ObjectBytes(std::shared_ptr<arrow::io::RandomAccessFile> file)
      : file_(std::move(file)) {}

  static la_ssize_t read(struct archive*, void* bytes, const void** buffer) {
    return static_cast<ObjectBytes*>(bytes)->read(buffer);
  }
  static la_int64_t skip(struct archive*, void* bytes, la_int64_t count) {
    return static_cast<ObjectBytes*>(bytes)->skip(count);
  }
  const arrow::Status& failure() const { return failure_; }

 private:
  la_ssize_t read(const void** buffer) {
    auto piece = file_->Read(kObjectReadBytes);
    failure_ = piece.status();
    if (!piece.ok()) return -1;
    piece_ = *piece;
    *buffer = piece_->data();
    return static_cast<la_ssize_t>(piece_->size());
  }

  /// Skip up to `count` bytes, and return how many were skipped. What is missing is read, so that
  /// libarchive sees the end.
  la_int64_t skip(la_int64_t count) {
    const auto at = file_->Tell(), size = file_->GetSize();
    if (!at.ok() || !size.ok()) return 0;
    const std::int64_t skipped = std::clamp<std::int64_t>(count, 0, *size - *at);
    return file_->Seek(*at + skipped).ok() ? skipped : 0;
  }

  std::shared_ptr<arrow::io::RandomAccessFile> file_;
  std::shared_ptr<arrow::Buffer> piece_;
  arrow::Status failure_;
};

}  // namespace

struct TarReader::Open {
  explicit Open(const Functions& functions) : call(functions), archive(functions.read_new()) {}
  ~Open() {
    if (archive != nullptr) call.free(archive);
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

  Error error() const {
    if (object != nullptr && !object->failure().ok())
      return error_from(object->failure(), "cannot read it");
    const char* text = call.error_string(archive);
    return Error{Errc::Corrupt, text != nullptr ? text : "no tar archive"};
  }

  Functions call;
  struct archive* archive;
  std::unique_ptr<ObjectBytes> object;  // null: a file, or memory
  std::int64_t end = 0;                 // of the last member
  bool ended = false;
};

TarReader::TarReader(std::unique_ptr<Open> open) : open_(std::move(open)) {}
TarReader::TarReader(TarReader&&) noexcept = default;
TarReader::~TarReader() = default;

namespace {

/// Let `archive` read tar. What follows an archive's end is read, too: `cat a.tar b.tar` has the
/// members of both.
template <class Opened>
Result<Unit> prepare(const Opened& open) {
  if (open.archive == nullptr) return Error{Errc::ResourceExhausted, "no memory for an archive"};
  if (open.call.support_tar(open.archive) != ARCHIVE_OK ||
      open.call.set_options(open.archive, "tar:read_concatenated_archives") != ARCHIVE_OK)
    return open.error();
  return Unit{};
}

}  // namespace

Result<TarReader> TarReader::open(const DataFile& file) {
  TRY(const Functions functions, load_libarchive());
  auto open = std::make_unique<Open>(functions);
  TRY_VOID(prepare(*open));
  if (file.place == nullptr) {
    if (functions.open_filename(open->archive, file.path.c_str(), kReadBytes) != ARCHIVE_OK)
      return open->error();
    return TarReader(std::move(open));
  }
  ARROW_TRY(auto bytes, "cannot open it", open_stream(file));
  open->object = std::make_unique<ObjectBytes>(std::move(bytes));
  if (functions.open_callbacks(open->archive, open->object.get(), nullptr, ObjectBytes::read,
                               ObjectBytes::skip, nullptr) != ARCHIVE_OK)
    return open->error();
  return TarReader(std::move(open));
}

Result<TarReader> TarReader::over(std::string_view bytes) {
  TRY(const Functions functions, load_libarchive());
  auto open = std::make_unique<Open>(functions);
  TRY_VOID(prepare(*open));
  if (functions.open_memory(open->archive, bytes.data(), bytes.size()) != ARCHIVE_OK)
    return open->error();
  return TarReader(std::move(open));
}

Result<std::optional<TarMember>> TarReader::next() {
  if (open_->ended) return std::optional<TarMember>();
  const Functions& call = open_->call;
  archive_entry* entry = nullptr;
  const int status = call.next_header(open_->archive, &entry);
  if (status == ARCHIVE_EOF) {
    open_->ended = true;
    return std::optional<TarMember>();
  }
  // A warning: a name or a date that this machine's locale lacks.
  if (status != ARCHIVE_OK && status != ARCHIVE_WARN) return open_->error();
  TarMember member;
  const char* name = call.pathname_utf8(entry);
  if (name == nullptr) name = call.pathname(entry);  // as it is, not in UTF-8
  if (name == nullptr) return Error{Errc::Corrupt, "a member has no name that can be read"};
  member.name = name;
  member.regular = call.filetype(entry) == AE_IFREG && call.hardlink(entry) == nullptr;
  member.content_at = call.filter_bytes(open_->archive, 0);
  member.size = member.regular ? call.size(entry) : 0;
  if (member.regular && call.sparse_count(entry) > 0) {
    return Error{Errc::InvalidArgument, fmt::format("the member {} has holes", member.name),
                 "make the archive without --sparse"};
  }
  if (member.size < 0 ||
      member.size > std::numeric_limits<std::int64_t>::max() - member.content_at - kBlockBytes)
    return Error{Errc::Corrupt, fmt::format("the member {} has an impossible size", member.name)};
  member.end = member.content_at + (member.size + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  open_->end = member.end;
  return std::optional(std::move(member));
}

Result<Unit> TarReader::check_end() const {
  if (open_->call.filter_bytes(open_->archive, 0) > open_->end) return Unit{};
  return Error{Errc::Corrupt, "it lacks the mark of an archive's end",
               "it is cut: copy or make it again"};
}

}  // namespace train::data
