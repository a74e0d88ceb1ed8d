#include <arrow/adapters/orc/adapter.h>
#include <arrow/io/interfaces.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include "lib/data/arrow_error.h"
#include "lib/data/formats/format_file.h"

namespace train::data {
namespace {

// Larger stripes of objects are read piece by piece.
constexpr std::int64_t kStripeBytesMax = 256 << 20;

using Reader = std::unique_ptr<arrow::adapters::orc::ORCFileReader>;

Result<Reader> open_reader(const DataFile& file, std::vector<PlannedRange> plan) {
  ARROW_TRY(const auto input, fmt::format("cannot open {}", file.path),
            open_file(file, std::move(plan)));
  ARROW_TRY(auto reader, fmt::format("{} is not a complete ORC file", file.path),
            arrow::adapters::orc::ORCFileReader::Open(input, arrow::default_memory_pool()));
  return reader;
}

class OrcFile final : public FormatFile {
 public:
  OrcFile(DataFile file, std::shared_ptr<arrow::Schema> schema)
      : file_(std::move(file)), schema_(std::move(schema)) {}

  void add_stripe(const arrow::adapters::orc::StripeInformation& stripe) {
    unit_rows_.push_back(stripe.num_rows);
    // What the file says need not be true; then the stripe is read without a plan.
    const bool known = stripe.offset >= 0 && stripe.length > 0 &&
                       stripe.length <= kStripeBytesMax && stripe.offset <= file_.bytes &&
                       stripe.length <= file_.bytes - stripe.offset;
    stripes_.push_back(known ? PlannedRange{.offset = stripe.offset, .bytes = stripe.length}
                             : PlannedRange{});
  }

  const std::vector<std::int64_t>& unit_rows() const override { return unit_rows_; }
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  std::string_view unit_word() const override { return "stripe"; }

  Result<std::shared_ptr<arrow::Table>> read(std::int64_t unit,
                                             const arrow::Schema& selected) const override {
    TRY(const auto reader, open_reader(file_, {stripes_[static_cast<std::size_t>(unit)]}));
    ARROW_TRY(auto batch, "ORC", reader->ReadStripe(unit, selected.field_names()));
    return checked_table(std::move(batch));
  }

  void expect(std::int64_t unit, const arrow::Schema&) const override {
    expect_reads(file_, {stripes_[static_cast<std::size_t>(unit)]});
  }

 private:
  DataFile file_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::int64_t> unit_rows_;
  std::vector<PlannedRange> stripes_;
};

}  // namespace

OpenedFile open_orc_file(const DataFile& file) {
  TRY(const auto reader, open_reader(file, {}));
  ARROW_TRY(auto schema, fmt::format("cannot read the schema of {}", file.path),
            reader->ReadSchema());
  auto opened = std::make_unique<OrcFile>(file, std::move(schema));
  for (std::int64_t stripe = 0; stripe < reader->NumberOfStripes(); ++stripe)
    opened->add_stripe(reader->GetStripeInformation(stripe));
  return opened;
}

}  // namespace train::data
