#include "lib/data/flight/flight_peer.h"

#include "lib/data/flight/flight_call.h"
#include "lib/data/flight/flight_terms.h"

namespace train::data {
namespace {

class FlightPeer final : public IngestPeer {
 public:
  explicit FlightPeer(std::shared_ptr<FlightCall> call) : call_(std::move(call)) {}
  ~FlightPeer() override { call_->leave(); }

  int descriptor() const override { return call_->descriptor(); }
  bool wants_to_write() const override { return false; }
  bool is_up() const override { return call_->is_up(); }
  Result<Unit> open(const OpenPass& pass) override {
    call_->set_credit(pass.credit_bytes);
    return call_->send(frame_of(pass));
  }
  Result<Unit> ask(const Ask& ask) override { return call_->send(frame_of(ask)); }
  Result<Unit> exchange(std::vector<PartAnswer>& answers) override {
    std::optional<Error> ended;
    for (PartAnswer& answer : call_->take(ended)) answers.push_back(std::move(answer));
    return ended ? Result<Unit>(*ended) : Result<Unit>(Unit{});
  }

 private:
  const std::shared_ptr<FlightCall> call_;
};

}  // namespace

Result<std::unique_ptr<IngestPeer>> flight_peer(const FlightAccess& access) {
  TRY(const auto location, flight_location(access.address, !access.certificate.empty()));
  TRY(auto call, FlightCall::start(access, location));
  return std::unique_ptr<IngestPeer>(std::make_unique<FlightPeer>(std::move(call)));
}

}  // namespace train::data
