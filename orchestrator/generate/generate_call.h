// One request from its first message to its last: a strand, and the request's samples on it. It
// knows messages and no gRPC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/instant.h"
#include "common/concurrency/strand.h"
#include "common/transport/stream.h"
#include "orchestrator/generate/generate_parts.h"
#include "orchestrator/generate/sample.h"
#include "orchestrator/request/request.h"
#include "orchestrator/stream/token_stream.h"
#include "orchestrator/stream/unread_replies.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// Thread-safe, except Prepare and Refuse, which are called on the strand (Post). Prepare comes
// first, then OnDecided once, and any events; OnStreamOver is the last one. `done` is called once,
// on any thread, when the request has nothing left but messages in the sink. The owner keeps the
// shared_ptr until OnStreamOver.
//
// What is in the sink then waits for its client no longer than the reader's patience
// (LoopOptions::abort_after). It is dropped before that, if the clients of all calls leave too much
// unread and this one the most. Both are logged (event unread_dropped) and counted.
//
// Started is sent when the request is admitted, not when it is found valid, because it names the
// models as they are when the work begins.
//
// A request takes one place of admission, however many samples it has, because half a request is of
// no use. Each sample takes a slot at a target as one becomes free.
//
// While all its samples that have not ended wait for the client to read, it gives its place to
// others.
//
// The log probabilities of the prompt come with the first sample. The texts of the others wait
// until all of them are in the sink, so that they precede every delta.
//
// All samples run together on the request's one strand, each as a sequence of its own. So their
// messages, a cancellation and the end need no further ordering. The request ends when all samples
// have ended. If one fails, the others are cancelled, and the request has the status of the first
// that failed.
class GenerateCall final : public std::enable_shared_from_this<GenerateCall>, private SampleOwner {
 public:
  using Sink = transport::Sink<v1::GenerateReply>;
  using MakeDetokenizer =
      std::function<std::unique_ptr<Detokenizer>(const GenerationRequest& request)>;

  // `make_detokenizer` is called once for each sample. `observer` is not null and hears of the end.
  GenerateCall(const GenerateParts& parts, MakeDetokenizer make_detokenizer,
               std::shared_ptr<Sink> sink, concurrency::Instant arrived,
               std::unique_ptr<RequestObserver> observer);
  ~GenerateCall() override;

  // Makes the message Started, or says why the request cannot begin after all.
  using MakeStarted = std::function<absl::StatusOr<v1::Started>(const GenerationRequest& request)>;

  // Runs a task on the strand, on this thread unless another one is there. The task checks the
  // request and then calls Prepare or Refuse. Once the call has ended, the task does not run and is
  // only destroyed.
  void Post(concurrency::Task task);

  // Call on the strand, for a request that was found valid. INVALID_ARGUMENT means that the output
  // prefix ends the text; then no function is called. `make_started` is called at most once, before
  // `done`. `on_paused` is called with true and false alternately, before `done`: the whole request
  // waits for its reader, or does not any more.
  absl::Status Prepare(GenerationRequest request, MakeStarted make_started,
                       std::function<void(bool paused)> on_paused, std::function<void()> done);
  // Call on the strand, instead of OnDecided. Ends the call with `status`. `done` is not called.
  void Refuse(absl::Status status);

  // The wait for admission is over (Admission::Decided). Begins the request, or ends it with
  // `status`. Does nothing if the request was cancelled in the meantime.
  void OnDecided(absl::Status status, absl::Duration waited);

  void OnWritten();                  // one of our messages left the sink
  void Cancel(absl::Status status);  // ends the request with this status
  // StreamHandler::OnDone. If it comes before the request has ended, the request ends: as
  // cancelled, or with the status that the transport ended the stream with.
  void OnStreamOver(absl::Status status);

 private:
  struct Unwritten {
    std::optional<uint32_t> sample;  // that it belongs to; absent: it belongs to the request
    size_t bytes = 0;
  };

  void SendReply(uint32_t sample, v1::GenerateReply reply) override;
  void SendAside(v1::GenerateReply reply) override;
  void OnSamplePaused(bool paused) override;
  void OnSampleEnded(uint32_t sample) override;
  void UpdatePaused();

  // Runs `work` on the strand, on one of parts_.workers if there are any. Does nothing once the
  // call has ended.
  void OnWorker(absl::AnyInvocable<void(GenerateCall&)> work);
  void AddSample();
  void Start(v1::Started started);
  void Send(std::optional<uint32_t> sample, v1::GenerateReply reply);
  void ReleaseTexts();
  void EndEarly(absl::Status status);
  void EndUnbegun(absl::Status status);
  void TellObserver(const absl::Status& status);
  // With `drop` the client gets the status ahead of all that it has not read.
  void End(absl::Status status, std::optional<UnreadDrop> drop = std::nullopt);
  void AwaitReader();
  void StopReaderTimer();
  void OnTooMuchUnread(absl::Status status);
  void OnReaderTimer();
  void DropUnread(absl::Status status, UnreadDrop cause);
  void ForgetUnread();
  void Release();

  const GenerateParts& parts_;
  const std::shared_ptr<Sink> sink_;
  const concurrency::Instant arrived_;
  const std::unique_ptr<RequestObserver> observer_;

  concurrency::Strand strand_;
  // The members below are used on the strand only.
  std::shared_ptr<const GenerationRequest> request_;  // null: not checked yet, or refused
  std::optional<SampleRequest> first_sample_;         // absent: likewise
  MakeDetokenizer make_detokenizer_;
  MakeStarted make_started_;
  std::function<void(bool paused)> on_paused_;
  std::function<void()> done_;
  absl::Duration waited_;  // for admission
  bool begun_ = false;
  bool ended_ = false;
  std::vector<std::unique_ptr<Sample>> samples_;
  size_t samples_ended_ = 0;
  size_t samples_paused_ = 0;
  bool paused_ = false;                    // the whole request
  std::deque<Unwritten> unwritten_;        // the messages in the sink
  UnreadCall unread_;                      // their bytes, and those of text that is not in it yet
  bool dropped_ = false;                   // what was in it
  concurrency::TimerId reader_timer_ = 0;  // 0: not set
};

}  // namespace tandem::orchestrator
