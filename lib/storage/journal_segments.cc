#include "lib/storage/journal_segments.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "lib/storage/journal.h"

namespace train {
namespace {

constexpr std::string_view kFolder = "journal";
constexpr std::uint64_t kSegmentsMax = 200;  // that a reader has to ask for, one by one

std::string key_of(std::uint64_t number) { return fmt::format("{}/{:06}.jsonl", kFolder, number); }

/// 0 for what is no segment.
std::uint64_t number_of(const std::string& key) {
  std::uint64_t number = 0;
  const char* begin = key.data() + std::min(key.size(), kFolder.size() + 1);
  std::from_chars(begin, key.data() + key.size(), number);
  return key_of(number) == key ? number : 0;
}

/// Of its first record; 0 where it is none.
std::uint64_t first_seq(std::string_view text) {
  constexpr std::string_view kBegin = "{\"seq\":";
  std::uint64_t seq = 0;
  if (text.starts_with(kBegin))
    std::from_chars(text.data() + kBegin.size(), text.data() + text.size(), seq);
  return seq;
}

/// `text` up to the record `seq`, which a later segment has anew.
std::string_view before_seq(std::string_view text, std::uint64_t seq) {
  while (!text.empty()) {
    const std::size_t line = text.rfind('\n', text.size() - 2);
    const std::size_t begin = line == std::string_view::npos ? 0 : line + 1;
    const std::uint64_t found = first_seq(text.substr(begin));
    if (found != 0 && found < seq) break;
    text = text.substr(0, begin);
  }
  return text;
}

}  // namespace

Result<std::string> JournalSegments::read() {
  TRY(const auto objects, store_.list(std::string(kFolder)));
  std::uint64_t newest = 0;
  for (const StoredObject& object : objects) newest = std::max(newest, number_of(object.key));
  next_ = newest + 1;
  std::vector<std::string> segments;  // newest first
  for (std::uint64_t number = newest; number > 0; --number) {
    TRY(segments.emplace_back(), store_.get(key_of(number), kJournalBytesMax));
    if (first_seq(segments.back()) <= 1) break;
  }
  std::string text;
  for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
    text.resize(before_seq(text, first_seq(*segment)).size());
    text += *segment;
  }
  return text;
}

Error JournalSegments::taken(std::uint64_t number) const {
  return Error{Errc::Fenced,
               fmt::format("segment {} of the run's journal was put by another launcher", number),
               "see who owns the run with train-run status"};
}

/// After an error nobody knows whether the segment is there. Where it is, the next one comes after
/// it, and begins with the same record: so a reader drops it.
Result<Unit> JournalSegments::settle_doubt() {
  if (doubtful_.empty()) return Unit{};
  const auto there = store_.get(key_of(next_), doubtful_.size());
  if (there.has_error() && there.error().code == Errc::ResourceExhausted) return taken(next_);
  if (there.has_error() && there.error().code != Errc::NotFound) return there.error();
  if (!there.has_error()) {
    if (*there != doubtful_) return taken(next_);
    ++next_;
  }
  doubtful_.clear();
  return Unit{};
}

Result<Unit> JournalSegments::append(std::string_view lines,
                                     const std::function<Result<std::string>()>& whole) {
  TRY_VOID(settle_doubt());
  std::string text(lines);
  const bool anew = first_own_ == 0 || next_ - base_ >= kSegmentsMax;
  if (anew) {
    TRY(text, whole());
  }
  const auto put = store_.put_new(key_of(next_), text);
  if (put.has_error()) {
    if (put.error().code == Errc::AlreadyExists) return taken(next_);
    doubtful_ = text;
    return put.error();
  }
  const std::uint64_t number = next_++;
  if (first_own_ == 0) first_own_ = number;
  if (anew && number != first_own_) remove_replaced();
  if (anew) base_ = number;
  return Unit{};
}

/// Our own from the last one that began anew. The first of each owner stays: its number must never
/// be free again for the owner before. Best effort.
void JournalSegments::remove_replaced() {
  for (std::uint64_t number = std::max(base_, first_own_ + 1); number + 1 < next_; ++number)
    (void)store_.remove(key_of(number));
}

Result<Unit> JournalSegments::check() const {
  const auto there = store_.get(key_of(next_), kJournalBytesMax);
  if (there.has_error() && there.error().code == Errc::NotFound) return Unit{};
  if (there.has_error()) return there.error();
  if (!doubtful_.empty() && *there == doubtful_) return Unit{};
  return taken(next_);
}

}  // namespace train
