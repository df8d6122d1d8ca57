// One request from its first message to its last: a strand, and its samples on it. Knows messages, but no
// gRPC.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/concurrency/executor.h"
#include "common/transport/stream.h"
#include "orchestrator/generate/generate_parts.h"
#include "orchestrator/generate/sample.h"
#include "orchestrator/request/request.h"
#include "orchestrator/stream/token_stream.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// Thread-safe, but for Prepare and Refuse, which are called on the strand (Post). Prepare, then OnDecided
// once, and any events; `done` is called once, on any thread, when nothing is left of the request but messages
// in the sink. Until then the owner keeps the shared_ptr.
//
// Started is sent when the request is admitted, not when it is found good: it names the models as they are
// when the work begins.
//
// A request takes one place of admission, whatever its samples: half of one would be of no use to anybody.
// Slots at a target are taken by the sample, as they come free.
//
// All samples run at once, each as a sequence of its own, on the request's one strand: so their messages,
// a cancellation and the end need no other order. The request ends when all have ended; with the status of
// the first that fails, and then the others are cancelled.
class GenerateCall final : public std::enable_shared_from_this<GenerateCall>, private SampleOwner {
 public:
  using Sink = transport::Sink<v1::GenerateReply>;
  using MakeDetokenizer =
      std::function<std::unique_ptr<Detokenizer>(const GenerationRequest& request)>;

  // `make_detokenizer`: called once a sample. `observer`: not null; hears of the end.
  GenerateCall(const GenerateParts& parts, MakeDetokenizer make_detokenizer,
               std::shared_ptr<Sink> sink, absl::Duration arrived,
               std::unique_ptr<RequestObserver> observer);
  ~GenerateCall() override;

  // What is said when the request begins, or why it cannot begin after all.
  using MakeStarted = std::function<absl::StatusOr<v1::Started>(const GenerationRequest& request)>;

  // Runs a task on the strand, on a worker: one that checks the request, and then calls Prepare or Refuse. Not
  // once the call has ended; it is destroyed all the same.
  void Post(concurrency::Task task);

  // On the strand. The request was found good. INVALID_ARGUMENT, and neither function will be called, when its
  // output prefix ends the text. `make_started` is called at most once, before `done`.
  absl::Status Prepare(GenerationRequest request, MakeStarted make_started,
                       std::function<void()> done);
  // On the strand, in place of OnDecided: ends the call with `status`. `done` is not called.
  void Refuse(absl::Status status);

  // The wait to be admitted is over (Admission::Decided): begins, or ends the request with `status`. Does
  // nothing for a request that was cancelled meanwhile.
  void OnDecided(absl::Status status, absl::Duration waited);

  void OnWritten();                  // a message of ours left the sink
  void Cancel(absl::Status status);  // ends the request with it

 private:
  void SendReply(uint32_t sample, v1::GenerateReply reply) override;
  void SendAside(v1::GenerateReply reply) override;
  void OnSampleEnded(uint32_t sample) override;

  // Runs `work` on the strand, on one of parts_.workers if there are any; not once the call has ended.
  void OnWorker(absl::AnyInvocable<void(GenerateCall&)> work);
  void AddSample();
  void Start(v1::Started started);
  void EndUnbegun(absl::Status status);
  void TellObserver(const absl::Status& status);
  void End(absl::Status status);
  void Release();

  const GenerateParts& parts_;
  const std::shared_ptr<Sink> sink_;
  const absl::Duration arrived_;
  const std::unique_ptr<RequestObserver> observer_;

  concurrency::SerialExecutor strand_;
  // All below is touched on the strand only.
  std::shared_ptr<const GenerationRequest> request_;  // null: not checked yet, or refused
  std::optional<SampleRequest> first_sample_;         // absent: likewise
  MakeDetokenizer make_detokenizer_;
  MakeStarted make_started_;
  std::function<void()> done_;
  absl::Duration waited_;  // to be admitted
  bool begun_ = false;
  bool ended_ = false;
  std::vector<std::unique_ptr<Sample>> samples_;
  size_t samples_ended_ = 0;
  // Whose message each one in the sink is; empty: the request's.
  std::deque<std::optional<uint32_t>> unwritten_;
};

}  // namespace tandem::orchestrator
