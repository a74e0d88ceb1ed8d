#include "launcher/bundle/archive_writer.h"

#include <archive.h>
#include <archive_entry.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <ctime>

#include "launcher/bundle/new_file.h"

namespace train {
namespace {

/// The functions of libarchive that we use. The library is loaded on demand: it needs libxml2, ICU
/// and others, and no other command should wait for these, or fail without them.
struct Functions {
  decltype(&::archive_write_new) write_new;
  decltype(&::archive_write_set_format_pax_restricted) set_format;
  decltype(&::archive_write_add_filter_gzip) add_filter;
  decltype(&::archive_write_open_fd) open_fd;
  decltype(&::archive_write_header) write_header;
  decltype(&::archive_write_data) write_data;
  decltype(&::archive_write_close) close;
  decltype(&::archive_write_free) free;
  decltype(&::archive_errno) error_number;
  decltype(&::archive_error_string) error_string;
  decltype(&::archive_entry_new) entry_new;
  decltype(&::archive_entry_free) entry_free;
  decltype(&::archive_entry_set_pathname) set_pathname;
  decltype(&::archive_entry_set_size) set_size;
  decltype(&::archive_entry_set_filetype) set_filetype;
  decltype(&::archive_entry_set_perm) set_perm;
  decltype(&::archive_entry_set_mtime) set_mtime;
};

template <typename F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, Functions& functions) {
  return find(library, "archive_write_new", functions.write_new) &&
         find(library, "archive_write_set_format_pax_restricted", functions.set_format) &&
         find(library, "archive_write_add_filter_gzip", functions.add_filter) &&
         find(library, "archive_write_open_fd", functions.open_fd) &&
         find(library, "archive_write_header", functions.write_header) &&
         find(library, "archive_write_data", functions.write_data) &&
         find(library, "archive_write_close", functions.close) &&
         find(library, "archive_write_free", functions.free) &&
         find(library, "archive_errno", functions.error_number) &&
         find(library, "archive_error_string", functions.error_string) &&
         find(library, "archive_entry_new", functions.entry_new) &&
         find(library, "archive_entry_free", functions.entry_free) &&
         find(library, "archive_entry_set_pathname", functions.set_pathname) &&
         find(library, "archive_entry_set_size", functions.set_size) &&
         find(library, "archive_entry_set_filetype", functions.set_filetype) &&
         find(library, "archive_entry_set_perm", functions.set_perm) &&
         find(library, "archive_entry_set_mtime", functions.set_mtime);
}

Result<Functions> load_libarchive() {
  constexpr const char* kName = "libarchive.so.13";  // of libarchive 3
  Functions functions{};
  void* library = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr && find_all(library, functions)) return functions;
  return Error{Errc::Unavailable, fmt::format("{} cannot be loaded", kName),
               "install libarchive 3 (Debian: libarchive13)"};
}

}  // namespace

struct ArchiveWriter::Open {
  Open(const Functions& functions, NewFile opened) : call(functions), file(std::move(opened)) {}
  ~Open() {
    if (archive != nullptr) call.free(archive);
  }
  Error error(std::string_view doing) const {
    const int number = call.error_number(archive);
    const std::string what = fmt::format("{} {}", doing, file.path());
    if (number > 0) return system_error(number, what);
    const char* text = call.error_string(archive);
    return Error{Errc::Io, fmt::format("{}: {}", what, text != nullptr ? text : "unknown error")};
  }

  Functions call;
  NewFile file;
  struct archive* archive = nullptr;
};

ArchiveWriter::ArchiveWriter(std::unique_ptr<Open> open) : open_(std::move(open)) {}
ArchiveWriter::ArchiveWriter(ArchiveWriter&&) noexcept = default;
ArchiveWriter::~ArchiveWriter() = default;

Result<ArchiveWriter> ArchiveWriter::begin(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) == 0)
    return Error{Errc::AlreadyExists, fmt::format("'{}' exists", path), "choose another name"};
  TRY(const Functions functions, load_libarchive());
  TRY(NewFile file, NewFile::create(path));
  auto open = std::make_unique<Open>(functions, std::move(file));
  open->archive = functions.write_new();
  if (open->archive == nullptr) return Error{Errc::ResourceExhausted, "no memory for an archive"};
  if (functions.set_format(open->archive) != ARCHIVE_OK ||
      functions.add_filter(open->archive) != ARCHIVE_OK ||
      functions.open_fd(open->archive, open->file.fd()) != ARCHIVE_OK)
    return open->error("beginning");
  return ArchiveWriter(std::move(open));
}

Result<Unit> ArchiveWriter::add(const std::string& name, std::string_view content) {
  const Functions& call = open_->call;
  const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(call.entry_new(),
                                                                       call.entry_free);
  if (!entry) return Error{Errc::ResourceExhausted, "no memory for an archive"};
  call.set_pathname(entry.get(), name.c_str());
  call.set_size(entry.get(), static_cast<la_int64_t>(content.size()));
  call.set_filetype(entry.get(), AE_IFREG);
  call.set_perm(entry.get(), 0600);
  call.set_mtime(entry.get(), std::time(nullptr), 0);
  if (call.write_header(open_->archive, entry.get()) < ARCHIVE_WARN) return open_->error("writing");
  while (!content.empty()) {
    const la_ssize_t written = call.write_data(open_->archive, content.data(), content.size());
    if (written <= 0) return open_->error("writing");
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return Unit{};
}

Result<std::uint64_t> ArchiveWriter::finish() {
  if (open_->call.close(open_->archive) != ARCHIVE_OK) return open_->error("completing");
  struct stat written {};
  if (::fstat(open_->file.fd(), &written) != 0)
    return system_error(errno, "writing " + open_->file.path());
  TRY_VOID(open_->file.publish());
  return static_cast<std::uint64_t>(written.st_size);
}

}  // namespace train
