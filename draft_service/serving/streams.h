// The streams that the draft service has (common/serving/stream_table.h).
#pragma once

#include <cstdint>

#include "common/serving/stream_table.h"
#include "common/transport/stream.h"
#include "tandem/internal/v1/draft.pb.h"

namespace tandem::draft_service {

using BlockSink = transport::Sink<internal::v1::DraftReply>;

// It is owed Blocks.
struct Stream : serving::BaseStream<internal::v1::DraftReply> {
  uint64_t group = 0;               // as ClientGroups'
  bool handed_over = false;         // the draft drains: it drafts what was asked for, and no more
  internal::v1::DraftReply unsent;  // Blocks (answers.h)
};

using Streams = serving::StreamTable<Stream>;

}  // namespace tandem::draft_service
