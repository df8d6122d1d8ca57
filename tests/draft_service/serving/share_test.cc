// Who gets the rows of a pass, and what is told of the load.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "tests/draft_service/harness.h"
#include "tests/support/wait.h"

namespace tandem::draft_service::share_test {
namespace {

const std::vector<uint32_t> kPrompt = {1, 2, 3, 4, 5};

// Runs passes until each sequence of a stream was answered with OK, by number.
std::map<uint64_t, int> PassesUntilAnswered(Harness& draft, std::vector<Harness::Stream*> streams,
                                            size_t blocks) {
  std::map<uint64_t, int> passes;
  for (int pass = 1; passes.size() < blocks; ++pass) {
    EXPECT_TRUE(draft.executor->RunOnce());
    for (Harness::Stream* stream : streams) {
      for (const internal::v1::Block& block : stream->sink->Take()) {
        EXPECT_EQ(block.status(), internal::v1::STATUS_OK) << block.ShortDebugString();
        EXPECT_TRUE(passes.emplace(block.sequence(), pass).second);
      }
    }
  }
  return passes;
}

TEST(DraftShare, ALoneClientIsInEveryStepBesideOneWithMany) {
  Options options;
  options.pass_rows = 4;
  options.max_draft_tokens = 8;
  Harness draft(options);
  auto many = draft.Connect("many");
  auto lone = draft.Connect("lone");
  const std::vector<uint32_t> prompt = {1};
  for (uint64_t i = 1; i <= 64; ++i) {
    many.Send(MakeOpen(i, prompt));
    many.Send(MakeAdvance(i, 1, prompt, 1, 8));
  }
  draft.executor->RunOnce();
  lone.Send(MakeOpen(1000, prompt));
  lone.Send(MakeAdvance(1000, 1, prompt, 1, 8));
  const auto passes = PassesUntilAnswered(draft, {&many, &lone}, 65);
  EXPECT_EQ(passes.at(1000), 8);
  // The others share what is left evenly: nobody is done long before the rest.
  for (uint64_t i = 1; i <= 64; ++i) EXPECT_GT(passes.at(i), 110) << i;
}

TEST(DraftShare, OneClientsStreamsAreOneShare) {
  Options options;
  options.pass_rows = 2;
  Harness draft(options);
  std::vector<Harness::Stream> streams;
  const std::vector<uint32_t> prompt = {1};
  for (uint64_t i = 1; i <= 8; ++i) {  // as an orchestrator does it: a stream per request
    streams.push_back(draft.Connect("many"));
    streams.back().Send(MakeOpen(i, prompt));
    streams.back().Send(MakeAdvance(i, 1, prompt, 1, 4));
  }
  streams.push_back(draft.Connect("lone"));
  streams.back().Send(MakeOpen(1000, prompt));
  streams.back().Send(MakeAdvance(1000, 1, prompt, 1, 4));
  std::vector<Harness::Stream*> all;
  for (Harness::Stream& stream : streams) all.push_back(&stream);
  EXPECT_EQ(PassesUntilAnswered(draft, all, 9).at(1000), 4);
}

TEST(DraftShare, PriorityIsAWeight) {
  Options options;
  options.pass_rows = 1;
  Harness draft(options);
  auto stream = draft.Connect();
  const std::vector<uint32_t> prompt = {1};
  internal::v1::SequenceOptions urgent = SampledOptions();
  urgent.set_priority(3);
  stream.Send(MakeOpen(1, prompt));
  stream.Send(MakeOpen(2, prompt, "", urgent));
  stream.Send(MakeAdvance(1, 1, prompt, 1, 16));
  stream.Send(MakeAdvance(2, 1, prompt, 1, 16));
  const auto passes = PassesUntilAnswered(draft, {&stream}, 2);
  EXPECT_EQ(passes.at(1), 32);
  EXPECT_LE(passes.at(2), 22);  // 16 of its own and a quarter as many of the other's
}

TEST(DraftShare, APromptTakesAtMostHalfWhileBlocksAreDrafted) {
  Options options;
  options.pass_rows = 8;
  testing::TableModelOptions model;
  std::vector<int> reading;  // rows without logits of each pass
  std::vector<int> rows;
  model.before_pass = [&](absl::Span<const model::ForwardPart> parts) {
    reading.push_back(0);
    rows.push_back(0);
    for (const model::ForwardPart& part : parts) {
      const int size = static_cast<int>(part.tokens.size());
      rows.back() += size;
      if (part.first_logits_row == size) reading.back() += size;
    }
    return absl::OkStatus();
  };
  Harness draft(options, model);
  auto stream = draft.Connect();
  const std::vector<uint32_t> prompt = {1};
  for (uint64_t i = 1; i <= 6; ++i) {
    stream.Send(MakeOpen(i, prompt));
    stream.Send(MakeAdvance(i, 1, prompt, 1, 8));
  }
  stream.Send(MakeOpen(7, std::vector<uint32_t>(150, 2)));
  const auto passes = PassesUntilAnswered(draft, {&stream}, 6);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_LE(rows[i], 8);
    EXPECT_LE(reading[i], 4) << "pass " << i;
    EXPECT_GE(reading[i], 2) << "a prompt is read all the same";
  }
  // 6 blocks of 8 rows, 4 rows per pass.
  for (const auto& [sequence, pass] : passes) EXPECT_LE(pass, 13);
  draft.RunAll();
  EXPECT_EQ(draft.model.rows(), 6 * 8 + 149);
  EXPECT_EQ(*std::max_element(rows.begin(), rows.end()), 8);
}

// With one row per pass a prompt and a block take turns.
TEST(DraftShare, OneRowIsSharedToo) {
  Options options;
  options.pass_rows = 1;
  Harness draft(options);
  auto stream = draft.Connect();
  const std::vector<uint32_t> prompt = {1};
  stream.Send(MakeOpen(1, std::vector<uint32_t>(100, 2)));
  stream.Send(MakeOpen(2, prompt));
  stream.Send(MakeAdvance(2, 1, prompt, 1, 8));
  EXPECT_LE(PassesUntilAnswered(draft, {&stream}, 1).at(2), 16);
  draft.RunAll();
  EXPECT_EQ(draft.model.rows(), 99 + 8);
}

// A pass of the model takes 100 us and 10 us per row, or as long as `time` says.
class Timed {
 public:
  explicit Timed(Options options = {}) : draft(std::move(options), Model()) {}

  absl::Duration base = absl::Microseconds(100);
  absl::Duration per_row = absl::Microseconds(10);
  int last_rows = 0;
  Harness draft;

 private:
  testing::TableModelOptions Model() {
    testing::TableModelOptions model;
    model.before_pass = [this](absl::Span<const model::ForwardPart> parts) {
      last_rows = 0;
      for (const model::ForwardPart& part : parts)
        last_rows += static_cast<int>(part.tokens.size());
      draft.clock.Advance(base + last_rows * per_row);
      return absl::OkStatus();
    };
    return model;
  }
};

// The most rows of a pass of 64 sequences, once the time of passes is known.
int AutomaticRows(Timed& timed) {
  auto stream = timed.draft.Connect();
  const std::vector<uint32_t> prompt = {1};
  int max = 0;
  for (uint64_t round = 1; round <= 20; ++round) {
    for (uint64_t i = 1; i <= 64; ++i) {
      if (round == 1) stream.Send(MakeOpen(i, prompt));
      if (round <= 10 && i % 8 != 0) continue;  // few first: larger passes are not known yet
      stream.Send(MakeAdvance(i, round, prompt, 1, 4));
    }
    max = 0;
    while (timed.draft.executor->RunOnce()) max = std::max(max, timed.last_rows);
  }
  return max;
}

TEST(DraftShare, AutomaticRowsAreAsManyAsPay) {
  Timed computes_always;
  computes_always.base = absl::Microseconds(10);
  computes_always.per_row = absl::Microseconds(50);
  EXPECT_LE(AutomaticRows(computes_always), 4);
  Timed waits_for_memory;
  waits_for_memory.base = absl::Microseconds(1000);
  waits_for_memory.per_row = absl::Microseconds(1);
  EXPECT_EQ(AutomaticRows(waits_for_memory), 64);
}

TEST(DraftShare, BlocksTellTimesAndLoad) {
  Options options;
  options.max_sequences = 10;
  options.pass_rows = 2;
  Timed timed(options);
  Harness& draft = timed.draft;
  draft.clock.Advance(absl::Microseconds(1000));
  auto stream = draft.Connect();
  const std::vector<uint32_t> prompt = {1};
  for (uint64_t i = 1; i <= 3; ++i) {
    stream.Send(MakeOpen(i, prompt));
    stream.Send(MakeAdvance(i, 1, prompt, 1, 1));
  }
  draft.clock.Advance(absl::Microseconds(50));
  draft.executor->RunOnce();  // the first two
  auto blocks = stream.sink->Take();
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].queued_us(), 50u);
  EXPECT_EQ(blocks[0].computed_us(), 120u);
  EXPECT_EQ(blocks[0].load().free_slots(), 7u);
  EXPECT_EQ(blocks[0].load().queued_rows(), 1u);
  EXPECT_EQ(blocks[0].load().passes(), 1u);
  EXPECT_EQ(blocks[0].load().busy_us(), 120u);
  EXPECT_EQ(blocks[0].load().idle_us(), 1050u);
  EXPECT_TRUE(blocks[0].load().cost_curve().empty());
  draft.RunAll();
  blocks = stream.sink->Take();
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0].queued_us(), 170u);
  EXPECT_EQ(blocks[0].computed_us(), 110u);
  draft.clock.Advance(absl::Microseconds(30));
  const v1::Load load = draft.executor->load();
  EXPECT_EQ(load.passes(), 2u);
  EXPECT_EQ(load.pass_rows(), 3u);
  EXPECT_EQ(load.pass_sequences(), 3u);
  EXPECT_EQ(load.queued_rows(), 0u);
  EXPECT_EQ(load.busy_us(), 230u);
  EXPECT_EQ(load.idle_us(), 1080u);
  stream.Send(MakeClose(1));
  draft.RunAll();
  EXPECT_EQ(draft.executor->load().free_slots(), 8u);
  draft.executor->Drain();
  draft.executor->RunOnce();
  EXPECT_EQ(draft.executor->load().free_slots(), 0u);
}

// Clients on threads of their own, and somebody who watches.
TEST(DraftShare, LoadIsToldWhileBlocksAreDrafted) {
  Harness draft;
  std::thread device([&draft] { draft.executor->Run(); });
  std::atomic<bool> done{false};
  std::thread watcher([&] {
    v1::Load last;
    while (!done) {
      const v1::Load load = draft.executor->load();
      EXPECT_GE(load.passes(), last.passes());
      EXPECT_GE(load.pass_rows(), load.pass_sequences());
      EXPECT_GE(load.pass_sequences(), load.passes());
      EXPECT_LE(load.free_slots(), 256u);
      last = load;
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back([&draft, i] {
      Harness::Stream stream = draft.Connect(std::string(1, static_cast<char>('a' + i)));
      stream.Send(MakeOpen(1, kPrompt));
      for (uint64_t round = 1; round <= 50; ++round) {
        stream.Send(MakeAdvance(1, round, kPrompt, 5));
        std::vector<internal::v1::Block> blocks;
        ASSERT_TRUE(testing::WaitUntil([&] { return !(blocks = stream.sink->Take()).empty(); }));
        ASSERT_EQ(blocks.size(), 1u);
        ASSERT_EQ(blocks[0].status(), internal::v1::STATUS_OK);
      }
      stream.session->OnDone(absl::OkStatus());
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(testing::WaitUntil([&] { return draft.executor->load().free_slots() == 256; }));
  done = true;
  watcher.join();
  draft.executor->Stop();
  device.join();
  EXPECT_EQ(draft.executor->load().pass_rows(), static_cast<uint64_t>(draft.model.rows()));
}

}  // namespace
}  // namespace tandem::draft_service::share_test
