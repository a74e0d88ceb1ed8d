#include "launcher/report/line_filter.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <utility>

namespace train {
namespace {

constexpr std::size_t kExpressionBytesMax = 4096;
constexpr std::int64_t kMemoryMax = 8 << 20;

}  // namespace

LineFilter::LineFilter(std::unique_ptr<re2::RE2> expression) : expression_(std::move(expression)) {}
LineFilter::LineFilter(LineFilter&&) noexcept = default;
LineFilter& LineFilter::operator=(LineFilter&&) noexcept = default;
LineFilter::~LineFilter() = default;

Result<LineFilter> LineFilter::parse(std::string_view expression) {
  if (expression.size() > kExpressionBytesMax)
    return Error{Errc::InvalidArgument,
                 fmt::format("the regular expression has {} bytes, more than {}", expression.size(),
                             kExpressionBytesMax)};
  RE2::Options options;
  options.set_max_mem(kMemoryMax);
  options.set_log_errors(false);
  auto compiled =
      std::make_unique<RE2>(re2::StringPiece(expression.data(), expression.size()), options);
  if (!compiled->ok())
    return Error{Errc::InvalidArgument,
                 fmt::format("'{}' is no regular expression: {}", expression, compiled->error()),
                 "write a backslash in front of characters that stand for themselves, such as \\[ "
                 "and \\("};
  return LineFilter(std::move(compiled));
}

bool LineFilter::matches(std::string_view line) const {
  return RE2::PartialMatch(re2::StringPiece(line.data(), line.size()), *expression_);
}

}  // namespace train
