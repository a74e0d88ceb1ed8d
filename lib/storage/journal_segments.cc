#include "lib/storage/journal_segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "lib/storage/journal.h"

namespace train {
namespace {

constexpr std::string_view kFolder = "journal";
constexpr int kReadTriesMax = 5;

std::string key_of(std::uint64_t number) { return fmt::format("{}/{:06}.jsonl", kFolder, number); }

/// Return the number of a segment; 0 for any other key.
std::uint64_t number_of(const std::string& key) {
  std::uint64_t number = 0;
  const char* begin = key.data() + std::min(key.size(), kFolder.size() + 1);
  std::from_chars(begin, key.data() + key.size(), number);
  return key_of(number) == key ? number : 0;
}

/// Return the seq of the record in the first line; 0 if there is none, or it is damaged.
std::uint64_t first_seq(std::string_view text) {
  const auto record = parse_record(text.substr(0, text.find('\n')));
  return record.has_error() ? 0 : record->seq;
}

/// Return where the last line of `text` begins.
std::size_t last_line(std::string_view text) {
  const std::size_t newline =
      text.size() < 2 ? std::string_view::npos : text.rfind('\n', text.size() - 2);
  return newline == std::string_view::npos ? 0 : newline + 1;
}

/// Return `text` up to the record `seq`, which a later segment repeats. Keeps unreadable lines:
/// they are damage that replay_journal must find.
std::string_view before_seq(std::string_view text, std::uint64_t seq) {
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t begin = last_line(rest);
    const std::uint64_t found = first_seq(rest.substr(begin));
    if (found != 0 && found < seq) break;
    rest = rest.substr(0, begin);
    if (found != 0) text = rest;
  }
  return text;
}

using Sizes = std::map<std::uint64_t, std::uint64_t>;  // of the segments, by number

Result<Sizes> list_segments(ObjectStore& store) {
  TRY(const auto objects, store.list(std::string(kFolder)));
  Sizes sizes;
  for (const StoredObject& object : objects)
    if (const std::uint64_t number = number_of(object.key); number != 0)
      sizes[number] = object.bytes;
  return sizes;
}

std::uint64_t newest_of(const Sizes& sizes) { return sizes.empty() ? 0 : sizes.rbegin()->first; }

/// Return the segments up to `newest`, beginning with the last one that starts with the first
/// record.
Result<std::vector<std::string>> segments_up_to(ObjectStore& store, std::uint64_t newest) {
  std::vector<std::string> segments;
  for (std::uint64_t number = newest; number > 0; --number) {
    TRY(segments.emplace_back(), store.get(key_of(number), kJournalBytesMax));
    if (first_seq(segments.back()) == 1) break;
  }
  std::reverse(segments.begin(), segments.end());
  return segments;
}

/// Return whether both lists show these segments, of which the last is the newest in `before`.
bool are_listed(const std::vector<std::string>& segments, const Sizes& before, const Sizes& after) {
  std::uint64_t number = newest_of(before);
  for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment, --number)
    for (const Sizes* sizes : {&before, &after})
      if (const auto found = sizes->find(number);
          found == sizes->end() || found->second != segment->size())
        return false;
  return true;
}

std::string joined(const std::vector<std::string>& segments) {
  std::string text;
  for (const std::string& segment : segments) {
    if (const std::uint64_t seq = first_seq(segment); seq != 0)
      text.resize(before_seq(text, seq).size());
    if (!text.empty() && !text.ends_with('\n')) text += '\n';  // keeps damage to one line
    text += segment;
  }
  return text;
}

}  // namespace

Result<std::string> JournalSegments::read() {
  for (int tries = 1;; ++tries) {
    TRY(const Sizes before, list_segments(store_));
    const auto segments = segments_up_to(store_, newest_of(before));
    if (segments.has_error() && segments.error().code != Errc::NotFound) return segments.error();
    if (segments.has_error() && tries == kReadTriesMax)
      return Error{Errc::Corrupt,
                   "a segment of the run's journal is missing: " + segments.error().message,
                   "start a new run from this one's newest checkpoint with resume_from_checkpoint"};
    if (segments.has_error()) continue;
    // Meanwhile, the owner may have begun anew and removed the segments that we read.
    TRY(const Sizes after, list_segments(store_));
    if (!are_listed(*segments, before, after) && tries < kReadTriesMax) continue;
    next_ = newest_of(before) + 1;
    return joined(*segments);
  }
}

Error JournalSegments::taken() const {
  return Error{
      Errc::Fenced,
      fmt::format("segment {} of the run's journal was written by another launcher", next_),
      "see who owns the run with train-run status"};
}

/// Find out whether a segment exists after an error. If it does, the next one follows it and begins
/// with the same record, so that readers drop the earlier one.
Result<Unit> JournalSegments::resolve_doubt() {
  if (in_doubt_.empty()) return Unit{};
  const auto there = store_.get(key_of(next_), kJournalBytesMax);
  if (there.has_error() && there.error().code == Errc::NotFound) return Unit{};
  if (there.has_error()) return there.error();
  if (std::find(in_doubt_.begin(), in_doubt_.end(), digest_of(*there)) == in_doubt_.end())
    return taken();
  ++next_;
  in_doubt_.clear();
  return Unit{};
}

Result<Unit> JournalSegments::append(std::string_view lines,
                                     const std::function<Result<std::string>()>& whole) {
  TRY_VOID(resolve_doubt());
  const bool anew = first_own_ == 0 || next_ - base_ >= segments_max_;
  std::string text(lines);
  if (anew) {
    TRY(text, whole());
  }
  auto put = store_.put_new(key_of(next_), text);
  if (put.has_error() && put.error().code == Errc::AlreadyExists && !in_doubt_.empty()) {
    // A segment that we gave up may have arrived just now.
    TRY_VOID(resolve_doubt());
    put = store_.put_new(key_of(next_), text);
  }
  if (put.has_error()) {
    if (put.error().code == Errc::AlreadyExists) return taken();
    in_doubt_.push_back(digest_of(text));
    return put.error();
  }
  if (first_own_ == 0) {
    in_doubt_ = {digest_of(text)};
    TRY_VOID(check_newest());
  }
  in_doubt_.clear();
  const std::uint64_t number = next_++;
  if (first_own_ == 0) first_own_ = number;
  if (anew && number != first_own_) remove_replaced();
  if (anew) base_ = number;
  return Unit{};
}

/// Check that our first segment is the newest. Its number may have been free only because, since we
/// read the journal, a living owner had put a segment of that number, begun anew, and removed it.
Result<Unit> JournalSegments::check_newest() {
  TRY(const Sizes there, list_segments(store_));
  if (newest_of(there) == next_) return Unit{};
  in_doubt_.clear();
  return taken();
}

/// Remove our earlier segments, from the one that last began anew. Each owner's first segment
/// stays, since its number must never become free again for the previous owner. Best effort.
void JournalSegments::remove_replaced() {
  for (std::uint64_t number = std::max(base_, first_own_ + 1); number + 1 < next_; ++number)
    (void)store_.remove(key_of(number));
}

Result<Unit> JournalSegments::check() {
  TRY_VOID(resolve_doubt());
  const auto there = store_.get(key_of(next_), 0);
  if (there.has_error() && there.error().code == Errc::NotFound) return Unit{};
  if (there.has_error() && there.error().code != Errc::ResourceExhausted) return there.error();
  return taken();
}

}  // namespace train
