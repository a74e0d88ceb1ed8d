// The batches of a pass, read by ingest workers: it asks for the parts of the next steps, of
// whoever owns their addresses, and puts the batches together. Each position of the pass is handed
// out once, in order, whatever becomes of the ingest workers: an ask whose ingest worker dies, or
// takes too long, goes to another one, and the first answer counts. If for long there is nobody to
// ask, the rank reads for itself. Rows at which ingest workers die again and again are not read at
// all. One thread uses a reader at a time.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/data/batch_reader.h"
#include "lib/data/serve/ask_times.h"
#include "lib/data/serve/ingest_peer.h"
#include "lib/data/serve/join_parts.h"
#include "lib/model/ingest_roster.h"

namespace train::data {

class IngestReader final : public BatchSource {
 public:
  using Clock = std::chrono::steady_clock;
  struct Limits {
    Clock::duration ask_least = AskTimes::kLeast;  // the shortest deadline
    /// Without anybody to ask for so long, the rank reads for itself.
    Clock::duration alone_after = std::chrono::seconds(10);
    Clock::duration reconnect_after = std::chrono::seconds(1);
    int deaths_max = 3;    // of ingest workers that were reading the same rows
    int steps_ahead = 32;  // that are asked for at one time, at most
  };
  /// What it needs of others. They are called on the thread that reads.
  struct Uses {
    std::function<IngestRoster()> roster = {};
    std::function<Result<std::unique_ptr<IngestPeer>>(const IngestEndpoint&)> connect = {};
    /// Make what reads and maps the rank's own batches.
    std::function<std::unique_ptr<BatchSource>()> read_alone = {};
    /// Leave a bad row out, or return the error that ends the pass.
    std::function<Result<Unit>(std::int64_t unit, std::int64_t row, Error why)> leave_out = {};
    std::function<void(const std::vector<OperatorShare>&)> count = {};
    std::function<std::string(std::int64_t unit, std::int64_t row)> describe = {};
    /// Whether the previous pass read for itself at its end: then this one does not wait for
    /// anybody either, and says nothing of it. The reader sets it.
    std::shared_ptr<bool> reads_alone = std::make_shared<bool>(false);
    /// Units at which ingest workers have died: nobody is asked for their rows. The reader adds to
    /// it; the passes of a dataset share it.
    std::shared_ptr<std::set<std::int64_t>> deadly_units =
        std::make_shared<std::set<std::int64_t>>();
    std::function<void(const std::string& line)> say = {};
  };

  IngestReader(std::shared_ptr<const ShardPlan> plan, OpenPass pass, Uses uses,
               std::shared_ptr<DatasetMeters> meters = {})
      : IngestReader(std::move(plan), std::move(pass), std::move(uses), std::move(meters),
                     Limits()) {}
  IngestReader(std::shared_ptr<const ShardPlan> plan, OpenPass pass, Uses uses,
               std::shared_ptr<DatasetMeters> meters, Limits limits);

  Result<ReadBatch> read(std::int64_t index) override;

  /// What parts are like: their columns, and whether flat maps change how many rows there are.
  struct Like {
    std::shared_ptr<arrow::Schema> schema = {};
    bool is_flat = false;
  };

 private:
  struct Peer {
    IngestEndpoint endpoint = {};
    std::unique_ptr<IngestPeer> connection = {};  // null: none
    Clock::time_point retry_at = {};
    bool slow = false;     // has missed a deadline, and not answered since
    bool refused = false;  // cannot serve this pass
    bool usable() const { return connection && connection->is_up() && !slow && !refused; }
  };
  using Peers = std::map<std::string, Peer>;
  struct Asked {
    std::string peer = {};
    std::uint64_t sequence = 0;
    Clock::time_point at = {};
  };
  struct Part {
    AddressSet addresses = {};
    std::int64_t rows = 0;
    std::vector<Asked> asked = {};      // and not answered
    std::set<std::string> failed = {};  // peers that have answered with an error
    std::optional<Error> error = {};    // of the last of them
    std::optional<PartRows> answer = {};
    int deaths = 0;
  };
  struct Step {
    std::vector<Part> parts = {};
    std::vector<RowsFromPart> order = {};
    bool is_fine = false;  // a part an address
  };
  using Steps = std::map<std::int64_t, Step>;
  struct RowPlace {
    std::int64_t unit = 0, row = 0;
  };
  /// A part of a step, and its ask.
  struct Place {
    std::int64_t step = 0;
    std::size_t part = 0;
  };

  void update_peers();
  void connect(Peer& peer);
  /// `named`: the roster has it still.
  void lose(Peer& peer, const Error& why, bool named = true);
  bool reads_alone();
  void exchange();
  void take(Peer& peer, PartAnswer answer);
  void count_time(const Asked& asked);
  Step divide(std::int64_t step, bool finely) const;
  std::vector<RowPlace> rows_of(std::int64_t at_step, std::size_t part, const Step& divided) const;
  void narrow_down(std::int64_t at_step);
  Result<Unit> leave_deadly_rows_out(std::int64_t index);
  std::int64_t steps_ahead() const;
  Result<Unit> ask_ahead(std::int64_t index);
  Result<Unit> ask_somebody(std::int64_t step, std::size_t number);
  Peer* next_peer(const Part& part);
  void look_for_overdue(std::int64_t index);
  void wait();
  Result<ReadBatch> finish(std::int64_t index);
  Result<ReadBatch> read_alone(std::int64_t index);

  const std::shared_ptr<const ShardPlan> plan_;
  const OpenPass pass_;
  const Uses uses_;
  const std::shared_ptr<DatasetMeters> meters_;
  const Limits limits_;
  const Addresses addresses_;

  std::uint64_t roster_version_ = 0;
  bool has_roster_ = false;
  Peers peers_;
  std::vector<std::string> usable_;  // names, as of the last division
  std::vector<std::size_t> owners_;  // of each address, among them
  Steps steps_;
  std::map<std::uint64_t, Place> places_;  // of asks, by their sequence
  std::uint64_t sequence_ = 0;
  std::int64_t step_bytes_ = 0;  // of the last batch; 0: none yet
  std::optional<Like> like_;     // the newest answer
  AskTimes times_;
  Clock::time_point read_began_ = {};
  std::optional<Clock::time_point> nobody_since_;
  std::unique_ptr<BatchSource> alone_;
  std::set<std::string> told_;  // peers whose refusal was told
};

}  // namespace train::data
