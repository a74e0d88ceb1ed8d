#include "cmd/train-data/tar_file.h"

#include <archive.h>
#include <archive_entry.h>
#include <dlfcn.h>
#include <fmt/format.h>

namespace train {
namespace {

/// The functions of libarchive that we use.
struct Functions {
  decltype(&::archive_write_new) write_new;
  decltype(&::archive_write_set_format_gnutar) set_format;
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
};

template <typename F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, Functions& functions) {
  return find(library, "archive_write_new", functions.write_new) &&
         find(library, "archive_write_set_format_gnutar", functions.set_format) &&
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
         find(library, "archive_entry_set_perm", functions.set_perm);
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

struct TarFile::Open {
  Open(const Functions& functions, OutputPlace opened)
      : call(functions), file(std::move(opened)), archive(functions.write_new()) {}
  ~Open() {
    if (archive != nullptr) call.free(archive);
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

  Error error() const {
    const int number = call.error_number(archive);
    if (number > 0) return system_error(number, "writing " + file.path);
    const char* text = call.error_string(archive);
    return Error{Errc::Io, fmt::format("writing {}: {}", file.path,
                                       text != nullptr ? text : "unknown error")};
  }

  Functions call;
  OutputPlace file;
  struct archive* archive;
};

TarFile::TarFile(std::unique_ptr<Open> open) : open_(std::move(open)) {}
TarFile::TarFile(TarFile&&) noexcept = default;
TarFile::~TarFile() = default;

Result<TarFile> TarFile::open(const OutputPlace& file) {
  TRY(const Functions functions, load_libarchive());
  auto open = std::make_unique<Open>(functions, file);
  if (open->archive == nullptr) return Error{Errc::ResourceExhausted, "no memory for an archive"};
  // Unlike pax, GNU's format takes names as bytes, whatever the locale is.
  if (functions.set_format(open->archive) != ARCHIVE_OK ||
      functions.open_fd(open->archive, file.fd) != ARCHIVE_OK)
    return open->error();
  return TarFile(std::move(open));
}

Result<Unit> TarFile::add(const std::string& name, std::string_view content) {
  const Functions& call = open_->call;
  const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(call.entry_new(),
                                                                       call.entry_free);
  if (!entry) return Error{Errc::ResourceExhausted, "no memory for an archive"};
  call.set_pathname(entry.get(), name.c_str());
  call.set_size(entry.get(), static_cast<la_int64_t>(content.size()));
  call.set_filetype(entry.get(), AE_IFREG);
  call.set_perm(entry.get(), 0644);
  if (call.write_header(open_->archive, entry.get()) < ARCHIVE_WARN) return open_->error();
  while (!content.empty()) {
    const la_ssize_t written = call.write_data(open_->archive, content.data(), content.size());
    if (written <= 0) return open_->error();
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return Unit{};
}

Result<Unit> TarFile::finish() {
  if (open_->call.close(open_->archive) != ARCHIVE_OK) return open_->error();
  return Unit{};
}

}  // namespace train
