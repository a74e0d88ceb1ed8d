#include "lib/flight/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace train {

std::optional<std::int64_t> Pickle::integer(Index value) const {
  if (kind(value) != Kind::Integer) return std::nullopt;
  return values_[value].integer;
}

bool Pickle::is_true(Index value) const {
  return kind(value) == Kind::Bool && values_[value].integer != 0;
}

std::optional<Pickle::Index> Pickle::find(Index dict, std::string_view key) const {
  if (kind(dict) != Kind::Dict) return std::nullopt;
  const std::vector<Index>& all = items(dict);
  const std::size_t end = std::min(all.size(), 2 * kPickleKeysMax);
  for (std::size_t i = 0; i + 1 < end; i += 2)
    if (kind(all[i]) == Kind::Text && text(all[i]) == key) return all[i + 1];
  return std::nullopt;
}

/// The machine that a pickle is a program for, without its instructions that call.
class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes) : rest_(bytes), size_(bytes.size()) {}

  Result<Pickle> run() {
    while (!done_) {
      if (rest_.empty()) return wrong("it is not complete");
      const auto code = static_cast<std::uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      TRY_VOID(step(code));
    }
    return std::move(pickle_);
  }

 private:
  using Kind = Pickle::Kind;
  using Index = Pickle::Index;

  Error wrong(std::string_view why) const {
    return Error{Errc::Corrupt, fmt::format("byte {} of a pickle: {}", size_ - rest_.size(), why)};
  }

  Result<std::uint64_t> number(std::size_t bytes) {
    if (rest_.size() < bytes) return wrong("it is not complete");
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      value |= std::uint64_t{static_cast<std::uint8_t>(rest_[i])} << (8 * i);
    rest_.remove_prefix(bytes);
    return value;
  }

  Result<std::string_view> piece(std::uint64_t bytes) {
    if (rest_.size() < bytes) return wrong("it is not complete");
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  Result<Unit> push(Pickle::Value value) {
    if (pickle_.values_.size() == kPickleValuesMax) return wrong("it has too many values");
    stack_.push_back(static_cast<Index>(pickle_.values_.size()));
    pickle_.values_.push_back(std::move(value));
    return Unit{};
  }

  Result<Unit> push_integer(std::int64_t value) {
    return push({.kind = Kind::Integer, .integer = value});
  }

  /// Return what is on the stack behind the newest mark, and remove both.
  Result<std::vector<Index>> since_mark() {
    if (marks_.empty() || marks_.back() > stack_.size()) return wrong("there is no mark");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Index> taken(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return taken;
  }

  Result<std::vector<Index>> newest(std::size_t count) {
    if (stack_.size() < count) return wrong("the stack is empty");
    std::vector<Index> taken(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return taken;
  }

  Result<Unit> add(Kind kind, const std::vector<Index>& items) {
    if (stack_.empty() || pickle_.kind(stack_.back()) != kind) return wrong("nothing to add to");
    if (kind == Kind::Dict && items.size() % 2 != 0) return wrong("a key without a value");
    auto& into = pickle_.values_[stack_.back()].items;
    into.insert(into.end(), items.begin(), items.end());
    return Unit{};
  }

  Result<Unit> remember(std::uint64_t number) {
    if (stack_.empty()) return wrong("the stack is empty");
    memo_[number] = stack_.back();
    return Unit{};
  }

  Result<Unit> recall(std::uint64_t number) {
    const auto found = memo_.find(number);
    if (found == memo_.end()) return wrong("nothing was remembered under this number");
    stack_.push_back(found->second);
    return Unit{};
  }

  Result<Unit> tuple(std::size_t count) {
    TRY(auto items, newest(count));
    return push({.kind = Kind::List, .items = std::move(items)});
  }

  Result<Unit> push_long() {
    TRY(const std::uint64_t bytes, number(1));
    if (bytes > 8) return wrong("a number is too large");
    TRY(std::uint64_t value, number(bytes));
    if (bytes > 0 && bytes < 8 && (value >> (8 * bytes - 1)) != 0) value |= ~0ull << (8 * bytes);
    return push_integer(static_cast<std::int64_t>(value));
  }

  Result<Unit> push_text(std::size_t size_bytes) {
    TRY(const std::uint64_t bytes, number(size_bytes));
    TRY(const std::string_view text, piece(bytes));
    return push({.kind = Kind::Text, .text = text});
  }

  Result<Unit> step(std::uint8_t code) {
    switch (code) {
      case 0x80: {  // PROTO
        TRY([[maybe_unused]] const std::uint64_t version, number(1));
        return Unit{};
      }
      case '(':
        marks_.push_back(stack_.size());
        return Unit{};
      case 'N':
        return push({});
      case 0x88:
      case 0x89:
        return push({.kind = Kind::Bool, .integer = code == 0x88});
      case 'J': {
        TRY(const std::uint64_t value, number(4));
        return push_integer(static_cast<std::int32_t>(value));
      }
      case 'K':
      case 'M': {
        TRY(const std::uint64_t value, number(code == 'K' ? 1 : 2));
        return push_integer(static_cast<std::int64_t>(value));
      }
      case 0x8a:
        return push_long();
      case 'G': {  // a float: its value is not needed
        TRY([[maybe_unused]] const std::string_view bits, piece(8));
        return push({.kind = Kind::Real});
      }
      case 'X':
        return push_text(4);
      case 0x8c:
        return push_text(1);
      case ']':
      case ')':
        return push({.kind = Kind::List});
      case '}':
        return push({.kind = Kind::Dict});
      case 0x85:
        return tuple(1);
      case 0x86:
        return tuple(2);
      case 0x87:
        return tuple(3);
      case 't': {
        TRY(auto items, since_mark());
        return push({.kind = Kind::List, .items = std::move(items)});
      }
      case 'a': {
        TRY(const auto items, newest(1));
        return add(Kind::List, items);
      }
      case 'e': {
        TRY(const auto items, since_mark());
        return add(Kind::List, items);
      }
      case 's': {
        TRY(const auto items, newest(2));
        return add(Kind::Dict, items);
      }
      case 'u': {
        TRY(const auto items, since_mark());
        return add(Kind::Dict, items);
      }
      case 'q':
      case 'r': {
        TRY(const std::uint64_t place, number(code == 'q' ? 1 : 4));
        return remember(place);
      }
      case 'h':
      case 'j': {
        TRY(const std::uint64_t place, number(code == 'h' ? 1 : 4));
        return recall(place);
      }
      case '.': {
        TRY(const auto root, newest(1));
        pickle_.root_ = root.front();
        done_ = true;
        return Unit{};
      }
      default:
        return wrong(fmt::format("instruction {:#04x} is not one of plain data", code));
    }
  }

  std::string_view rest_;
  const std::size_t size_;
  Pickle pickle_;
  std::vector<Index> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Index> memo_;
  bool done_ = false;
};

Result<Pickle> Pickle::read(std::string_view bytes) {
  if (bytes.size() > kPickleBytesMax)
    return Error{Errc::ResourceExhausted, fmt::format("a pickle has {} bytes, at most {} are read",
                                                      bytes.size(), kPickleBytesMax)};
  return PickleReader(bytes).run();
}

}  // namespace train
