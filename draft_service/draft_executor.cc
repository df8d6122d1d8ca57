#include "draft_service/draft_executor.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/check.h"
#include "common/config/log.h"

namespace tandem::draft_service {

using rpc::Invalid;
using rpc::Refusal;

struct DraftExecutor::Stream {
  std::shared_ptr<BlockSink> sink;
  bool finishing = false;  // the client sends nothing more
};

struct DraftExecutor::Sequence {
  std::unique_ptr<Drafter> drafter;  // null: not opened yet, or `problem` says why not
  std::optional<Refusal> problem;    // the answer to every Advance until it is opened again
  std::optional<Refusal> notice;     // the answer to the next Advance alone
  rpc::HeldPrefix committed;
  std::optional<uint64_t> last_round;  // the last one that was answered with a block
  uint64_t last_block = 0;
  bool busy = false;  // an Advance waits for its Block
};

struct DraftExecutor::Job {
  Key key;
  std::variant<CheckedOpen, CheckedAdvance> work;
  absl::Duration arrived;
};

namespace {

// Sequences that could not be opened are kept to tell why; beyond so many the client is told that they are
// not open.
constexpr size_t kMostRemembered = 65536;
constexpr absl::Duration kRetryAfter = absl::Milliseconds(50);

v1::Block RefusedBlock(uint64_t sequence, uint64_t round, Refusal refusal) {
  v1::Block block;
  block.set_sequence(sequence);
  block.set_round(round);
  block.set_status(refusal.status);
  *block.mutable_problem() = std::move(refusal.problem);
  block.set_final(true);
  return block;
}

}  // namespace

DraftExecutor::DraftExecutor(const Options& options) : options_(options), clock_(*options.clock) {
  TANDEM_CHECK(!options_.drafters.empty());
}

DraftExecutor::~DraftExecutor() = default;

absl::Status DraftExecutor::Push(DraftEvent event) {
  const bool is_work =
      std::holds_alternative<OpenArrives>(event) || std::holds_alternative<AdvanceArrives>(event);
  if (is_work && queue_.size() >= kMostQueued) {
    return absl::ResourceExhaustedError(
        "too many messages wait for the drafting thread: wait for Blocks before sending more");
  }
  return queue_.TryPush(std::move(event));
}

absl::Duration DraftExecutor::busy_for() const {
  const int64_t since = busy_since_ns_;
  return since == 0 ? absl::ZeroDuration() : clock_.Now() - absl::Nanoseconds(since);
}

void DraftExecutor::Run() {
  while (true) {
    if (RunOnce()) continue;
    absl::StatusOr<DraftEvent> event = queue_.Pop();
    if (!event.ok()) return;
    TakeIn(*std::move(event));
  }
}

bool DraftExecutor::RunOnce() {
  bool worked = false;
  while (std::optional<DraftEvent> event = queue_.TryPop()) {
    TakeIn(*std::move(event));
    worked = true;
  }
  if (!jobs_.empty()) {
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_since_ns_ = absl::ToInt64Nanoseconds(clock_.Now());
    RunJob(std::move(job));
    busy_since_ns_ = 0;
    worked = true;
  }
  EndFinished();
  active_sequences_ = LiveSequences();
  return worked;
}

void DraftExecutor::TakeIn(DraftEvent event) {
  std::visit([this](auto& alternative) { TakeIn(std::move(alternative)); }, event);
}

void DraftExecutor::TakeIn(StreamBegins event) {
  auto stream = std::make_unique<Stream>();
  stream->sink = std::move(event.sink);
  streams_[event.stream] = std::move(stream);
}

void DraftExecutor::TakeIn(OpenArrives event) {
  if (!streams_.contains(event.stream)) return;
  const Key key(event.stream, event.sequence);
  auto it = sequences_.find(key);
  if (it != sequences_.end() && !it->second->problem.has_value()) {
    it->second->notice = Invalid("open.sequence", "this sequence is open already: close it first");
    return;
  }
  if (it == sequences_.end() && sequences_.size() >= kMostRemembered) return;
  const size_t live = LiveSequences();
  auto& slot = sequences_[key];
  if (slot == nullptr) {
    slot = std::make_unique<Sequence>();
  } else {
    const bool busy = slot->busy;  // an Advance in the queue keeps its answer
    slot = std::make_unique<Sequence>();
    slot->busy = busy;
  }
  Sequence& sequence = *slot;
  if (auto* refusal = std::get_if<Refusal>(&event.open)) {
    sequence.problem = std::move(*refusal);
    sequence.problem->problem.set_field(absl::StrCat("open.", sequence.problem->problem.field()));
  } else if (draining_) {
    sequence.problem = rpc::MakeRefusal(v1::STATUS_DRAINING,
                                        "the service is shutting down and takes no new sequence");
  } else if (live >= options_.most_sequences) {
    sequence.problem = rpc::NoSlot(
        kRetryAfter, absl::StrCat("all ", options_.most_sequences, " sequences are taken"));
  } else {
    jobs_.push_back({key, std::move(std::get<CheckedOpen>(event.open)), clock_.Now()});
  }
}

void DraftExecutor::TakeIn(AdvanceArrives event) {
  if (!streams_.contains(event.stream)) return;
  const Key key(event.stream, event.sequence);
  auto it = sequences_.find(key);
  std::optional<Refusal> refusal;
  if (auto* invalid = std::get_if<Refusal>(&event.advance)) {
    refusal = std::move(*invalid);
  } else if (it == sequences_.end()) {
    refusal = Invalid("sequence", "this sequence is not open: send Open first");
  } else if (it->second->busy) {
    refusal = Invalid("sequence", "its last Advance is still unanswered: send one at a time");
  }
  if (refusal.has_value()) {
    Send(event.stream, RefusedBlock(event.sequence, event.round, *std::move(refusal)));
    return;
  }
  it->second->busy = true;
  jobs_.push_back({key, std::move(std::get<CheckedAdvance>(event.advance)), event.arrived});
}

void DraftExecutor::TakeIn(CloseArrives event) {
  const Key key(event.stream, event.sequence);
  for (const Job& job : jobs_) {
    if (job.key != key) continue;
    if (const auto* advance = std::get_if<CheckedAdvance>(&job.work)) {
      Send(event.stream,
           RefusedBlock(event.sequence, advance->round,
                        rpc::MakeRefusal(v1::STATUS_CLOSED, "its sequence was closed")));
    }
  }
  std::erase_if(jobs_, [&key](const Job& job) { return job.key == key; });
  sequences_.erase(key);
}

void DraftExecutor::TakeIn(StreamFinishes event) {
  if (auto it = streams_.find(event.stream); it != streams_.end()) it->second->finishing = true;
}

void DraftExecutor::TakeIn(StreamEnds event) { EraseStream(event.stream); }

void DraftExecutor::EraseStream(StreamId stream) {
  std::erase_if(jobs_, [stream](const Job& job) { return job.key.first == stream; });
  absl::erase_if(sequences_, [stream](const auto& entry) { return entry.first.first == stream; });
  streams_.erase(stream);
}

void DraftExecutor::RunJob(Job job) {
  Sequence& sequence = *sequences_.at(job.key);  // closing a sequence removes its jobs
  if (auto* open = std::get_if<CheckedOpen>(&job.work)) {
    OpenSequence(sequence, std::move(*open));
    return;
  }
  const auto& advance = std::get<CheckedAdvance>(job.work);
  v1::Block block = DraftBlock(sequence, advance, job.arrived);
  sequence.busy = false;
  Send(job.key.first, std::move(block));
}

void DraftExecutor::OpenSequence(Sequence& sequence, CheckedOpen open) {
  sequence.problem = MakeDrafter(sequence, open);
  if (sequence.problem.has_value()) return;
  if (open.prefix.keep() == 0 && open.prefix.tokens().empty()) return;
  // A prefix that does not fit is left unread; the first Advance is told so by its own.
  rpc::PrefixMatch match = sequence.committed.Match(open.prefix);
  if (match.refusal.has_value()) return;
  absl::Status status = AcceptPrefix(sequence, open.prefix, 0);
  if (!status.ok()) Fail(sequence, status);
}

std::optional<Refusal> DraftExecutor::MakeDrafter(Sequence& sequence, const CheckedOpen& open) {
  const std::string& name = !open.drafter.empty()              ? open.drafter
                            : options_.default_drafter.empty() ? options_.drafters.front().name
                                                               : options_.default_drafter;
  auto factory = std::find_if(options_.drafters.begin(), options_.drafters.end(),
                              [&name](const DrafterFactory& other) { return other.name == name; });
  if (factory == options_.drafters.end()) {
    auto print = [](std::string* out, const DrafterFactory& other) { out->append(other.name); };
    return Invalid(
        "open.drafter",
        absl::StrCat("\"", name, "\" is none of: ", absl::StrJoin(options_.drafters, ", ", print)));
  }
  auto drafter = factory->make(open.settings);
  if (drafter.ok()) {
    sequence.drafter = *std::move(drafter);
    return std::nullopt;
  }
  std::string message(drafter.status().message());
  if (absl::IsResourceExhausted(drafter.status())) return rpc::NoSlot(kRetryAfter, message);
  if (absl::IsInvalidArgument(drafter.status())) return Invalid("open.options", message);
  return Fail(sequence, drafter.status());
}

absl::Status DraftExecutor::AcceptPrefix(Sequence& sequence, const v1::Prefix& prefix,
                                         uint32_t standing) {
  // What stands beyond `keep` is not told again: the drafter keeps what it computed for it.
  const uint32_t skipped = standing - prefix.keep();
  const absl::Span<const uint32_t> tokens = absl::MakeConstSpan(prefix.tokens()).subspan(skipped);
  sequence.committed.Truncate(standing);
  sequence.committed.Append(tokens);
  return sequence.drafter->Accept(standing, tokens);
}

// A drafter that failed may hold anything, so its sequence ends with it.
Refusal DraftExecutor::Fail(Sequence& sequence, const absl::Status& status) {
  TANDEM_LOG(kError) << "a drafter failed: " << status;
  sequence.drafter = nullptr;
  sequence.problem = rpc::MakeRefusal(v1::STATUS_INTERNAL, status.ToString());
  return *sequence.problem;
}

v1::Block DraftExecutor::DraftBlock(Sequence& sequence, const CheckedAdvance& advance,
                                    absl::Duration arrived) {
  auto refused = [&advance](Refusal refusal) {
    return RefusedBlock(advance.sequence, advance.round, std::move(refusal));
  };
  const absl::Duration began = clock_.Now();
  if (sequence.problem.has_value()) return refused(*sequence.problem);
  if (sequence.drafter == nullptr) {  // a second Open came before this, and waits behind it
    return refused(Invalid("sequence", "it was not open when this Advance came: send Open first"));
  }
  if (sequence.notice.has_value()) {
    return refused(*std::exchange(sequence.notice, std::nullopt));
  }
  if (began - arrived >= advance.wanted_within) {
    return refused(rpc::MakeRefusal(
        v1::STATUS_EXPIRED,
        absl::StrCat("nobody waits for it after ", absl::FormatDuration(advance.wanted_within))));
  }
  if (sequence.last_round.has_value() && advance.round <= *sequence.last_round) {
    return refused(rpc::MakeRefusal(
        v1::STATUS_STALE, absl::StrCat("round ", *sequence.last_round, " was answered already")));
  }
  rpc::PrefixMatch match = sequence.committed.Match(advance.prefix);
  if (match.refusal.has_value()) return refused(*std::move(match.refusal));
  absl::Status accepted = AcceptPrefix(sequence, advance.prefix, match.standing);
  if (!accepted.ok()) return refused(Fail(sequence, accepted));
  absl::StatusOr<DraftedBlock> drafted = sequence.drafter->Propose(advance.most_tokens);
  if (!drafted.ok()) return refused(Fail(sequence, drafted.status()));
  TANDEM_CHECK(drafted->tokens.size() <= advance.most_tokens);
  TANDEM_CHECK(drafted->q.empty() || drafted->q.size() == drafted->tokens.size());

  v1::Block block;
  block.set_sequence(advance.sequence);
  block.set_round(advance.round);
  block.set_status(v1::STATUS_OK);
  block.set_final(true);
  block.mutable_block_id()->set_value(++sequence.last_block);
  for (uint32_t token : drafted->tokens) {
    TANDEM_CHECK(token < options_.vocabulary_size) << token;
    block.add_tokens(token);
  }
  for (const sampling::SparseDistribution& q : drafted->q) {
    v1::SparseDistribution* sent = block.add_q();
    sent->mutable_ids()->Add(q.ids.begin(), q.ids.end());
    sent->mutable_weights()->Add(q.weights.begin(), q.weights.end());
  }
  block.set_computed_us(static_cast<uint64_t>(absl::ToInt64Microseconds(clock_.Now() - began)));
  sequence.last_round = advance.round;
  return block;
}

void DraftExecutor::Send(StreamId stream, v1::Block block) {
  v1::DraftReply reply;
  *reply.mutable_block() = std::move(block);
  streams_.at(stream)->sink->Send(std::move(reply));  // false: its end is on its way
}

void DraftExecutor::EndFinished() {
  std::vector<StreamId> finished;
  for (const auto& [id, stream] : streams_) {
    const StreamId stream_id = id;
    if (stream->finishing && std::none_of(jobs_.begin(), jobs_.end(), [&](const Job& job) {
          return job.key.first == stream_id && std::holds_alternative<CheckedAdvance>(job.work);
        })) {
      finished.push_back(id);
    }
  }
  for (StreamId id : finished) {
    streams_.at(id)->sink->Close(absl::OkStatus());
    EraseStream(id);
  }
}

size_t DraftExecutor::LiveSequences() const {
  return static_cast<size_t>(
      std::count_if(sequences_.begin(), sequences_.end(),
                    [](const auto& entry) { return !entry.second->problem.has_value(); }));
}

}  // namespace tandem::draft_service
