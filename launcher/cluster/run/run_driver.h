// Performs a run: the shell around RunController. It owns the links to the daemons, the run's
// record, the report pipeline, the commits and the screen, and decides nothing about training. All
// of it runs on the thread that calls run(), unless a member's comment says otherwise.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cluster/checkpoints/checkpoint_committer.h"
#include "launcher/cluster/checkpoints/checkpoint_manager.h"
#include "launcher/cluster/checkpoints/replica_downloader.h"
#include "launcher/cluster/checkpoints/shard_transfer.h"
#include "launcher/cluster/checkpoints/validation_executor.h"
#include "launcher/cluster/code/code_shipment.h"
#include "launcher/cluster/links/cluster_links.h"
#include "launcher/cluster/links/controller_messages.h"
#include "launcher/cluster/links/node_discovery.h"
#include "launcher/cluster/links/private_daemon.h"
#include "launcher/cluster/mlflow/mlflow_logger.h"
#include "launcher/cluster/notify/run_notifier.h"
#include "launcher/cluster/reports/report_pipeline.h"
#include "launcher/cluster/run/driver_port.h"
#include "launcher/cluster/run/failover_keeper.h"
#include "launcher/cluster/run/journal_writer.h"
#include "launcher/cluster/run/node_notes.h"
#include "launcher/cluster/run/node_setups.h"
#include "launcher/cluster/run/output_receiver.h"
#include "launcher/cluster/run/run_inspection.h"
#include "launcher/cluster/run/run_job.h"
#include "launcher/cluster/run/run_log.h"
#include "launcher/cluster/run/run_news.h"
#include "launcher/cluster/run/run_programs.h"
#include "launcher/cluster/run/run_record.h"
#include "launcher/cluster/run/run_screen.h"
#include "launcher/cluster/run/run_summary_builder.h"
#include "launcher/cluster/run/sample_recorder.h"
#include "launcher/cluster/run/shutdown_flush.h"
#include "launcher/cluster/run/slurm_job.h"
#include "launcher/cluster/run/stop_requests.h"
#include "launcher/cluster/run/time_notes.h"
#include "launcher/cluster/run/worker_hold.h"
#include "launcher/core/report_pace.h"
#include "launcher/core/run_controller.h"
#include "lib/base/exit_code.h"
#include "lib/net/notifier.h"
#include "lib/net/scope.h"
#include "lib/wire/attempt_messages.h"

namespace train {

class RunDriver final : private LinkObserver {
 public:
  RunDriver(const RunOptions& options, std::unique_ptr<RunRecord> record,
            std::optional<PrivateDaemon> daemon, TlsFiles tls,
            std::map<std::string, std::string> worker_env, std::vector<NotifyTarget> notify,
            std::optional<MlflowOptions> mlflow, Log log);

  /// The run is part of a Slurm job. `step`: with its daemons; null if others have started them. It
  /// must outlive this. Call this before run().
  void is_in_slurm(const SlurmAllocation& job, SlurmStep* step);
  /// Open the sinks for reports. Call this once, before run().
  Result<Unit> open_sinks();
  /// Perform the run to its end, and return the exit code.
  int run();

 private:
  // links
  void connect();
  void refused(const Error& error) override;
  void received(NodeId node, const Frame& frame) override;
  void turned_away(const Error& error) override;
  void stale(const Error& error) override;
  asio::awaitable<void> keep_private_daemon();

  // the controller
  void feed(const RunEvent& event) override;
  void perform(const RunAction& action);
  void on_state_changed(const StateChanged& change);
  void on_attempt_ended(const AttemptEnded& ended);
  asio::awaitable<void> tick_loop();

  bool trains_here() const;
  void connect_driver();
  EventNotifier::Options notify_options();
  void say(const std::string& text);  // any thread may call

  // what it asks for
  CheckpointContext checkpoint_context();
  asio::awaitable<void> start_workers(std::vector<Start> actions);
  asio::awaitable<void> commit(Commit action);
  asio::awaitable<void> release(Release action);
  asio::awaitable<void> finish(RunEnded ended);
  Task<Unit> all_released();
  Task<Unit> disk_is_idle();
  Task<Unit> flushed(std::uint64_t number);

  // what arrives
  void on_node_status(const std::string& name, NodeStatus status);
  void on_data_bound(const DataBoundWatch::Change& change);
  void on_report_news(ReportPipeline::News news);
  void send_acks(const ReportPace::Acks& due);
  RunPrograms::Setup setup();
  void on_set_up();
  void on_setup_failed(const SetupFailure& failure);
  void on_code_failed(const Error& error);
  void on_stop_asked(const StopAsked& stop);

  std::vector<WaitingNode> missing_nodes() const;

  const RunOptions& options_;
  const JobSpec& spec_;
  SystemClock clock_;
  asio::io_context context_;
  asio::any_io_executor executor_;
  std::unique_ptr<RunRecord> record_;
  RunIdentity run_;  // its code is known once the run is set up
  std::optional<PrivateDaemon> daemon_;
  std::map<std::string, std::string> worker_env_;
  CheckpointManager checkpoints_;  // on the disk thread, once commits begin
  RunController controller_;
  CollectiveFrames collective_frames_;
  RunLog log_;
  RunSummaryBuilder summary_builder_;
  RunScreen screen_;
  NodeNotes notes_{screen_};
  JournalWriter journal_;
  NodeSetups node_setups_;
  std::unique_ptr<ReportPipeline> pipeline_;
  ClusterLinks links_;
  WorkerHold hold_;
  std::unique_ptr<NodeDiscovery> discovery_;  // if nodes are found while the run goes on
  OutputReceiver output_;
  ShardTransfer shards_;
  int ranks_ = 0;  // the most that an attempt can have
  std::uint64_t flushed_ = 0;
  std::vector<Start> starts_;  // of one event: sent together
  ReportPace pace_;
  int releases_ = 0;
  int exit_code_ = exit_code::kBug;
  bool ending_ = false, finished_ = false, stop_asked_ = false;
  bool told_end_ = false;                 // to the driver
  std::optional<Attempt> first_attempt_;  // that was prepared
  asio::thread_pool disk_{1};             // commits
  ReplicaDownloader downloader_;
  Notifier changed_;
  Notifier flushed_more_;  // of the reports; or a supervisor was released
  StopRequests stop_requests_;
  Scope scope_;
  ShutdownFlush shutdown_flush_;
  RunNotifier notifier_;
  std::unique_ptr<MlflowLogger> mlflow_;  // if the spec asks for it
  std::unique_ptr<DriverPort> driver_;    // if a driver started us
  RunPrograms programs_;
  RunNews news_;
  ValidationExecutor validations_;
  CheckpointCommitter commits_;
  RunInspection inspection_;
  SampleRecorder samples_;
  TimeNotes time_notes_;
  CodeShipment code_;
  std::unique_ptr<SlurmJob> slurm_;           // if it is part of one
  std::unique_ptr<FailoverKeeper> failover_;  // if other nodes may take over
};

}  // namespace train
