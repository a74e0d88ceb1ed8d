#include "lib/transfer/file_fetcher.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <deque>

#include "lib/net/blocking.h"

namespace train {
namespace {

// Return a random first id. An answer to an earlier process may still arrive on this link, and must
// not match one of our ids.
std::uint64_t first_id() {
  std::uint64_t id = 0;
  (void)!::getrandom(&id, sizeof id, 0);
  return id >> 1;
}

Error error_of(const FileBytes& answer) { return Error{errc_of(answer.error_code), answer.error}; }

Result<std::vector<CheckpointFile>> missing_of(FileSystem& fs, const FetchRequest& request) {
  std::vector<CheckpointFile> missing;
  for (const CheckpointFile& file : request.files) {
    const bool elsewhere = !request.or_in.empty() && is_there(fs, request.or_in, file);
    if (!elsewhere && !is_there(fs, request.into, file)) missing.push_back(file);
  }
  return missing;
}

/// Sync the innermost folders first: a folder must be on disk before its name in the parent.
Result<Unit> sync_folders(FileSystem& fs, const FetchRequest& request) {
  std::set<std::string> folders;
  for (const CheckpointFile& file : request.files) {
    for (auto slash = file.path.rfind('/'); slash != std::string::npos && slash > 0;
         slash = file.path.rfind('/', slash - 1))
      folders.insert(join_path(request.into, file.path.substr(0, slash)));
  }
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    if (auto synced = fs.sync_folder(*folder);
        synced.has_error() && synced.error().code != Errc::NotFound)  // its files are in `or_in`
      return synced;
  }
  TRY_VOID(make_folders(fs, request.into));  // needed if there are no files
  return fs.sync_folder(request.into);
}

}  // namespace

/// One fetch: how far it has requested, received and written.
struct FileFetcher::Flow {
  FetchRequest request;
  int number = 0;  // unique among the current flows
  std::vector<CheckpointFile> missing;
  struct Position {
    std::size_t file = 0;
    std::uint64_t offset = 0;
    auto operator<=>(const Position&) const = default;
  };
  Position asked, written;
  std::map<Position, std::string> came;  // received, not written yet
  std::unique_ptr<IncomingFile> open;    // used by the disk's thread while `writing`
  bool writing = false;
  std::optional<Error> error;

  bool all_asked() const { return asked.file == missing.size(); }
  bool all_written() const { return written.file == missing.size(); }
  /// Advance `position` by `bytes` in this file, or to the next file that is not empty.
  void move(Position& position, std::uint64_t bytes) const {
    position.offset += bytes;
    while (position.file < missing.size() && position.offset >= missing[position.file].bytes)
      position = {position.file + 1, 0};
  }

  Result<Unit> write(FileSystem& fs, Position from, const std::deque<std::string>& pieces);
  Result<Unit> finish_file(FileSystem& fs, Position& at);
};

FileFetcher::FileFetcher(asio::any_io_executor executor, const Clock& clock,
                         asio::thread_pool& disk, Ask ask)
    : executor_(executor),
      clock_(clock),
      disk_(disk),
      ask_(std::move(ask)),
      changed_(executor),
      next_id_(first_id()),
      heard_at_(clock.now()) {}

FileFetcher::~FileFetcher() = default;

Task<Fetched> FileFetcher::fetch(FetchRequest request) {
  auto flow = std::make_shared<Flow>();
  flow->request = std::move(request);
  while (!flows_.insert(flow->number).second) ++flow->number;
  auto looking = run_on<std::vector<CheckpointFile>>(
      disk_, [this, flow] { return missing_of(files_, flow->request); });
  auto missing = co_await std::move(looking);
  flow->missing = std::move(*missing);
  Fetched fetched{.files = flow->missing.size()};
  for (const CheckpointFile& file : flow->missing) fetched.bytes += file.bytes;
  auto done = co_await transfer(flow);
  if (done && flow->request.durable) {
    auto syncing =
        run_on<Unit>(disk_, [this, flow] { return sync_folders(files_, flow->request); });
    done = co_await std::move(syncing);
  }
  flows_.erase(flow->number);
  if (done.has_error()) co_return done.error();
  co_return fetched;
}

Task<Unit> FileFetcher::transfer(std::shared_ptr<Flow> flow) {
  flow->move(flow->asked, 0);  // skips empty files
  for (;;) {
    if (closed_ && !flow->error) flow->error = closed_;
    if (!flow->error && flow->request.useless && flow->request.useless())
      flow->error = Error{Errc::Cancelled, "it is no longer needed"};
    write_what_came(flow);
    const bool over = flow->error || flow->all_written();
    if (over && !flow->writing) break;
    if (!over) ask_more(flow);
    const auto woken = co_await wait();
    if (woken.has_error() && !flow->error) flow->error = woken.error();
  }
  forget(*flow);
  if (flow->open) flow->open->abandon();
  if (flow->error) co_return *flow->error;
  co_return Unit{};
}

// Wait until woken. Repeat the open requests if nothing has arrived for so long that they may be
// lost.
Task<bool> FileFetcher::wait() {
  const TimePoint until = asked_.empty()
                              ? TimePoint::max()
                              : std::max(heard_at_, clock_.now() - kAnswerTimeout) + kAnswerTimeout;
  CO_TRY(const bool woken, co_await changed_.wait_until(until));
  if (!woken && !asked_.empty() && clock_.now() >= heard_at_ + kAnswerTimeout) ask_again();
  co_return woken;
}

void FileFetcher::ask_more(const std::shared_ptr<Flow>& flow) {
  while (!flow->all_asked()) {
    const CheckpointFile& file = flow->missing[flow->asked.file];
    const auto bytes = static_cast<std::size_t>(
        std::min<std::uint64_t>(window_.piece_bytes(), file.bytes - flow->asked.offset));
    if (in_use_ > 0 && in_use_ + bytes > window_.bytes()) return;
    in_use_ += bytes;
    ReadFile read{.id = 0, .folder = flow->request.folder, .path = file.path};
    read.offset = flow->asked.offset;
    read.bytes = static_cast<std::uint32_t>(bytes);
    ask(flow.get(), std::move(read),
        [this, weak = std::weak_ptr(flow), at = flow->asked, bytes](FileBytes answer) {
          if (const auto alive = weak.lock())
            took(*alive, at.file, at.offset, bytes, std::move(answer));
          else
            in_use_ -= bytes;
        });
    flow->move(flow->asked, bytes);
  }
}

void FileFetcher::took(Flow& flow, std::size_t file, std::uint64_t offset, std::size_t bytes,
                       FileBytes answer) {
  const CheckpointFile& wanted = flow.missing[file];
  if (answer.error.empty() && (answer.size != wanted.bytes || answer.data.size() != bytes)) {
    answer.error = fmt::format("'{}' has {} bytes at its source, expected {}", wanted.path,
                               answer.size, wanted.bytes);
    answer.error_code = std::string(to_string(Errc::Corrupt));
  }
  if (answer.error.empty() && !flow.error) {
    flow.came.emplace(Flow::Position{file, offset}, std::move(answer.data));
    return;
  }
  in_use_ -= bytes;
  if (!flow.error) flow.error = error_of(answer);
}

// Write what has arrived, in the order of the files, with at most one job for the disk at a time.
void FileFetcher::write_what_came(const std::shared_ptr<Flow>& flow) {
  if (flow->writing || flow->error) return;
  const Flow::Position from = flow->written;
  Flow::Position to = from;
  flow->move(to, 0);
  auto pieces = std::make_shared<std::deque<std::string>>();
  std::size_t bytes = 0;
  for (auto next = flow->came.find(to); next != flow->came.end(); next = flow->came.find(to)) {
    bytes += next->second.size();
    flow->move(to, next->second.size());
    pieces->push_back(std::move(next->second));
    flow->came.erase(next);
  }
  if (to == from) return;
  flow->writing = true;
  asio::post(disk_, [this, flow, from, to, pieces, bytes] {
    const auto wrote = flow->write(files_, from, *pieces);
    pieces->clear();
    std::optional<Error> error;
    if (wrote.has_error()) error = wrote.error();
    asio::post(executor_, [this, flow, to, bytes, error] {
      in_use_ -= bytes;
      flow->written = to;
      flow->writing = false;
      if (error) flow->error = error;
      changed_.notify();
    });
  });
}

/// Write `pieces`, which are contiguous from `from` on. Runs on the disk's thread.
Result<Unit> FileFetcher::Flow::write(FileSystem& fs, Position from,
                                      const std::deque<std::string>& pieces) {
  TRY_VOID(finish_file(fs, from));
  for (const std::string& piece : pieces) {
    TRY_VOID(open->write(piece));
    TRY_VOID(finish_file(fs, from));
  }
  return Unit{};
}

/// If the file at `at` is whole, finish it and the empty files after it, and open the next file.
Result<Unit> FileFetcher::Flow::finish_file(FileSystem& fs, Position& at) {
  for (; at.file < missing.size(); ++at.file) {
    if (!open) open = std::make_unique<IncomingFile>(fs, request.into, missing[at.file], number);
    if (!open->complete()) return Unit{};
    TRY_VOID(open->finish(request.durable));
    open.reset();
  }
  return Unit{};
}

void FileFetcher::ask(const Flow* flow, ReadFile request, std::function<void(FileBytes)> answered) {
  if (asked_.empty()) heard_at_ = clock_.now();
  request.id = next_id_++;
  ask_(request);
  const std::uint64_t id = request.id;
  asked_.emplace(id, Asked{flow, std::move(request), clock_.now(), std::move(answered)});
}

void FileFetcher::received(FileBytes answer) {
  const auto found = asked_.find(answer.id);
  if (found == asked_.end()) return;  // a request that was repeated gets two answers
  const Asked asked = std::move(found->second);
  asked_.erase(found);
  heard_at_ = clock_.now();
  window_.on_answer(answer.data.size(), heard_at_ - asked.at);
  asked.answered(std::move(answer));
  changed_.notify();
}

void FileFetcher::ask_again() {
  window_.restart();
  heard_at_ = clock_.now();
  for (auto& [id, asked] : asked_) {
    asked.at = heard_at_;
    ask_(asked.request);
  }
}

void FileFetcher::close(Error why) {
  if (!closed_) closed_ = std::move(why);
  changed_.notify();
}

/// Forget the open requests of a flow that no longer needs them.
void FileFetcher::forget(const Flow& flow) {
  for (const auto& [position, piece] : flow.came) in_use_ -= piece.size();
  std::erase_if(asked_, [&](const auto& entry) {
    const bool is_its = entry.second.flow == &flow;
    if (is_its) in_use_ -= entry.second.request.bytes;
    return is_its;
  });
  changed_.notify();  // other flows may request more now
}

Task<std::string> FileFetcher::fetch_small(std::string folder, std::string path,
                                           std::uint64_t bytes_max) {
  std::string text;
  for (;;) {
    const auto answer = std::make_shared<std::optional<FileBytes>>();
    ReadFile read{.id = 0, .folder = folder, .path = path};
    read.offset = text.size();
    read.bytes = static_cast<std::uint32_t>(kPieceBytesMax);
    ask(nullptr, std::move(read), [answer](FileBytes came) { *answer = std::move(came); });
    while (!*answer) {
      if (closed_) co_return *closed_;
      CO_TRY([[maybe_unused]] const bool woken, co_await wait());
    }
    if (!(*answer)->error.empty()) co_return error_of(**answer);
    if ((*answer)->size > bytes_max)
      co_return Error{Errc::ResourceExhausted, fmt::format("'{}' has {} bytes, more than {}", path,
                                                           (*answer)->size, bytes_max)};
    text += (*answer)->data;
    if (text.size() >= (*answer)->size || (*answer)->data.empty()) co_return text;
  }
}

}  // namespace train
