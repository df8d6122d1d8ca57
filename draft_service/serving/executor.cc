#include "draft_service/serving/executor.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>

#include "common/base/version.h"
#include "common/telemetry/metrics_text.h"

namespace tandem::draft_service {
namespace {

constexpr size_t kMaxArrivals = 16384;  // that wait

}  // namespace

Executor::Executor(const Options& options)
    : serving::Executor<Stream, Arrival>(
          {.clock = options.clock,
           .max_waiting = kMaxArrivals,
           .too_many = "too many messages wait for the drafting thread: wait for Blocks before "
                       "sending more",
           .shut_down = "the draft is shutting down: open at another one"}),
      instance_id_(options.instance_id),
      observer_(options.tracer, options.model_name),
      answers_(clock(), streams(), observer_,
               [this] {
                 Report();
                 return load();
               }),
      sequences_({options.drafters, options.default_drafter}, options.max_sequences),
      passes_(options.pass_rows, clock()),
      prepared_(options.vocabulary_size, streams(), answers_, sequences_, passes_, observer_),
      blocks_(options.vocabulary_size, clock(), streams(), answers_, sequences_, passes_,
              prepared_) {
  Report();
}

Executor::~Executor() = default;

std::string Executor::MetricsText() const {
  return telemetry::MetricsText(
      observer_.metrics().Collect(load(), active_sequences()),
      {"draft", std::string(base::Version()), instance_id_, observer_.model_name()});
}

bool Executor::Compute() {
  if (!passes_.empty()) meter().BeginWork();
  blocks_.CutLate();
  answers_.Send();  // what is there waits for no pass
  const bool ran = RunPasses();
  answers_.Send();
  EndFinished();
  if (draining()) HandOver();
  Report();
  meter().EndWork();
  return ran;
}

bool Executor::RunPasses() {
  absl::Status device;
  const bool ran = passes_.Run([&](const EndedPass& pass) {
    device.Update(pass.device);
    if (pass.rows > 0) {
      meter().CountPass(static_cast<uint64_t>(pass.rows), static_cast<uint64_t>(pass.sequences));
      observer_.OnPass(pass.rows, pass.sequences);
    }
    blocks_.OnPassEnded(pass);
  });
  if (failure().ok() && !device.ok()) GiveUp(device);
  return ran;
}

void Executor::Handle(Arrival arrival) {
  std::visit([this](auto& alternative) { HandleOne(std::move(alternative)); }, arrival);
}

void Executor::HandleOne(OpenArrives open) {
  const Stream* const stream = streams().Find(open.stream);
  if (stream == nullptr) return;
  Sequence* const other = draining() ? nullptr : sequences_.GivesWayTo(open, stream->group);
  if (other != nullptr) {
    prepared_.End(*other);
    passes_.Leave(*other);
    sequences_.GiveWay(*other);
  }
  Sequence* sequence = sequences_.Open(std::move(open), stream->group, draining());
  if (sequence != nullptr) passes_.JoinOrLeave(*sequence);  // a long prompt is read ahead
}

void Executor::HandleOne(SubmittedArrives submitted) {
  Sequence* sequence = sequences_.Find(submitted.stream, submitted.sequence);
  if (sequence != nullptr) prepared_.OnSubmitted(*sequence, submitted.block_id, submitted.nodes);
}

void Executor::HandleOne(CloseArrives close) {
  Sequence* sequence = sequences_.Find(close.stream, close.sequence);
  if (sequence == nullptr) return;
  prepared_.End(*sequence);
  passes_.Leave(*sequence);
  if (sequence->unanswered.has_value()) {
    blocks_.Refuse(*sequence,
                   messages::MakeRefusal(internal::v1::STATUS_CLOSED, "its sequence was closed"));
  }
  sequences_.Erase(*sequence);
}

void Executor::Free(Stream& stream, bool /*may_return*/) {
  while (Sequence* sequence = sequences_.AnyOf(stream.id)) {
    prepared_.End(*sequence);
    blocks_.Drop(*sequence);
    passes_.Leave(*sequence);
    sequences_.Erase(*sequence);
  }
  answers_.Send(stream);
  groups_.Leave(stream.client_id);
}

// Whoever is told so opens at another draft at once, and has it ready at the next round. To wait
// for the end of its requests would be no better for them: a draft's state is cheap to build anew.
// What is asked for from now on is refused, else a stream of many sequences might be owed some
// Block for ever.
void Executor::HandOver() {
  for (StreamId id : streams().Idle()) EndStream(id, shut_down());
  streams().ForEach([](Stream& stream) { stream.handed_over = true; });
}

void Executor::Report() {
  set_active_sequences(sequences_.live());
  const size_t free = draining() ? 0 : sequences_.free();
  const int64_t rows = std::clamp<int64_t>(passes_.waiting_rows(), 0, UINT32_MAX);
  meter().SetWaiting(static_cast<uint32_t>(free), static_cast<uint32_t>(rows));
}

}  // namespace tandem::draft_service
